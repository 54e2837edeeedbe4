"""Resampling by a convolution gives what swresample gives: the same number of samples, and the same samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aioaudio.decode.plan import Resampling
from aioaudio.decode.resample import resample
from aioaudio.decode.sinc import convolve, make_kernel, margins

# Of full scale, in float32; in float64 it is nothing but rounding.
TOLERANCE = 2e-6


@pytest.mark.parametrize(("source", "target"), [(44_100, 16_000), (8_000, 16_000), (48_000, 44_100), (96_000, 8_000)])
def test_noise_is_resampled_as_swresample_does(source: int, target: int) -> None:
    resampling = Resampling(source, target)
    before, after = margins(resampling)
    for num_samples in (resampling.shortest, 2_345, 5_003):
        noise = torch.rand((2, num_samples), generator=torch.Generator().manual_seed(1)) * 2 - 1
        wanted = resample(noise, resampling)
        mirrored = torch.cat([noise[:, 1 : before + 1].flip(1), noise, noise[:, -after:].flip(1)], dim=1)
        kernel = make_kernel(resampling)
        found = convolve(mirrored[None], kernel.float(), resampling)[0, :, : wanted.shape[1]]
        assert (found - wanted).abs().max() <= TOLERANCE
        exact = convolve(mirrored[None].double(), kernel, resampling)[0, :, : wanted.shape[1]]
        assert (exact - resample(noise.double(), resampling)).abs().max() <= 1e-12


def test_the_length_of_what_swresample_gives_is_known() -> None:
    rates = [8_000, 11_025, 16_000, 22_050, 44_100, 48_000]
    generator = np.random.default_rng(0)
    for _ in range(150):
        source, target = generator.choice(rates, 2, replace=False).tolist()
        num_samples = int(generator.integers(1, 6_000))
        resampling = Resampling(source, target)
        assert resampling.is_exact
        assert resampling.length(num_samples) == resample(torch.zeros(1, num_samples), resampling).shape[1]
