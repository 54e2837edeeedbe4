"""The tables of samples of an MP4 track: whether they agree with one another, as FFmpeg needs them to.

What MP4 calls a sample is a packet: a frame of the codec.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping

from aioaudio.decode.headers.boxes import Box, payload
from aioaudio.decode.headers.window import Window

__all__ = ["times_of"]

# Longer tables of durations or chunks are no plain file's; those of sizes and offsets may be of any length.
_MAX_TABLE_BYTES = 1 << 20

_MAX_TICKS = 2**31 - 1


def times_of(window: Window, tables: Mapping[bytes, Box]) -> memoryview | None:
    """The table of durations (stts) among `tables`, None if any is odd, or the first sample lies not in the file."""
    times, chunks = _table(window, tables.get(b"stts"), 8), _table(window, tables.get(b"stsc"), 12)
    num_chunks, first_chunk = _offsets(window, tables)
    num_samples, first_size = _sizes(window, tables.get(b"stsz"))
    if times is None or chunks is None or not num_samples:
        return None
    runs = [*struct.iter_unpack(">II", times[8:])]
    if sum(count for count, _ in runs) != num_samples or max(ticks for _, ticks in runs) > _MAX_TICKS:
        return None
    is_there = first_chunk + first_size <= window.size
    return times if is_there and _samples_in(chunks, num_chunks) == num_samples else None


def _table(window: Window, box: Box | None, entry_bytes: int) -> memoryview | None:
    """A table whose entries follow on their number, None where it has none, or not that many."""
    if box is None or not 0 < _count(window, box, 4) * entry_bytes == box.stop - box.start - 8 <= _MAX_TABLE_BYTES:
        return None
    return payload(window, box)


def _count(window: Window, box: Box, at: int) -> int:
    return int.from_bytes(window.read(4, box.start + at), "big")


def _offsets(window: Window, tables: Mapping[bytes, Box]) -> tuple[int, int]:
    """How many chunks there are, and where the first is; none where the table is odd."""
    box, num_bytes = tables.get(b"stco"), 4
    if box is None:
        box, num_bytes = tables.get(b"co64"), 8
    elif b"co64" in tables:
        return 0, 0
    if box is None or _count(window, box, 4) * num_bytes != box.stop - box.start - 8:
        return 0, 0
    return _count(window, box, 4), int.from_bytes(window.read(num_bytes, box.start + 8), "big")


def _sizes(window: Window, box: Box | None) -> tuple[int, int]:
    """How many samples there are, and the size of the first; none where the table is odd."""
    if box is None:
        return 0, 0
    size, count = _count(window, box, 4), _count(window, box, 8)
    if box.stop - box.start != 12 + (0 if size else 4 * count):
        return 0, 0
    return count, size or _count(window, box, 12)


def _samples_in(chunks: memoryview, num_chunks: int) -> int:
    """How many samples are in `num_chunks` chunks by the table of their lengths (stsc), 0 where that is odd.

    An entry holds for all chunks, which count from 1, up to that of the next.
    """
    entries = [*struct.iter_unpack(">III", chunks[8:])]
    starts = [first for first, _, _ in entries] + [num_chunks + 1]
    if starts[0] != 1 or any(description != 1 for _, _, description in entries):
        return 0
    lengths = [stop - start for start, stop in itertools.pairwise(starts)]
    if min(lengths) <= 0 or any(count == 0 for _, count, _ in entries):
        return 0
    return sum(length * count for length, (_, count, _) in zip(lengths, entries, strict=True))
