"""What the training examples share: two speakers, a small network that tells them apart, and how well it does."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import aioaudio

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"

#: What every batch is made with: a second at 16 kHz out of each clip, another one in each epoch.
OPTIONS = {"batch_size": 8, "crop_seconds": 1.0, "crop_short": "repeat", "sample_rate": 16_000, "num_channels": 1}


def make_clips(copies: int) -> list[aioaudio.Clip]:
    """Clips of John F. Kennedy (0) and of Linda Johnson (1); each file comes several times, to be cropped anew."""
    files = sorted(path for path in DATA.iterdir() if path.suffix != ".md")
    return [aioaudio.Clip(path, fields={"speaker": int(path.stem == "ljspeech")}) for path in files] * copies


class Network(nn.Module):
    """Mean power in 64 bands, and one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(512))
        self.layer = nn.Linear(64, 2)

    def features(self, waveforms: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(waveforms[:, 0], 512, window=self.window, return_complex=True).abs()
        bands = spectrum[:, 1:].reshape(len(spectrum), 64, 4, -1).mean((2, 3))
        return nn.functional.layer_norm(torch.log(bands + 1e-6), (64,))

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return self.layer(self.features(waveforms))


def speakers_of(batch: aioaudio.Batch) -> torch.Tensor:
    """Who speaks in each row."""
    return torch.tensor([clip.fields["speaker"] for clip in batch.clips])


def step(network: nn.Module, optimizer: torch.optim.Optimizer, batch: aioaudio.Batch) -> float:
    """One step of training; gives the loss."""
    loss = nn.functional.cross_entropy(network(batch.waveforms), speakers_of(batch))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(network: nn.Module) -> float:
    """Share of new crops whose speaker is told right."""
    right = total = 0
    with aioaudio.sync.batches(make_clips(4), seed=1, **OPTIONS) as batches:
        for batch in batches:
            right += int((network(batch.waveforms).argmax(1) == speakers_of(batch)).sum())
            total += len(batch)
    return right / total
