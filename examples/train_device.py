"""Train on a GPU if there is one: batches arrive there on side streams, and features have a stream of their own."""

from __future__ import annotations

import torch
from speakers import OPTIONS, Network, accuracy, make_clips, speakers_of
from torch import nn

import aioaudio

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class StreamedNetwork(Network):
    """Features of a batch are computed beside what the current stream does."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = torch.cuda.Stream() if DEVICE.type == "cuda" else None

    def features(self, waveforms: torch.Tensor) -> torch.Tensor:
        if self.stream is None or not waveforms.is_cuda:
            return super().features(waveforms)
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)  # where the batch arrives
        with torch.cuda.stream(self.stream):
            features = super().features(waveforms)
        waveforms.record_stream(self.stream)
        current.wait_stream(self.stream)
        features.record_stream(current)
        return features


def labels_of(batch: aioaudio.Batch) -> torch.Tensor:
    labels = speakers_of(batch)
    return labels.pin_memory().to(DEVICE, non_blocking=True) if DEVICE.type == "cuda" else labels


async def train(network: Network) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    where = {"device": DEVICE, "resample_on": "device"}
    async with aioaudio.batches(make_clips(8), shuffle=True, epochs=8, **where, **OPTIONS) as batches:
        async for batch in batches:
            loss = nn.functional.cross_entropy(network(batch.waveforms), labels_of(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"last loss {loss.item():.3f}, on {loss.device}")  # to read it in each step would wait for the device


def main() -> None:
    torch.manual_seed(0)
    network = StreamedNetwork()
    print(f"before training: {accuracy(network):.0%} right")
    aioaudio.run(train(network.to(DEVICE)))
    print(f"after training: {accuracy(network.cpu()):.0%} right")


if __name__ == "__main__":
    main()
