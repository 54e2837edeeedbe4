"""WavPack: the header of the first block."""

from __future__ import annotations

import struct
from typing import NamedTuple

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.window import Window

__all__ = ["Block", "block_at", "parse"]

# Magic, size, version, high bytes of the index and of the total, total, index, samples in the block, flags.
_HEADER = struct.Struct("<4sIHBBIIII")
_VERSIONS = range(0x402, 0x411)
_UNKNOWN_TOTAL = 0xFFFFFFFF

_MONO, _FLOAT, _DSD = 1 << 2, 1 << 7, 1 << 31
_FIRST_BLOCK = 1 << 11
_ONLY_BLOCK = _FIRST_BLOCK | 1 << 12  # the first and the last of the blocks that hold the channels

# By the four bits of the flags; 15 is a rate stored elsewhere.
_RATES = (6000, 8000, 9600, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000, 192000)


def parse(head: memoryview) -> Facts | None:
    """Facts of a WavPack file that begins with `head`: PCM of one or two channels at a usual rate, else None."""
    if len(head) < _HEADER.size:
        return None
    magic, _, version, index_high, total_high, total, index, block_samples, flags = _HEADER.unpack_from(head)
    rate_index = flags >> 23 & 15
    if magic != b"wvpk" or version not in _VERSIONS or not block_samples or index or index_high:
        return None
    if flags & _DSD or flags & _ONLY_BLOCK != _ONLY_BLOCK or rate_index == len(_RATES):
        return None
    num_channels = 1 if flags & _MONO else 2
    num_bits = ((flags & 3) + 1) * 8
    return Facts(
        container="wv",
        codec="wavpack",
        sample_rate=_RATES[rate_index],
        num_channels=num_channels,
        channel_layout="mono" if num_channels == 1 else "stereo",
        bits_per_sample=num_bits if flags & _FLOAT else num_bits - (flags >> 13 & 31),
        # One low value is kept for "unknown", so each step of the high byte counts one less.
        num_samples=None if total == _UNKNOWN_TOTAL else total + total_high * _UNKNOWN_TOTAL,
        frame_samples=block_samples,
        preroll_seconds=0.0,
    )


class Block(NamedTuple):
    """A block that begins with sample `start` and has `num_samples`; `stop` is where it ends in the file.

    Of those that hold the channels, `is_first` says of one.
    """

    is_first: bool
    start: int
    num_samples: int
    stop: int


def block_at(window: Window, offset: int) -> Block | None:
    """The block whose header is at `offset`, None where there is none."""
    header = window.read(_HEADER.size, offset)
    if len(header) < _HEADER.size:
        return None
    magic, size, version, index_high, _, _, index, num_samples, flags = _HEADER.unpack_from(header)
    if magic != b"wvpk" or version not in _VERSIONS or size < _HEADER.size - 8:
        return None
    return Block(bool(flags & _FIRST_BLOCK), index_high << 32 | index, num_samples, offset + 8 + size)
