"""From the engines' float samples to what was asked for: one conversion, shared by all engines."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch

from aioaudio.options import LoadOptions

__all__ = ["allocate", "assemble", "convert", "place", "working_dtype"]

# Elements that torch works on at once. With more it wakes its own threads, which then compete with ours.
_PIECE = 1 << 15


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """The float type that engines decode to for a result of `dtype`.

    float32 holds 24 bits, so it is exact for everything but 32-bit integers and float64.
    """
    return torch.float64 if dtype in (torch.float64, torch.int32) else torch.float32


def convert(samples: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`samples`, floats with full scale ±1, as `dtype`.

    Integers are rounded half to even and saturate at the range of the type; NaN becomes 0.
    """
    if dtype.is_floating_point:
        return samples.to(dtype)
    limits = torch.iinfo(dtype)
    # int16 is worked in float32 and int32 in float64: both hold the limits exactly.
    scaled = samples * -float(limits.min)
    np.rint(scaled.numpy(), out=scaled.numpy())  # torch would wake its own threads for it, even for few samples
    return scaled.nan_to_num_(0.0, float(limits.max), float(limits.min)).clamp_(limits.min, limits.max).to(dtype)


def allocate(shape: tuple[int, int], options: LoadOptions) -> torch.Tensor:
    """Where a result of that shape goes: options.out, or fresh memory in options.dtype.

    Raises ValueError where options.out has another shape.
    """
    if options.out is None:
        # NumPy asks the system for huge pages: a long result is written in less than half the time.
        memory = torch.from_numpy(np.empty(shape, f"i{options.dtype.itemsize}"))
        return memory.view(options.dtype)
    if options.out.shape != shape:
        raise ValueError(f"out has the shape {tuple(options.out.shape)}, the audio has {shape}")
    return options.out


def place(samples: torch.Tensor, options: LoadOptions) -> torch.Tensor:
    """`samples` (num_channels, num_samples) as the result: contiguous, in options.dtype, or written into options.out.

    Raises ValueError where options.out has another shape.
    """
    return assemble(deque([samples]), samples.shape[0], options)


def assemble(blocks: deque[torch.Tensor], num_channels: int, options: LoadOptions) -> torch.Tensor:
    """Blocks (num_channels, n) joined as `place` would; each block is let go once it is copied.

    So the peak is near the size of the result: its pages are touched as those of the blocks are freed.
    """
    if len(blocks) == 1 and options.out is None and blocks[0].dtype == options.dtype and blocks[0].is_contiguous():
        return blocks[0]
    result = allocate((num_channels, sum(block.shape[1] for block in blocks)), options)
    position = 0
    while blocks:
        for piece in torch.split(blocks.popleft(), max(1, _PIECE // num_channels), dim=1):
            result[:, position : position + piece.shape[1]] = convert(piece, options.dtype)
            position += piece.shape[1]
    return result
