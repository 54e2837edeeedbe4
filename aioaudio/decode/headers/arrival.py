"""Bytes as they arrive: what they are, and whether they can be decoded as they come."""

from __future__ import annotations

from typing import NamedTuple

from aioaudio.decode.headers import pcm
from aioaudio.decode.headers.mp3_frames import Search, frame_at
from aioaudio.decode.headers.ogg_pages import MAGIC as OGG_MAGIC
from aioaudio.decode.headers.ogg_pages import page_at
from aioaudio.decode.headers.window import Held, skip_id3v2, window_of
from aioaudio.options import RawPCM

__all__ = ["LIVE", "Kind", "kind_of"]

#: FFmpeg's demuxers that decode as bytes come, and give what the whole file would.
LIVE = frozenset({"aac", "ac3", "flac", "matroska", "mov", "mp3", "mpegts", "ogg", "wav"})

_EBML_MAGIC = b"\x1a\x45\xdf\xa3"
_VORBIS_MAGIC = b"\x01vorbis"
_VORBIS_HEADERS = 3
_TS_PACKET_BYTES = 188

# Bytes that tell what is at their head, and those that tell where frames begin behind something else.
_MAGIC_BYTES = 12
_SEARCH_BYTES = 1 << 14
_MAX_CANDIDATES = 256

# Three of the largest frames of MPEG audio: a run.
_RUN_BYTES = 3 * 1442

# A sample of all channels, at most.
_MAX_FRAME_BYTES = 64 * 8

# Sizes that recorders write which do not know how much will come.
_UNKNOWN_SIZE = 0x7FFF_F000


class Kind(NamedTuple):
    """FFmpeg's demuxer for what arrives; none, where that must be there as a whole.

    An MP4 that `is_fragmented` tells the lengths of its parts, and not its own. Of plain PCM, `raw` and FFmpeg's name
    of the layout say how it is read, from byte `start` on, `num_bytes` of it, None for all.
    """

    demuxer: str | None
    raw: RawPCM | None = None
    layout: str | None = None
    start: int = 0
    num_bytes: int | None = None
    is_fragmented: bool = False


_WHOLE = Kind(None)


def kind_of(head: bytes | bytearray, *, at_end: bool) -> Kind | None:
    """What begins with `head`; None where more bytes must tell."""
    if len(head) < _MAGIC_BYTES:
        return _WHOLE if at_end else None
    magic = bytes(head[:_MAGIC_BYTES])
    if magic[:4] == OGG_MAGIC:
        return _kind_of_ogg(head, at_end=at_end)
    if magic[:4] == b"fLaC":
        return Kind("flac")
    if magic[:4] in (b"RIFF", b"RF64", b"BW64") and magic[8:] == b"WAVE":
        return _kind_of_wav(head, at_end=at_end)
    if magic[:4] == _EBML_MAGIC:
        return Kind("matroska")
    if magic[4:8] == b"ftyp":
        return _kind_of_mp4(head, at_end=at_end)
    if magic[:3] == b"ID3":
        return _kind_behind_tags(head, at_end=at_end)
    return _kind_of_frames(head, at_end=at_end)


def _kind_of_wav(head: bytes | bytearray, *, at_end: bool) -> Kind | None:
    """Plain PCM needs no demuxer that first looks at a second of it."""
    at, size, size_64 = _MAGIC_BYTES, 0, 0
    while at + 8 <= len(head):
        name, size = bytes(head[at : at + 4]), int.from_bytes(head[at + 4 : at + 8], "little")
        if name == b"data":
            break
        if name == b"ds64":
            size_64 = int.from_bytes(head[at + 16 : at + 24], "little")
        at += 8 + size + size % 2
    else:
        return _WHOLE if at_end else None
    data = memoryview(head)[: at + 8]
    # With a sample behind the header, where the parser looks for some.
    sample = memoryview(bytes(data) + bytes(_MAX_FRAME_BYTES))
    facts = pcm.parse(Held(sample), sample)
    if facts is None or facts.pcm is None or facts.pcm.offset != at + 8:
        return Kind("wav")
    raw = RawPCM(facts.pcm.sample_format, facts.sample_rate, facts.num_channels)
    size = size_64 or size
    num_bytes = size if size_64 or 0 < size < _UNKNOWN_SIZE else None
    return Kind(raw.sample_format, raw, facts.channel_layout, at + 8, num_bytes)


def _kind_of_ogg(head: bytes | bytearray, *, at_end: bool) -> Kind | None:
    """Vorbis all of whose sound is in one page is of use only as a whole: FFmpeg would cut too much off its end."""
    window, at, num_packets = window_of(head), 0, 0
    while (page := page_at(window, at)) is not None:
        if num_packets >= _VORBIS_HEADERS:
            return _WHOLE if page.is_last else Kind("ogg")
        if at == 0 and bytes(window.read(len(_VORBIS_MAGIC), page.body)) != _VORBIS_MAGIC:
            return Kind("ogg")
        num_packets += page.num_packets
        at = page.stop
    return Kind("ogg") if at_end else None


def _kind_of_mp4(head: bytes | bytearray, *, at_end: bool) -> Kind | None:
    """MP4 decodes as it comes where its index comes before its samples."""
    at = 0
    while at + 16 <= len(head):
        size, box = int.from_bytes(head[at : at + 4], "big"), bytes(head[at + 4 : at + 8])
        if size == 1:
            size = int.from_bytes(head[at + 8 : at + 16], "big")
        if box == b"moov":
            if at + size > len(head):
                break
            return Kind("mov", is_fragmented=_has_box(memoryview(head)[at + 8 : at + size], b"mvex"))
        if box == b"mdat" or size < 8:
            return _WHOLE
        at += size
    return _WHOLE if at_end else None


def _has_box(boxes: memoryview, name: bytes) -> bool:
    at = 0
    while at + 8 <= len(boxes) and bytes(boxes[at + 4 : at + 8]) != name:
        at += max(8, int.from_bytes(boxes[at : at + 4], "big"))
    return at + 8 <= len(boxes)


def _kind_behind_tags(head: bytes | bytearray, *, at_end: bool) -> Kind | None:
    start = skip_id3v2(window_of(head), 0)
    if start == 0:
        return _WHOLE
    return kind_of(head[start:], at_end=at_end)


def _kind_of_frames(head: bytes | bytearray, *, at_end: bool) -> Kind | None:
    if head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        size = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
        if len(head) < size + 2 and not at_end:
            return None
        # A frame of FLAC begins so, too.
        return Kind("aac") if head[size : size + 2] in (head[:2], b"") else _WHOLE
    if bytes(head[:2]) == b"\x0b\x77":
        return Kind("ac3")
    if head[0] == 0x47 and all(byte == 0x47 for byte in head[:_SEARCH_BYTES:_TS_PACKET_BYTES]):
        return Kind("mpegts") if len(head) > 4 * _TS_PACKET_BYTES else _WHOLE if at_end else None
    window = window_of(head)
    if frame_at(window, 0) is not None and len(head) < _RUN_BYTES and not at_end:
        return None
    if Search(window, len(head), _MAX_CANDIDATES).find(0, min(len(head), _SEARCH_BYTES)) is not None:
        return Kind("mp3")
    return _WHOLE if at_end or len(head) >= _SEARCH_BYTES else None
