"""The pages of an Ogg file: one, the last one, and those that begin a stream.

No ordinary file is read as a whole: a chain of streams shows in samples of its pages, and only then all its beginnings
are searched for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from aioaudio.decode.headers.window import Window

__all__ = ["FRONT_BYTES", "Page", "last_page", "page_at", "stream_starts"]

# Magic, version, flags, granule position, serial number, sequence number, checksum, number of segments.
_HEADER = struct.Struct("<4sBBqIIIB")
_MAX_HEADER_BYTES = _HEADER.size + 255
_MAX_PAGE_BYTES = _MAX_HEADER_BYTES + 255 * 255

_MAGIC = b"OggS"
_MAGIC_STARTS = (b"O", b"Og", b"Ogg")
_FIRST_PAGE_MAGIC = b"OggS\0\x02"
_NO_GRANULE = -1

# Most pages are smaller than the first; the second holds a whole page wherever it begins.
_PROBE_BYTES = (1 << 13, 2 * _MAX_PAGE_BYTES)

# So much of the front is searched for a second stream in every file.
FRONT_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 18

_MAX_CANDIDATES = 1024
_MAX_STREAMS = 4096


class Page(NamedTuple):
    """One page, `[offset, stop)` in the file: `lacing` are the sizes of its segments, whose bytes begin at `body`."""

    offset: int
    flags: int
    granule: int
    serial: int
    sequence: int
    lacing: bytes
    body: int
    stop: int

    @property
    def is_continued(self) -> bool:
        """Whether it begins inside a packet."""
        return bool(self.flags & 1)

    @property
    def begins_stream(self) -> bool:
        """Whether it is the first of its stream."""
        return bool(self.flags & 2)

    @property
    def is_last(self) -> bool:
        """Whether it says that it ends its stream."""
        return bool(self.flags & 4)

    @property
    def num_packets(self) -> int:
        """How many packets end in it."""
        return len(self.lacing) - self.lacing.count(255)


def page_at(window: Window, offset: int) -> Page | None:
    """The page whose header is at `offset`, None where there is none. The file may end before the page does."""
    header = window.read(_MAX_HEADER_BYTES, offset)
    if len(header) < _HEADER.size:
        return None
    magic, version, flags, granule, serial, sequence, _, num_segments = _HEADER.unpack_from(header)
    lacing = bytes(header[_HEADER.size : _HEADER.size + num_segments])
    if magic != _MAGIC or version or flags > 7 or len(lacing) < num_segments:
        return None
    body = offset + _HEADER.size + num_segments
    return Page(offset, flags, granule, serial, sequence, lacing, body, body + sum(lacing))


def last_page(window: Window, start: int, stop: int) -> tuple[Page | None, bool]:
    """The last whole page in `[start, stop)` in which a packet ends, and whether a page behind it is cut off."""
    is_cut = False
    for num_bytes in _PROBE_BYTES:
        begin = max(start, stop - num_bytes)
        near = window.moved(stop - begin, begin)
        tail = bytes(near.read(stop - begin, begin))
        is_cut, rest = False, b""
        for at in islice(_occurrences(tail), _MAX_CANDIDATES):
            page = page_at(near, begin + at)
            if page is None or page.stop > stop:
                is_cut = True
                continue
            rest = rest or tail[page.stop - begin :]
            if page.granule != _NO_GRANULE:
                return page, is_cut or rest in _MAGIC_STARTS
    return None, is_cut


def stream_starts(window: Window, first: Page, last: Page) -> list[int]:
    """Where streams begin in a file whose first page is `first` and whose last one is `last`; in a chain, many."""
    if not _may_be_chain(window, first, last):
        return [first.offset]
    starts = [first.offset]
    for offset in range(0, window.size, _CHUNK_BYTES):
        # A few bytes of the next chunk, for a page that begins at the very end of this one.
        chunk = bytes(window.read(_CHUNK_BYTES + len(_FIRST_PAGE_MAGIC) - 1, offset))
        found = [offset + at for at in _occurrences(chunk, _FIRST_PAGE_MAGIC)]
        starts += [start for start in reversed(found) if start > first.offset]
    return starts[:_MAX_STREAMS]


def _may_be_chain(window: Window, first: Page, last: Page) -> bool:
    """Whether there may be more than the one stream.

    Each should have a serial number of its own. Where an encoder gives all the same, the pages' sequence numbers,
    sampled ever nearer to the front, do not fall as they should.
    """
    if last.serial != first.serial:
        return True
    later, offset = last, last.offset // 2
    while offset > FRONT_BYTES:
        page = _next_page(window, offset)
        if page is None or page.serial != first.serial:
            return True
        if page.offset < later.offset and page.sequence >= later.sequence:
            return True
        later, offset = page, offset // 2
    return bytes(window.read(FRONT_BYTES, 0)).rfind(_FIRST_PAGE_MAGIC) > first.offset


def _next_page(window: Window, offset: int) -> Page | None:
    """The first page that begins at `offset` or later."""
    for num_bytes in _PROBE_BYTES:
        near = window.moved(num_bytes, offset)
        data = bytes(near.read(num_bytes, offset))
        at = data.find(_MAGIC)
        for _ in range(_MAX_CANDIDATES):
            if at < 0:
                break
            if page := page_at(near, offset + at):
                return page
            at = data.find(_MAGIC, at + 1)
    return None


def _occurrences(data: bytes, magic: bytes = _MAGIC) -> Iterator[int]:
    """Where `magic` is in `data`, the last one first: Python searches backwards several times faster."""
    at = data.rfind(magic)
    while at >= 0:
        yield at
        at = data.rfind(magic, 0, at)
