"""Where one file ends and the next begins, in bytes as they arrive.

What is joined is cut as it is in a file that is there as a whole, so that each part is decoded for itself: the links of
a chained Ogg, MP3 files with their tags, FLAC files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

from aioaudio.decode.headers.arrival import Kind
from aioaudio.decode.headers.mp3_frames import HEADER_BYTES, Search, frame_at, leans_back
from aioaudio.decode.headers.mp3_tag import encoder_tag
from aioaudio.decode.headers.ogg_pages import MAGIC as OGG_MAGIC
from aioaudio.decode.headers.ogg_pages import page_at
from aioaudio.decode.headers.tags import skip_filler
from aioaudio.decode.headers.window import Window, skip_id3v2, window_of
from aioaudio.options import SAMPLE_FORMATS, RawPCM

__all__ = ["Cut", "Cutter", "Fault", "cutter_of"]


class Fault(NamedTuple):
    """What is missing in a file, which are counted from 0: a kind of damage, and a message."""

    file: int
    kind: Literal["truncated", "undecodable"]
    message: str


_FLAC_MAGIC = b"fLaC"
_FLAC_STARTS = tuple(_FLAC_MAGIC + header for header in (b"\0\0\0\x22", b"\x80\0\0\x22"))

# How the first packet of a stream begins whose last page is to say that it is the last.
_OGG_CODECS = (b"\x01vorbis", b"OpusHead", b"\x7fFLAC")
_CODEC_BYTES = 8

# From the start of a frame to the end of the tag in it, and three of the largest frames: a run.
_TAG_BYTES = 192
_RUN_BYTES = 3 * 1442
_MAX_CANDIDATES = 256


class Cut(NamedTuple):
    """Bytes that go on; with `begins` they begin a file of their own."""

    begins: bool
    data: bytes


class Cutter(Protocol):
    """Cuts what arrives where a file begins.

    `faults` collects what it notices to be missing, `file` is the number of the file at hand, and `num_held` how many
    bytes have come that do not go on yet.
    """

    faults: list[Fault]
    file: int

    @property
    def num_held(self) -> int: ...

    def push(self, data: bytes | memoryview, *, at_end: bool = False) -> Iterator[Cut]:
        """What `data` lets go on; with `at_end`, all that is left."""
        ...


def cutter_of(kind: Kind, before: Cutter | None = None) -> Cutter:
    """The cutter for what arrives, or for what does so anew, in the midst of a stream that broke off `before`."""
    cutter = _new_cutter(kind)
    if before is not None:
        cutter.faults, cutter.file = before.faults, before.file + 1
    return cutter


def _new_cutter(kind: Kind) -> Cutter:
    match kind.demuxer:
        case "ogg":
            return _OggCutter()
        case "mp3":
            return _Mp3Cutter()
        case "flac":
            return _FlacCutter()
    return _NoCutter() if kind.raw is None else _PcmCutter(kind, kind.raw)


class _NoCutter:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.file = 0

    @property
    def num_held(self) -> int:
        return 0

    def push(self, data: bytes | memoryview, *, at_end: bool = False) -> Iterator[Cut]:  # noqa: ARG002
        if len(data):
            yield Cut(False, bytes(data))


class _Buffered(_NoCutter):
    """Holds what cannot be judged yet; `_next` says of the bytes at hand where the next cut may be."""

    _inside = "a file"

    def __init__(self) -> None:
        super().__init__()
        self._data = bytearray()
        self._pass = 0  # bytes that go on as they come
        self._drop = 0  # bytes that are left out

    @property
    def num_held(self) -> int:
        return len(self._data)

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
                self.file += 1
            if not (self._pass or self._drop):
                break
        if at_end:
            out += self._data
            self._data.clear()
            if self._pass:
                self._note("truncated", f"ends inside {self._inside}")
        if out:
            yield Cut(False, bytes(out))

    def _note(self, kind: Literal["truncated", "undecodable"], message: str) -> None:
        self.faults.append(Fault(self.file, kind, message))

    def _take(self, num_bytes: int) -> tuple[int, bytes]:
        taken = bytes(self._data[:num_bytes])
        del self._data[: len(taken)]
        return len(taken), taken

    def _judge(self, *, at_end: bool) -> bool:
        """Set what of the bytes at hand, and of those to come, goes on or is left out; neither, to wait for more.

        Says whether a file begins with them.
        """
        raise NotImplementedError


class _PcmCutter(_Buffered):
    """Leaves out the header, and what is behind the samples, of which only whole ones go on."""

    def __init__(self, kind: Kind, raw: RawPCM) -> None:
        super().__init__()
        self._frame_bytes = SAMPLE_FORMATS[raw.sample_format] * raw.num_channels
        self._is_headerless = not kind.start
        self._drop, self._left = kind.start, kind.num_bytes

    def _judge(self, *, at_end: bool) -> bool:
        if self._left is not None and self._left < self._frame_bytes:
            self._drop = len(self._data)
            return False
        here = len(self._data) if self._left is None else min(self._left, len(self._data))
        self._pass = here // self._frame_bytes * self._frame_bytes
        if self._left is not None:
            self._left -= self._pass
        if at_end and not self._pass:
            self._drop = len(self._data)
            if self._is_headerless:  # elsewhere a header says that the rest is whole
                self._note("truncated", f"ends {self._drop} bytes into a sample of all channels")
        return False

    def push(self, data: bytes | memoryview, *, at_end: bool = False) -> Iterator[Cut]:
        yield from super().push(data, at_end=at_end)
        if at_end and self._left is not None and self._left >= self._frame_bytes:
            self._note("truncated", "ends before the samples that its header promises")


class _OggCutter(_Buffered):
    """Cuts before the first page of a stream behind pages of others that are not first ones."""

    _inside = "a page"
    _has_sound = _is_known = _is_last = False
    _sequences: dict[int, int]

    def __init__(self) -> None:
        super().__init__()
        self._sequences = {}

    def _judge(self, *, at_end: bool) -> bool:
        page = page_at(window_of(self._data), 0)
        if page is None:
            if OGG_MAGIC.startswith(self._data[:4]) and not at_end:
                return False  # a header that is not there as a whole
            at = self._data.find(OGG_MAGIC, 1)
            self._pass = at if at > 0 else len(self._data) if at_end else max(0, len(self._data) - 3)
            return False
        if len(self._data) < page.body + _CODEC_BYTES and page.begins_stream and not at_end:
            return False
        self._pass = page.stop
        last = self._sequences.get(page.serial)
        if last is not None and page.sequence > last + 1 and not page.begins_stream:
            self._note("undecodable", f"page {page.sequence} follows page {last}")
        begins = page.begins_stream and self._has_sound
        if begins:
            self._sequences.clear()
            self._check_last()
        if page.begins_stream:
            self._is_known = self._data[page.body :].startswith(_OGG_CODECS)
        self._is_last = page.is_last
        self._sequences[page.serial] = page.sequence
        self._has_sound = not page.begins_stream
        return begins

    def push(self, data: bytes | memoryview, *, at_end: bool = False) -> Iterator[Cut]:
        yield from super().push(data, at_end=at_end)
        if at_end and not self.faults:
            self._check_last()

    def _check_last(self) -> None:
        if self._is_known and not self._is_last:
            self._note("truncated", "the last page does not end the stream")


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

    _inside = "a frame"
    _has_begun = _has_tag = False

    def _judge(self, *, at_end: bool) -> bool:
        window = window_of(self._data)
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
            self._drop, self._has_tag = after, True
        elif after and self._has_begun:
            self._pass = after
        elif after:  # at the start, FFmpeg looks behind tags, and would stumble over anything else
            self._pass = skip_id3v2(window, 0)
            self._drop = 0 if self._pass else after
        else:
            found = Search(window, window.size, _MAX_CANDIDATES).find(0, window.size)
            rest = window.size if at_end else max(0, window.size - _RUN_BYTES)
            num_bytes = rest if found is None else found
            self._pass, self._drop = (num_bytes, 0) if self._has_begun else (0, num_bytes)
