"""Bytes as they arrive: what they are, whether they can be decoded as they come, and where one file ends and the next
begins.

What is joined is cut as it is in a file that is there as a whole, so that each part is decoded for itself: the links of
a chained Ogg, MP3 files with their tags, FLAC files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from aioaudio.decode.headers.mp3_frames import HEADER_BYTES, Search, frame_at, leans_back
from aioaudio.decode.headers.mp3_tag import encoder_tag
from aioaudio.decode.headers.ogg_pages import MAGIC as OGG_MAGIC
from aioaudio.decode.headers.ogg_pages import page_at
from aioaudio.decode.headers.tags import skip_filler
from aioaudio.decode.headers.window import Window, skip_id3v2

__all__ = ["LIVE", "Cut", "Cutter", "cutter_of", "kind_of"]

#: FFmpeg's demuxers that decode as bytes come, and give what the whole file would.
LIVE = frozenset({"aac", "ac3", "flac", "matroska", "mov", "mp3", "mpegts", "ogg", "wav"})

_FLAC_MAGIC = b"fLaC"
_FLAC_STARTS = tuple(_FLAC_MAGIC + header for header in (b"\0\0\0\x22", b"\x80\0\0\x22"))
_EBML_MAGIC = b"\x1a\x45\xdf\xa3"
_TS_PACKET_BYTES = 188

# Bytes that tell what is at their head, and those that tell where frames begin behind something else.
_MAGIC_BYTES = 12
_SEARCH_BYTES = 1 << 14
_MAX_CANDIDATES = 256

# From the start of a frame to the end of the tag in it, and three of the largest frames: a run.
_TAG_BYTES = 192
_RUN_BYTES = 3 * 1442


class _Held:
    """Bytes at hand, for the parsers."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = memoryview(data)
        self.size = len(data)

    def read(self, num_bytes: int, offset: int) -> memoryview:
        return self._data[max(0, offset) : max(0, offset) + num_bytes]

    def ffmpeg_path(self) -> str:
        raise NotImplementedError


def _window(data: bytes | bytearray) -> Window:
    return Window(_Held(data), memoryview(data))


def kind_of(head: bytes | bytearray, *, at_end: bool) -> str | None:
    """What begins with `head`: one of LIVE, "" for what must be there as a whole, None where more bytes must tell."""
    if len(head) < _MAGIC_BYTES:
        return "" if at_end else None
    magic = bytes(head[:_MAGIC_BYTES])
    if magic[:4] == OGG_MAGIC:
        return "ogg"
    if magic[:4] == _FLAC_MAGIC:
        return "flac"
    if magic[:4] in (b"RIFF", b"RF64", b"BW64") and magic[8:] == b"WAVE":
        return "wav"
    if magic[:4] == _EBML_MAGIC:
        return "matroska"
    if magic[4:8] == b"ftyp":
        return _kind_of_mp4(head, at_end=at_end)
    if magic[:3] == b"ID3":
        return _kind_behind_tags(head, at_end=at_end)
    return _kind_of_frames(head, at_end=at_end)


def _kind_of_mp4(head: bytes | bytearray, *, at_end: bool) -> str | None:
    """MP4 decodes as it comes where its index comes before its samples."""
    at = 0
    while at + 16 <= len(head):
        size, box = int.from_bytes(head[at : at + 4], "big"), bytes(head[at + 4 : at + 8])
        if size == 1:
            size = int.from_bytes(head[at + 8 : at + 16], "big")
        if box == b"moov":
            return "mov"
        if box == b"mdat" or size < 8:
            return ""
        at += size
    return "" if at_end else None


def _kind_behind_tags(head: bytes | bytearray, *, at_end: bool) -> str | None:
    start = skip_id3v2(_window(head), 0)
    if start == 0:
        return ""
    return kind_of(head[start:], at_end=at_end)


def _kind_of_frames(head: bytes | bytearray, *, at_end: bool) -> str | None:
    if head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return "aac"
    if bytes(head[:2]) == b"\x0b\x77":
        return "ac3"
    if head[0] == 0x47 and all(byte == 0x47 for byte in head[:_SEARCH_BYTES:_TS_PACKET_BYTES]):
        return "mpegts" if len(head) > 4 * _TS_PACKET_BYTES else None if not at_end else ""
    window = _window(head)
    if frame_at(window, 0) is not None and len(head) < _RUN_BYTES and not at_end:
        return None
    if Search(window, len(head), _MAX_CANDIDATES).find(0, min(len(head), _SEARCH_BYTES)) is not None:
        return "mp3"
    return "" if at_end or len(head) >= _SEARCH_BYTES else None


class Cut(NamedTuple):
    """Bytes that go on; with `begins` they begin a file of their own."""

    begins: bool
    data: bytes


