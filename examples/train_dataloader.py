"""Train with a plain `for`, over a DataLoader without worker processes; each pass over it is another epoch."""

from __future__ import annotations

import torch
from speakers import OPTIONS, Network, accuracy, make_clips, step
from torch.utils.data import DataLoader

import aioaudio


def main() -> None:
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    dataset = aioaudio.AudioIterableDataset(make_clips(8), shuffle=True, **OPTIONS)
    loader = DataLoader(dataset, batch_size=None, num_workers=0)
    print(f"before training: {accuracy(network):.0%} right")
    for epoch in range(8):
        losses = [step(network, optimizer, batch) for batch in loader]
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    print(f"after training: {accuracy(network):.0%} right")


if __name__ == "__main__":
    main()
