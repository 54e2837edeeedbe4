"""Resampling by a convolution, on any device: a windowed sinc for each phase, equal to swresample's.

The method is that of J. O. Smith, "Digital Audio Resampling Home Page" (ccrma.stanford.edu/~jos/resample): the value at
a time between samples is the sum of the samples near it, weighted by a sinc that is cut off at the lower of the two
Nyquist frequencies and windowed. The window is Kaiser's with beta 9; 32 zero crossings and the cut-off at 0.97 are
swresample's defaults. Where the two rates have a ratio of `up` to `down`, only `up` places between samples occur: each
is an output channel of one strided convolution.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from aioaudio.decode.plan import Resampling

__all__ = ["Margins", "convolve", "make_kernel", "margins"]

_KAISER_BETA = 9.0

# (before, after): source samples that a row needs in front of its first and behind its last.
Margins = tuple[int, int]


def margins(resampling: Resampling) -> Margins:
    """The margins that `convolve` wants: the mirrored beginning, and the mirrored end."""
    return (resampling.num_taps - 1) // 2, resampling.num_taps // 2


def convolve(rows: torch.Tensor, kernel: torch.Tensor, resampling: Resampling) -> torch.Tensor:
    """`rows` (num_rows, num_channels, num_samples) in float32 or float64, margins included, at the target rate.

    `kernel` is `make_kernel(resampling)` in that dtype on that device. The result has at least as many samples as
    `resampling.length` of the samples between the margins. What comes behind them depends on what lies behind a row.
    """
    _, down = resampling.ratio
    num_rows, num_channels, length = rows.shape
    behind = max(0, kernel.shape[2] - length) + down
    signals = torch.nn.functional.pad(rows.reshape(num_rows * num_channels, 1, length), (0, behind))
    # Not by conv1d: that may use TF32 for float32, of ten bits, by a setting of the process which is not ours to
    # change. The arguments from the fourth on: stride, padding, dilation, not transposed, output padding, groups; no
    # benchmark, deterministic, with cuDNN, without TF32.
    phases = torch._convolution(signals, kernel, None, [down], [0], [1], False, [0], 1, False, True, True, False)
    return phases.transpose(1, 2).reshape(num_rows, num_channels, -1)


@lru_cache(maxsize=32)
def make_kernel(resampling: Resampling) -> torch.Tensor:
    """The filters of all phases (up, 1, width) in float64, each where it stands in a stride. Not to be written to."""
    up, down = resampling.ratio
    taps, filters = resampling.num_taps, _filters(resampling)
    kernel = torch.zeros((up, 1, taps + (up - 1) * down // up), dtype=torch.float64)
    for index in range(up):
        start, phase = divmod(index * down, up)
        kernel[index, 0, start : start + taps] = filters[phase]
    return kernel


def _filters(resampling: Resampling) -> torch.Tensor:
    """The filter of each phase, (up, num_taps), in float64; the sum of the first is 1."""
    up, _ = resampling.ratio
    taps = resampling.num_taps
    phases = torch.arange(up, dtype=torch.float64) / up
    places = torch.arange(taps, dtype=torch.float64) - (taps - 1) // 2 - phases[:, None]
    window = torch.special.i0(_KAISER_BETA * (1 - (2 * places / taps) ** 2).clamp(min=0).sqrt())
    filters: torch.Tensor = torch.sinc(places * resampling.cut_off) * window
    return filters / filters[0].sum()
