"""MP4 and QuickTime files of the plainest kind: one track of sound, AAC-LC or Apple Lossless, whole in one file.

The facts are those that FFmpeg's probe gives, which costs more than to decode a short clip. So whatever could make
FFmpeg see another track, rate or length is left to it: every box that stands where one of sound does must be known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from fractions import Fraction

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.boxes import Box, boxes, payload, whole
from aioaudio.decode.headers.chunks import Chunk
from aioaudio.decode.headers.extent import cut_off
from aioaudio.decode.headers.mp4 import media_length, seconds_of, timescale
from aioaudio.decode.headers.mp4_codecs import codec_of
from aioaudio.decode.headers.mp4_tables import times_of
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["parse"]

# FFmpeg's name of the container, and what its decoders may yield beyond the end of a track.
_CONTAINER, _SLACK = "mov,mp4,m4a,3gp,3g2,mj2", 2 * 2048

_FILLER = frozenset({b"free", b"skip", b"wide"})
_IN_FILE = frozenset({b"ftyp", b"mdat", b"moov", b"uuid"})
_IN_MOVIE = frozenset({b"mvhd", b"trak", b"udta", b"iods", b"meta"})
_IN_TRACK = frozenset({b"tkhd", b"edts", b"mdia", b"udta"})
_IN_MEDIA = frozenset({b"mdhd", b"hdlr", b"minf", b"elng"})
_IN_EDITS, _IN_PLACE = frozenset({b"elst"}), frozenset({b"dref"})
_IN_SOUND = frozenset({b"smhd", b"hdlr", b"dinf", b"stbl"})
_IN_TABLES = frozenset({b"stsd", b"stts", b"stsc", b"stsz", b"stco", b"co64", b"sgpd", b"sbgp", b"sdtp"})

_MAX_BOXES = 64

# Of a long index the beginning is read at once, and of the rest what is needed.
_INDEX_BYTES = 1 << 16
_MAX_TAGS_BYTES = 1 << 16

_HEADER_BYTES = 8
_MAX_UNITS = 2**31 - 1

# The only entry of a list of data references, where it is to this very file.
_THIS_FILE = tuple(struct.pack(">4xII4sI", 1, 12, kind, 1) for kind in (b"url ", b"alis"))


class _Unsure(Exception):
    """The file is left to FFmpeg."""


def parse(file: OpenBytes, head: memoryview) -> Facts | None:
    """Facts of a file that begins with `head`; None where it is not one of the plainest kind."""
    try:
        return _facts(Window(file, head))
    except _Unsure:
        return None


def _facts(window: Window) -> Facts:
    parts = _children(window, whole(window), _IN_FILE)
    movies, data = _of_kind(parts, b"moov"), _of_kind(parts, b"mdat")
    if len(movies) != 1 or not data:
        raise _Unsure
    movie = movies[0]
    index = window.moved(min(movie.stop - movie.start, _INDEX_BYTES), movie.start)
    in_movie = _children(index, movie, _IN_MOVIE)
    track, media = _sound_track(index, _of_kind(in_movie, b"trak"))
    sound = _named(index, _one(media, b"minf"), _IN_SOUND)
    _check_place(index, sound)
    tables = _named(index, _one(sound, b"stbl"), _IN_TABLES)
    codec, times = codec_of(index, _one(tables, b"stsd")), times_of(index, tables)
    if codec is None or times is None:
        raise _Unsure
    seconds = _seconds(index, in_movie, track, _one(media, b"mdhd"), times)
    num_samples = 0 if seconds is None else round(seconds * codec.sample_rate)
    if not num_samples:
        raise _Unsure
    return Facts(
        container=_CONTAINER,
        codec=codec.name,
        sample_rate=codec.sample_rate,
        num_channels=codec.num_channels,
        channel_layout=codec.channel_layout,
        bits_per_sample=codec.bits_per_sample,
        num_samples=num_samples,
        slack=_SLACK,
        frame_samples=codec.frame_samples,
        preroll_seconds=codec.preroll_seconds,
        demuxer_options=(("advanced_editlist", "0"),) if b"edts" in track else (),
        damage=cut_off((Chunk(box.kind, box.start, box.stop - box.start) for box in data), window.size),
    )


def _children(window: Window, parent: Box, known: frozenset[bytes]) -> list[Box]:
    """The boxes in `parent` but filler, if all are `known`, and nothing else is there."""
    children: list[Box] = []
    end = parent.start
    for box in boxes(window, parent):
        kind, _, end = box
        if (end > parent.stop and kind != b"mdat") or len(children) == _MAX_BOXES:
            raise _Unsure
        if kind in known:
            children.append(box)
        elif kind not in _FILLER:
            raise _Unsure
    if parent.stop - end >= _HEADER_BYTES:
        raise _Unsure
    return children


def _of_kind(parts: Iterable[Box], kind: bytes) -> list[Box]:
    return [box for box in parts if box.kind == kind]


def _named(window: Window, parent: Box, known: frozenset[bytes]) -> dict[bytes, Box]:
    """The boxes in `parent` by kind, of which there is one each."""
    children = _children(window, parent, known)
    named = {box.kind: box for box in children}
    if len(named) < len(children):
        raise _Unsure
    return named


def _one(named: dict[bytes, Box], kind: bytes) -> Box:
    if kind not in named:
        raise _Unsure
    return named[kind]


def _sound_track(window: Window, tracks: Iterable[Box]) -> tuple[dict[bytes, Box], dict[bytes, Box]]:
    """What is in the only track of sound, and in its media; all others must be pictures."""
    found = []
    for box in tracks:
        track = _named(window, box, _IN_TRACK)
        media = _named(window, _one(track, b"mdia"), _IN_MEDIA)
        handler = _handler(window, _one(media, b"hdlr"))
        if handler == b"soun":
            found.append((track, media))
        elif handler != b"vide":
            raise _Unsure
    if len(found) != 1:
        raise _Unsure
    return found[0]


def _handler(window: Window, box: Box) -> bytes:
    return bytes(window.read(12, box.start)[8:])


def _check_place(window: Window, sound: dict[bytes, Box]) -> None:
    """Leave a track to FFmpeg if its samples may be in another file."""
    references = _one(_named(window, _one(sound, b"dinf"), _IN_PLACE), b"dref")
    if bytes(payload(window, references)) not in _THIS_FILE:
        raise _Unsure
    if b"hdlr" in sound and _handler(window, sound[b"hdlr"]) not in (b"url ", b"alis"):
        raise _Unsure


def _seconds(
    window: Window, in_movie: list[Box], track: dict[bytes, Box], media_header: Box, times: memoryview
) -> Fraction | None:
    """How long the track is, by its edit if it has one."""
    header = _header(window, media_header)
    if b"edts" in track:
        edits = payload(window, _one(_named(window, track[b"edts"], _IN_EDITS), b"elst"))
        movie_headers = _of_kind(in_movie, b"mvhd")
        return seconds_of(header, times, edits, timescale(_header(window, movie_headers[0]))) if movie_headers else None
    # Without one, FFmpeg believes the shorter of the table and the header.
    length = media_length(times)
    start, stop = (24, 32) if header[0] == 1 else (16, 20)
    is_told = length == int.from_bytes(header[start:stop], "big")
    return Fraction(length, timescale(header)) if is_told and not _has_delay(window, in_movie) else None


def _header(window: Window, box: Box) -> memoryview:
    """A movie or media header that tells its units, of one of the two versions."""
    header = payload(window, box)
    if not len(header) or header[0] > 1 or not 0 < timescale(header) <= _MAX_UNITS:
        raise _Unsure
    return header


def _has_delay(window: Window, in_movie: Iterable[Box]) -> bool:
    """Whether iTunes may have noted the encoder's delay among the tags, where FFmpeg finds it."""
    tags = [box for box in in_movie if box.kind in (b"udta", b"meta")]
    if sum(box.stop - box.start for box in tags) > _MAX_TAGS_BYTES:
        return True
    return any(b"iTunSMPB" in bytes(payload(window, box)) for box in tags)
