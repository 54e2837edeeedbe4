"""How long the sound tracks of an MP4 or QuickTime file are, to the sample (ISO/IEC 14496-12).

FFmpeg's number comes from the edit list, whose unit is mostly a millisecond, and so is up to half of one off. The time
to sample box (stts) holds the length of the media in the track's own unit, which for audio is a sample; the edit list
then only says how much of its beginning is the encoder's delay.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction

from aioaudio.encoded import OpenBytes

__all__ = ["track_seconds"]

# A file of many hours has an index of some megabytes.
_MAX_INDEX_BYTES = 64 << 20
_MAX_BOXES = 10_000
_MAX_EDITS = 100

# The beginning of an edit that shows nothing.
_EMPTY = -1


def track_seconds(file: OpenBytes) -> list[Fraction | None]:
    """The length of each sound track in seconds, in their order; None where no single edit and no index tell it."""
    index = _index(file)
    if index is None:
        return []
    movie_timescale = _movie_timescale(index)
    tracks = (track for kind, track in _boxes(index) if kind == b"trak")
    return [_seconds(track, movie_timescale) for track in tracks if _is_sound(track)]


def _index(file: OpenBytes) -> memoryview | None:
    """The payload of the movie box."""
    offset = 0
    for _ in range(_MAX_BOXES):
        header = file.read(16, offset)
        size, kind, header_bytes = _header(header, file.size - offset)
        if size < header_bytes:
            return None
        if kind == b"moov":
            return file.read(size - header_bytes, offset + header_bytes) if size <= _MAX_INDEX_BYTES else None
        offset += size
    return None


def _header(data: memoryview, rest: int) -> tuple[int, bytes, int]:
    """Size, kind and header size of the box that `data` begins with; size 0 if there is none."""
    if len(data) < 8:
        return 0, b"", 8
    size, kind = struct.unpack_from(">I4s", data)
    if size == 1:
        return (struct.unpack_from(">Q", data, 8)[0], kind, 16) if len(data) >= 16 else (0, b"", 16)
    return (size or rest), kind, 8


def _boxes(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    for _ in range(_MAX_BOXES):
        size, kind, header_bytes = _header(data, len(data))
        if size < header_bytes or size > len(data):
            return
        yield kind, data[header_bytes:size]
        data = data[size:]


def _box(data: memoryview, *path: bytes) -> memoryview | None:
    """The payload of the first box at `path`."""
    for kind, payload in _boxes(data):
        if kind == path[0]:
            return payload if len(path) == 1 else _box(payload, *path[1:])
    return None


def _is_sound(track: memoryview) -> bool:
    handler = _box(track, b"mdia", b"hdlr")
    return handler is not None and bytes(handler[8:12]) == b"soun"


def _movie_timescale(index: memoryview) -> int:
    header = _box(index, b"mvhd")
    return 0 if header is None else _timescale(header)


def _timescale(header: memoryview) -> int:
    """Units a second, in a movie or media header."""
    offset = 20 if len(header) and header[0] == 1 else 12
    return int.from_bytes(header[offset : offset + 4], "big") if len(header) >= offset + 4 else 0


def _seconds(track: memoryview, movie_timescale: int) -> Fraction | None:
    header, times = _box(track, b"mdia", b"mdhd"), _box(track, b"mdia", b"minf", b"stbl", b"stts")
    if header is None or times is None or not _timescale(header):
        return None
    media = _media_length(times)
    edit = _edit(track)
    if not media or edit is None or not movie_timescale:
        return None
    duration, start = Fraction(edit[0], movie_timescale), edit[1]
    length = Fraction(media - start, _timescale(header))
    # The edit's duration is rounded to the movie's unit. Where it is shorter than that, the end is cut on purpose.
    is_cut = duration and length - duration > Fraction(1, movie_timescale)
    return None if is_cut or length <= 0 else length


def _media_length(times: memoryview) -> int:
    """The sum of the durations in a time to sample box."""
    if len(times) < 8:
        return 0
    count = min(int.from_bytes(times[4:8], "big"), (len(times) - 8) // 8)
    return sum(number * duration for number, duration in struct.iter_unpack(">II", times[8 : 8 + 8 * count]))


def _edit(track: memoryview) -> tuple[int, int] | None:
    """Duration (in the movie's unit) and beginning (in the media's) of the only edit, None if that is not all.

    Empty edits before it, which let a track begin late, do not count.
    """
    edits = _box(track, b"edts", b"elst")
    if edits is None or len(edits) < 8:
        return None
    form = struct.Struct(">Qqi" if edits[0] == 1 else ">Iii")
    count = int.from_bytes(edits[4:8], "big")
    if not 0 < count <= _MAX_EDITS or len(edits) < 8 + count * form.size:
        return None
    parts = [form.unpack_from(edits, 8 + i * form.size)[:2] for i in range(count)]
    while parts and parts[0][1] == _EMPTY:
        del parts[0]
    return parts[0] if len(parts) == 1 and parts[0][1] >= 0 else None
