"""Train on an event loop: batches are made ahead while the loop is blocked by each step."""

from __future__ import annotations

import torch
from speakers import OPTIONS, Network, accuracy, make_clips, step

import aioaudio


async def train(network: Network) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    async with aioaudio.batches(make_clips(8), shuffle=True, epochs=8, **OPTIONS) as batches:
        async for batch in batches:
            loss = step(network, optimizer, batch)
    consumer = batches.statistics()["consumer"]
    print(f"last loss {loss:.3f}; the model was busy for {consumer.busy:.0%} of the time")


def main() -> None:
    torch.manual_seed(0)
    network = Network()
    print(f"before training: {accuracy(network):.0%} right")
    aioaudio.run(train(network))
    print(f"after training: {accuracy(network):.0%} right")


if __name__ == "__main__":
    main()