class Cutter(Protocol):
    """Cuts what arrives where a file begins."""

    def push(self, data: bytes | memoryview, *, at_end: bool = False) -> Iterator[Cut]:
        """What `data` lets go on; with `at_end`, all that is left."""
        ...


def cutter_of(kind: str) -> Cutter:
    """The cutter for a demuxer."""
    cutters = {"ogg": _OggCutter, "mp3": _Mp3Cutter, "flac": _FlacCutter}
    return cutters.get(kind, _NoCutter)()


class _NoCutter:
    def push(self, data: bytes | memoryview, *, at_end: bool = False) -> Iterator[Cut]:  # noqa: ARG002
        if len(data):
            yield Cut(False, bytes(data))


class _Buffered:
    """Holds what cannot be judged yet; `_next` says of the bytes at hand where the next cut may be."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._pass = 0  # bytes that go on as they come
        self._drop = 0  # bytes that are left out

    def push(self, data: bytes | memoryview, *, at_end: bool = False) -> Iterator[Cut]:
        self._data += data
        begins = False
        out = bytearray()
        while True:
            self._drop -= self._take(self._drop)[0]
            count, passed = self._take(self._pass)
            self._pass -= count
            out += passed
            if not self._data or self._pass or self._drop:
                break
            begins = self._judge(at_end=at_end)
            if begins:
                if out:
                    yield Cut(False, bytes(out))
                yield Cut(True, b"")
                out.clear()
            if not (self._pass or self._drop):
                break
        if at_end:
            out += self._data
            self._data.clear()
        if out:
            yield Cut(False, bytes(out))

    def _take(self, num_bytes: int) -> tuple[int, bytes]:
        taken = bytes(self._data[:num_bytes])
        del self._data[: len(taken)]
        return len(taken), taken

    def _judge(self, *, at_end: bool) -> bool:
        """Set what of the bytes at hand, and of those to come, goes on or is left out; neither, to wait for more.

        Says whether a file begins with them.
        """
        raise NotImplementedError


class _OggCutter(_Buffered):
    """Cuts before the first page of a stream behind pages of others that are not first ones."""

    _has_sound = False

    def _judge(self, *, at_end: bool) -> bool:
        page = page_at(_window(self._data), 0)
        if page is None:
            if OGG_MAGIC.startswith(self._data[:4]) and not at_end:
                return False  # a header that is not there as a whole
            at = self._data.find(OGG_MAGIC, 1)
            self._pass = at if at > 0 else len(self._data) if at_end else max(0, len(self._data) - 3)
            return False
        self._pass = page.stop
        begins = page.begins_stream and self._has_sound
        self._has_sound = not page.begins_stream
        return begins


class _FlacCutter(_Buffered):
    """Cuts before the header of a file."""

    _has_begun = False

    def _judge(self, *, at_end: bool) -> bool:
        begins = self._has_begun and self._data[:8] in _FLAC_STARTS
        if begins or not self._has_begun:
            self._has_begun = True
            self._pass = len(_FLAC_MAGIC)
            return begins
        found = [at for start in _FLAC_STARTS if (at := self._data.find(start)) >= 0]
        self._pass = min(found) if found else len(self._data) if at_end else max(0, len(self._data) - 7)
        return False


class _Mp3Cutter(_Buffered):
    """Cuts before a frame with the tag of an encoder, and before one behind tags that leans on none before it."""

    _has_begun = _has_tag = False

    def _judge(self, *, at_end: bool) -> bool:
        window = _window(self._data)
        if len(self._data) < _TAG_BYTES and not at_end:
            return False
        frame = frame_at(window, 0)
        if frame is None:
            self._pass_filler(window, at_end=at_end)
            return False
        if not self._has_begun:
            self._has_begun = True
        elif encoder_tag(window, 0, frame) is not None or (self._has_tag and not leans_back(window, 0, frame)):
            if len(self._data) < frame.num_bytes + HEADER_BYTES and not at_end:
                return False
            if frame_at(window, frame.num_bytes) is not None:
                self._has_tag, self._pass = False, frame.num_bytes
                return True
        self._has_tag, self._pass = False, frame.num_bytes
        return False

    def _pass_filler(self, window: Window, *, at_end: bool) -> None:
        """Leave out tags and zeros between files, and let go on what is none, up to where frames begin again."""
        after, has_tag = skip_filler(window, 0, window.size)
        tag_stop = skip_id3v2(window, after)
        if tag_stop > after:
            after, has_tag = tag_stop, True
        if has_tag and self._has_begun:
            self._drop, self._has_tag = after, self._has_tag or has_tag
        elif after:
            self._pass = after
        else:
            found = Search(window, window.size, _MAX_CANDIDATES).find(0, window.size)
            rest = window.size if at_end else max(0, window.size - _RUN_BYTES)
            self._pass = rest if found is None else found
