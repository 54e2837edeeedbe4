"""Interleaved PCM as arrays: every sample format becomes floats, or signed integers that full scale fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COMPANDED", "unpack"]

Array = npt.NDArray[Any]

_AS_THEY_LIE: dict[str, np.dtype[Any]] = {
    "s8": np.dtype("i1"),
    "s16le": np.dtype("<i2"),
    "s16be": np.dtype(">i2"),
    "s32le": np.dtype("<i4"),
    "s32be": np.dtype(">i4"),
    "f32le": np.dtype("<f4"),
    "f32be": np.dtype(">f4"),
    "f64le": np.dtype("<f8"),
    "f64be": np.dtype(">f8"),
}


def unpack(data: memoryview, sample_format: str, num_channels: int) -> Array:
    """The whole frames that begin `data`, as (num_frames, num_channels); `sample_format` is one of SAMPLE_FORMATS.

    24-bit samples come in the high bits of int32, A-law and mu-law as the int16 that G.711 expands them to.
    """
    if sample_format in _AS_THEY_LIE:
        dtype = _AS_THEY_LIE[sample_format]
        samples: Array = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    elif sample_format == "u8":
        samples = (np.frombuffer(data, np.uint8) ^ 0x80).view(np.int8)
    elif sample_format in COMPANDED:
        samples = COMPANDED[sample_format].take(np.frombuffer(data, np.uint8))
    else:
        samples = _unpack_24_bits(data, "<" if sample_format == "s24le" else ">")
    num_frames = len(samples) // num_channels
    return samples[: num_frames * num_channels].reshape(num_frames, num_channels)


def _unpack_24_bits(data: memoryview, byte_order: str) -> Array:
    num_samples = len(data) // 3
    samples = np.empty(num_samples, np.int32)
    if num_samples == 0:
        return samples
    # Four bytes at every third: a sample, and one byte of the next that goes. The last has no next.
    words: Array = np.ndarray(num_samples - 1, f"{byte_order}i4", data, 0, (3,))
    if byte_order == "<":
        np.left_shift(words, 8, out=samples[:-1])
    else:
        np.bitwise_and(words, ~0xFF, out=samples[:-1])
    last = data[3 * num_samples - 3 : 3 * num_samples]
    samples[-1] = int.from_bytes(last, "little" if byte_order == "<" else "big", signed=True) << 8
    return samples


def _alaw_table() -> Array:
    code = np.arange(256) ^ 0x55
    segment, step = code >> 4 & 7, code & 15
    magnitude = np.where(segment == 0, 2 * step + 1, 2 * step + 33 << np.maximum(segment - 1, 0)) << 3
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _mulaw_table() -> Array:
    code = ~np.arange(256)
    magnitude = (((code & 15) << 3) + 132 << (code >> 4 & 7)) - 132
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


#: The int16 that G.711 gives for each of its codes.
COMPANDED = {"alaw": _alaw_table(), "mulaw": _mulaw_table()}
