"""How long the sound tracks of an MP4 or QuickTime file are, to the sample (ISO/IEC 14496-12).

FFmpeg's number comes from the edit list, whose unit is mostly a millisecond, and so is up to half of one off. The time
to sample box (stts) holds the length of the media in the track's own unit, which for audio is a sample; the edit list
then only says how much of its beginning is the encoder's delay.
"""

from __future__ import annotations

import struct
from fractions import Fraction

from aioaudio.decode.headers.boxes import Box, boxes, find, payload, whole
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["media_length", "seconds_of", "timescale", "track_seconds"]

_MAX_EDITS = 100

# The beginning of an edit that shows nothing.
_EMPTY = -1


def track_seconds(file: OpenBytes) -> list[Fraction | None]:
    """The length of each sound track in seconds, in their order; None where no single edit and no index tell it."""
    window = Window(file, memoryview(b""))
    movie = next((box for box in boxes(window, whole(window)) if box.kind == b"moov"), None)
    if movie is None:
        return []
    header = find(window, movie, b"mvhd")
    movie_timescale = 0 if header is None else timescale(payload(window, header))
    tracks = (box for box in boxes(window, movie) if box.kind == b"trak" and box.stop <= movie.stop)
    return [_seconds(window, track, movie_timescale) for track in tracks if _is_sound(window, track)]


def _is_sound(window: Window, track: Box) -> bool:
    handler = find(window, track, b"mdia", b"hdlr")
    return handler is not None and bytes(payload(window, handler)[8:12]) == b"soun"


def _seconds(window: Window, track: Box, movie_timescale: int) -> Fraction | None:
    header, edits = find(window, track, b"mdia", b"mdhd"), find(window, track, b"edts", b"elst")
    times = find(window, track, b"mdia", b"minf", b"stbl", b"stts")
    if header is None or times is None or edits is None:
        return None
    return seconds_of(payload(window, header), payload(window, times), payload(window, edits), movie_timescale)


def timescale(header: memoryview) -> int:
    """Units a second, in a movie or media header."""
    offset = 20 if len(header) and header[0] == 1 else 12
    return int.from_bytes(header[offset : offset + 4], "big") if len(header) >= offset + 4 else 0


def seconds_of(header: memoryview, times: memoryview, edits: memoryview, movie_timescale: int) -> Fraction | None:
    """The length of a track with this media header, time to sample table and edit list; None where they tell none."""
    media, edit = media_length(times), _edit(edits)
    if not media or edit is None or not movie_timescale or not timescale(header):
        return None
    duration, start = Fraction(edit[0], movie_timescale), edit[1]
    length = Fraction(media - start, timescale(header))
    # The edit's duration is rounded to the movie's unit. Where it is shorter than that, the end is cut on purpose.
    is_cut = duration and length - duration > Fraction(1, movie_timescale)
    return None if is_cut or length <= 0 else length


def media_length(times: memoryview) -> int:
    """The sum of the durations in a time to sample box."""
    if len(times) < 8:
        return 0
    count = min(int.from_bytes(times[4:8], "big"), (len(times) - 8) // 8)
    return sum(number * duration for number, duration in struct.iter_unpack(">II", times[8 : 8 + 8 * count]))


def _edit(edits: memoryview) -> tuple[int, int] | None:
    """Duration (in the movie's unit) and beginning (in the media's) of the only edit, None if that is not all.

    Empty edits before it, which let a track begin late, do not count.
    """
    if len(edits) < 8:
        return None
    form = struct.Struct(">Qqi" if edits[0] == 1 else ">Iii")
    count = int.from_bytes(edits[4:8], "big")
    if not 0 < count <= _MAX_EDITS or len(edits) < 8 + count * form.size:
        return None
    parts = [form.unpack_from(edits, 8 + i * form.size)[:2] for i in range(count)]
    while parts and parts[0][1] == _EMPTY:
        del parts[0]
    return parts[0] if len(parts) == 1 and parts[0][1] >= 0 else None
