"""From the engines' float samples to what was asked for: one conversion, shared by all engines.

By NumPy: torch gives the GIL away for each view that it makes, and wakes threads of its own for what is large.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from aioaudio.options import LoadOptions

__all__ = ["NUMPY_DTYPES", "Sink", "as_words", "assemble", "empty", "working_dtype"]

Array = npt.NDArray[Any]

# Elements that torch works on in the calling thread; with more it wakes its own threads, which compete with ours.
_TORCH_ELEMENTS = 1 << 15

_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

#: The types that NumPy has, too.
NUMPY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float16: np.dtype(np.float16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
}


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """The float type that engines decode to for a result of `dtype`.

    float32 holds 24 bits, so it is exact for everything but 32-bit integers and float64.
    """
    return torch.float64 if dtype in (torch.float64, torch.int32) else torch.float32


def as_words(waveform: torch.Tensor) -> Array:
    """The same memory as integers of the same width, as which every dtype copies to its like."""
    return waveform.view(_WORDS[waveform.dtype.itemsize]).numpy()


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Fresh memory from NumPy, which asks the system for huge pages: what is long is written in half the time."""
    return torch.from_numpy(np.empty(shape, f"i{dtype.itemsize}")).view(dtype)


class Sink:
    """Where the waveform of a result is written: `options.out`, or fresh memory in `options.dtype`.

    `waveform` is the tensor (num_channels, num_samples), `array` the same memory, None for bfloat16, which NumPy lacks.
    Raises ValueError where `options.out` has another shape.
    """

    def __init__(self, num_channels: int, num_samples: int, options: LoadOptions) -> None:
        shape = num_channels, num_samples
        self.waveform: torch.Tensor
        self.array: Array | None
        dtype = NUMPY_DTYPES.get(options.dtype)
        if options.out is not None:
            if options.out.shape != shape:
                raise ValueError(f"out has the shape {tuple(options.out.shape)}, the audio has {shape}")
            self.waveform = options.out
            self.array = None if dtype is None else options.out.numpy()
        elif dtype is None:
            self.waveform, self.array = empty(shape, options.dtype), None
        else:
            self.array = np.empty(shape, dtype)
            self.waveform = torch.from_numpy(self.array)

    @classmethod
    def onto(cls, waveform: torch.Tensor) -> Self:
        """A sink that writes into `waveform` itself."""
        sink = cls.__new__(cls)
        sink.waveform = waveform
        sink.array = waveform.numpy() if waveform.dtype in NUMPY_DTYPES else None
        return sink

    def write(self, position: int, samples: Array) -> None:
        """Write float `samples` (num_channels, n) from sample `position` on.

        Integers are rounded half to even and saturate at the range of the type; NaN becomes 0.
        """
        stop = position + samples.shape[1]
        if self.array is None:
            for piece in torch.split(torch.from_numpy(samples), max(1, _TORCH_ELEMENTS // max(1, len(samples))), dim=1):
                self.waveform[:, position : position + piece.shape[1]] = piece
                position += piece.shape[1]
            return
        target = self.array[:, position:stop]
        with np.errstate(over="ignore"):  # beyond what float16 holds is infinite
            np.copyto(target, samples if target.dtype.kind == "f" else _as_integers(samples, target.dtype), "unsafe")


def _as_integers(samples: Array, dtype: np.dtype[Any]) -> Array:
    # int16 is worked in float32 and int32 in float64: both hold the limits exactly.
    limits = np.iinfo(dtype)
    scaled: Array = samples * -samples.dtype.type(limits.min)
    np.rint(scaled, out=scaled)
    np.nan_to_num(scaled, copy=False, nan=0.0, posinf=limits.max, neginf=limits.min)
    return np.clip(scaled, limits.min, limits.max, out=scaled)


def assemble(blocks: deque[Array], num_channels: int, options: LoadOptions) -> torch.Tensor:
    """Float blocks (num_channels, n) joined as the result; each is let go once it is copied.

    So the peak is near the size of the result: its pages are touched as those of the blocks are freed.
    Raises ValueError where `options.out` has another shape.
    """
    if len(blocks) == 1 and options.out is None:
        (block,) = blocks
        if block.flags.c_contiguous and block.dtype == NUMPY_DTYPES.get(options.dtype):
            return torch.from_numpy(block)
    sink = Sink(num_channels, sum(block.shape[1] for block in blocks), options)
    position = 0
    while blocks:
        block = blocks.popleft()
        sink.write(position, block)
        position += block.shape[1]
    return sink.waveform
