"""The pages of an Ogg file: one at a place, all whole ones, and what follows the last."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

from aioaudio.decode.headers.tags import skip_filler
from aioaudio.decode.headers.window import Window

__all__ = ["FIRST_PAGE_MAGIC", "MAGIC", "MAX_PAGE_BYTES", "NO_GRANULE", "Page", "page_at", "rest_of", "whole_pages"]

# Magic, version, flags, granule position, serial number, sequence number, checksum, number of segments.
_HEADER = struct.Struct("<4sBBqIIIB")
_MAX_HEADER_BYTES = _HEADER.size + 255
MAX_PAGE_BYTES = _MAX_HEADER_BYTES + 255 * 255

MAGIC = b"OggS"
_MAGIC_STARTS = (b"O", b"Og", b"Ogg")
FIRST_PAGE_MAGIC = b"OggS\0\x02"
NO_GRANULE = -1

# Most pages are smaller than the first; the second is larger than any.
_BLOCK_BYTES = (1 << 13, 1 << 18)
_MAX_CANDIDATES = 1 << 12


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
    if magic != MAGIC or version or flags > 7 or len(lacing) < num_segments:
        return None
    body = offset + _HEADER.size + num_segments
    return Page(offset, flags, granule, serial, sequence, lacing, body, body + sum(lacing))


def whole_pages(window: Window) -> Iterator[Page]:
    """All pages of a file that begins with one, up to its end; those of which a part is missing are left out."""
    search = _Search(window)
    page = page_at(window, 0)
    while page is not None:
        following = page_at(window, page.stop)
        if following is None or following.stop > window.size:
            # Where bytes are missing inside a page, the next one begins before the end that its header tells.
            following = search.find(page.offset + len(MAGIC))
        if page.stop <= window.size and (following is None or following.offset >= page.stop):
            yield page
        page = following


class _Search:
    """Looks for whole pages, until too often what looks like one is none."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._candidates_left = _MAX_CANDIDATES

    def find(self, offset: int) -> Page | None:
        """The first whole page that begins at `offset` or later."""
        num_bytes = _BLOCK_BYTES[0]
        while offset < self._window.size:
            block = bytes(self._window.read(num_bytes, offset))
            at = block.find(MAGIC)
            while at >= 0 and self._candidates_left > 0:
                self._candidates_left -= 1
                page = page_at(self._window, offset + at)
                if page is not None and page.stop <= self._window.size:
                    return page
                at = block.find(MAGIC, at + 1)
            # A few bytes again, for a page that begins at the very end of this block.
            offset += len(block) - (len(MAGIC) - 1) if offset + len(block) < self._window.size else len(block)
            num_bytes = _BLOCK_BYTES[1]
        return None


def rest_of(window: Window, start: int, stop: int) -> Literal["nothing", "page", "junk"]:
    """What the bytes `[start, stop)` behind a page are: nothing but tags and zeros, a part of a page, or junk."""
    if skip_filler(window, start, stop)[0] == stop:
        return "nothing"
    rest = bytes(window.read(stop - start, start))
    return "page" if MAGIC in rest or rest in _MAGIC_STARTS else "junk"
