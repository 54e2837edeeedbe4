"""Channels: which are taken, and how they are mixed.

Mono is the mean of two channels, and of any layout without a standard downmix. Surround layouts follow FFmpeg's matrix
(ITU-R BS.775), normalised so that no sum exceeds full scale. From mono to several channels every channel is a copy.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import av
import av.error
import av.filter
import numpy as np
import torch

from aioaudio.options import LoadOptions

__all__ = ["Matrix", "channel_matrix", "mix_matrix", "pan_filter", "remix", "weighted_sums"]

#: Rows are output channels, columns input channels.
Matrix = tuple[tuple[float, ...], ...]


def channel_matrix(num_channels: int, channel_layout: str | None, options: LoadOptions) -> Matrix | None:
    """How the channels of the source become those of the result; None where they stay as they are.

    Raises ValueError where the source has no such channel, or no standard mix to that many.
    """
    if options.channels is not None:
        missing = [channel for channel in options.channels if channel >= num_channels]
        if missing:
            raise ValueError(f"channels={list(options.channels)} asks for more than the {num_channels} there are")
        if options.channels == tuple(range(num_channels)):
            return None
        return tuple(tuple(float(i == channel) for i in range(num_channels)) for channel in options.channels)
    if options.num_channels is None or options.num_channels == num_channels:
        return None
    return mix_matrix(num_channels, channel_layout, options.num_channels)


@lru_cache(maxsize=256)
def mix_matrix(num_channels: int, channel_layout: str | None, to_channels: int) -> Matrix:
    """The matrix from a layout of `num_channels` (None: positions unknown) to `to_channels`."""
    if num_channels == 1:
        return ((1.0,),) * to_channels
    matrix = None
    if (channel_layout is not None and num_channels > 2) or to_channels > 1:
        matrix = _standard_matrix(num_channels, channel_layout, to_channels)
    if matrix is None and to_channels == 1:
        return ((1.0 / num_channels,) * num_channels,)
    if matrix is None:
        raise ValueError(
            f"there is no standard mix from {channel_layout or f'{num_channels} channels'} to {to_channels} channels: "
            "ask for num_channels=1, or pick some with channels="
        )
    return matrix


def _standard_matrix(num_channels: int, channel_layout: str | None, to_channels: int) -> Matrix | None:
    """FFmpeg's matrix, read off by mixing one unit impulse in each channel; None where it has none.

    FFmpeg drops channels that it has no rule for. A mix that loses one (but for the low frequency effects, which
    a standard downmix leaves out) is none.
    """
    try:
        source = av.AudioLayout(channel_layout or ("stereo" if num_channels == 2 else ""))
        target = _default_layout(to_channels)
        graph = av.filter.Graph()
        buffer = graph.add_abuffer(sample_rate=48_000, format="dbl", layout=source.name, time_base=Fraction(1, 48_000))
        mixer = graph.add("aresample", f"ochl={target}:osf=dbl:rematrix_maxval=1.0")
        sink = graph.add("abuffersink")
        buffer.link_to(mixer)
        mixer.link_to(sink)
        graph.configure()
        impulses = av.AudioFrame.from_ndarray(np.eye(num_channels).reshape(1, -1), format="dbl", layout=source.name)
        impulses.sample_rate = 48_000
        graph.push(impulses)
        graph.push(None)
        mixed = graph.pull().to_ndarray().reshape(num_channels, to_channels).T
    except (av.error.FFmpegError, ValueError, KeyError):
        return None
    low_frequency = np.array([channel.name in ("LFE", "LFE2") for channel in source.channels])
    if (np.abs(mixed).sum(axis=0)[~low_frequency] == 0).any():
        return None
    return tuple(tuple(float(value) for value in row) for row in mixed)


def _default_layout(num_channels: int) -> str:
    layouts = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")
    if num_channels > len(layouts):
        raise ValueError
    return layouts[num_channels - 1]


def remix(samples: torch.Tensor, channel_layout: str | None, options: LoadOptions) -> torch.Tensor:
    """`samples` (num_channels, num_samples) in float, with the channels that `options` asks for."""
    matrix = channel_matrix(samples.shape[0], channel_layout, options)
    if matrix is None:
        return samples
    if options.channels is not None:
        return samples[list(options.channels)]
    if matrix == ((0.5, 0.5),):
        return (samples[0] * 0.5 + samples[1] * 0.5).unsqueeze(0)
    return weighted_sums(samples, matrix)


def weighted_sums(samples: torch.Tensor, matrix: Matrix) -> torch.Tensor:
    """`matrix` applied to the channels of `samples`."""
    return torch.stack([_weighted_sum(samples, gains) for gains in matrix])


def _weighted_sum(samples: torch.Tensor, gains: tuple[float, ...]) -> torch.Tensor:
    # Not by a matrix product: that rounds differently at different places in a block, and a range must equal a slice.
    total = samples.new_zeros(samples.shape[1])
    for channel, gain in zip(samples, gains, strict=True):
        if gain:
            total += channel * gain
    return total


def pan_filter(matrix: Matrix) -> str:
    """FFmpeg's `pan` filter for a matrix."""
    rows = (
        f"c{i}=" + ("+".join(f"{gain!r}*c{j}" for j, gain in enumerate(row) if gain) or "0*c0")
        for i, row in enumerate(matrix)
    )
    return f"pan={len(matrix)}C|" + "|".join(rows)
