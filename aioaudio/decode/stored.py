"""Samples as a source stores them, where that takes fewer bytes than floats and a device can expand it: to the bit."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from aioaudio.decode.facts import Facts
from aioaudio.decode.mix import Matrix
from aioaudio.decode.unpack import COMPANDED

__all__ = ["Stored", "as_stored", "expanded", "from_stored", "picked_channels", "table_of"]

Array = npt.NDArray[Any]

#: Integers of 16 bits, or the codes of G.711.
Stored = Literal["int16", "alaw", "mulaw"]

# Codecs whose samples come out of FFmpeg as the integers that went in.
_INTEGER_CODECS = {"flac", "alac", "wavpack", "pcm_s16le", "pcm_s16be"}

_PCM: dict[str, Stored] = {
    "u8": "int16",
    "s8": "int16",
    "s16le": "int16",
    "s16be": "int16",
    "alaw": "alaw",
    "mulaw": "mulaw",
}


def as_stored(facts: Facts, matrix: Matrix | None) -> Stored | None:
    """What the samples of a source are once its channels are taken by `matrix`; None for anything but the above."""
    if picked_channels(facts.num_channels, matrix) is None:
        return None
    if facts.pcm is not None:
        return _PCM.get(facts.pcm.sample_format)
    num_bits = facts.bits_per_sample
    return "int16" if facts.codec in _INTEGER_CODECS and num_bits is not None and num_bits <= 16 else None


def picked_channels(num_channels: int, matrix: Matrix | None) -> list[int] | None:
    """The channel of the source that each of the result is; None where `matrix` mixes."""
    if matrix is None:
        return list(range(num_channels))
    if any(sorted(gains)[-1] != 1.0 or sum(map(abs, gains)) != 1.0 for gains in matrix):
        return None
    return [gains.index(1.0) for gains in matrix]


def from_stored(samples: Array, stored: Stored, dtype: np.dtype[Any]) -> Array:
    """Stored samples as int16, or as floats of `dtype` whose full scale is 1."""
    integers = samples if stored == "int16" else COMPANDED[stored].take(samples)
    return integers if dtype == np.int16 else np.multiply(integers, 2.0**-15, dtype=dtype)


def table_of(stored: Stored | None) -> torch.Tensor:
    """The samples, int16, for the 256 codes of G.711; empty for what has none."""
    return torch.from_numpy(COMPANDED[stored]) if stored in COMPANDED else torch.empty(0, dtype=torch.int16)


def expanded(samples: torch.Tensor, table: torch.Tensor, dtype: torch.dtype, working: torch.dtype) -> torch.Tensor:
    """`samples` of any shape, on any device, in `dtype`: equal to what the CPU makes of them.

    They are codes of G.711 (uint8) with their `table`, integers of 16 bits, or floats. `working` is the float type that
    rounds to `dtype`.
    """
    if samples.dtype == torch.uint8:
        # By index_select, since indexing takes bytes for a mask.
        samples = table.index_select(0, samples.reshape(-1).to(torch.int32)).view(samples.shape)
    if samples.dtype != torch.int16:
        return _rounded(samples, dtype)
    if dtype == torch.int16:
        return samples
    if dtype == torch.int32:
        return samples.to(torch.int32) << 16
    return (samples.to(working) * 2.0**-15).to(dtype)


def _rounded(samples: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if samples.dtype == dtype or dtype.is_floating_point:
        return samples.to(dtype)
    limits = torch.iinfo(dtype)
    scaled = torch.nan_to_num(samples * -float(limits.min), 0.0, limits.max, limits.min).round()
    return scaled.clamp(limits.min, limits.max).to(dtype)
