"""The pages of an Ogg file: one at a place, all whole ones, and what follows the last."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

from aioaudio.decode.headers.tags import skip_filler
from aioaudio.decode.headers.window import Window

__all__ = [
    "FIRST_PAGE_MAGIC",
    "MAGIC",
    "MAX_PAGE_BYTES",
    "NO_GRANULE",
    "Page",
    "is_intact",
    "page_at",
    "rest_of",
    "whole_pages",
]

# Magic, version, flags, granule position, serial number, sequence number, checksum, number of segments.
_HEADER = struct.Struct("<4sBBqIIIB")
_MAX_HEADER_BYTES = _HEADER.size + 255
MAX_PAGE_BYTES = _MAX_HEADER_BYTES + 255 * 255

MAGIC = b"OggS"
_CHECKSUM = slice(22, 26)
_MAGIC_STARTS = (b"O", b"Og", b"Ogg")
FIRST_PAGE_MAGIC = b"OggS\0\x02"
NO_GRANULE = -1

# Most pages are smaller than this; so much is read ahead where many pages are wanted.
_PROBE_BYTES = 1 << 13
_AHEAD_BYTES = 1 << 16
_MAX_CANDIDATES = 1 << 10

# Each byte with its bits in reverse.
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


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


def is_intact(window: Window, page: Page) -> bool:
    """Whether a page has the checksum that it stores.

    It is zlib's without its inversions, of bits in the reverse order.
    """
    data = bytearray(window.read(page.stop - page.offset, page.offset))
    stored, data[_CHECKSUM] = bytes(data[_CHECKSUM]), bytes(4)
    checksum = zlib.crc32(data.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return checksum.to_bytes(4, "big").translate(_REVERSED) == stored


def whole_pages(window: Window) -> Iterator[Page]:
    """All pages of a file that begins with one, up to its end. Those around which bytes are missing are left out if
    they are not intact."""
    reader = _Reader(window)
    page = reader.page_at(0)
    while page is not None:
        following = reader.page_at(page.stop)
        is_followed = page.stop == window.size or (following is not None and following.stop <= window.size)
        if not is_followed:
            # Where bytes are missing inside a page, the next one begins before the end that its header tells.
            following = reader.find(page.offset + len(MAGIC))
        if is_followed or (page.stop <= window.size and is_intact(window, page)):
            yield page
        page = following


class _Reader:
    """Reads ahead. Whole pages are looked for until too often what looks like one is none."""

    def __init__(self, window: Window) -> None:
        self._window = self._near = window
        self._near_stop = 0
        self._candidates_left = _MAX_CANDIDATES

    def page_at(self, offset: int) -> Page | None:
        """The page whose header is at `offset`."""
        if offset + _MAX_HEADER_BYTES > self._near_stop:
            self._near = self._window.moved(_AHEAD_BYTES, offset)
            self._near_stop = offset + _AHEAD_BYTES
        return page_at(self._near, offset)

    def find(self, offset: int) -> Page | None:
        """The first whole page that begins at `offset` or later."""
        num_bytes = _PROBE_BYTES
        while offset < self._window.size:
            block = bytes(self._window.read(num_bytes, offset))
            at = block.find(MAGIC)
            while at >= 0 and self._candidates_left > 0:
                self._candidates_left -= 1
                page = self.page_at(offset + at)
                if page is not None and page.stop <= self._window.size:
                    return page
                at = block.find(MAGIC, at + 1)
            # Three bytes again, for a page that begins at the very end of this block.
            offset += max(1, len(block) - len(MAGIC) + 1)
            num_bytes = _AHEAD_BYTES
        return None


def rest_of(window: Window, start: int, stop: int) -> Literal["nothing", "page", "junk"]:
    """What the bytes `[start, stop)` behind a page are: nothing but tags and zeros, a part of a page, or junk."""
    if start == stop or skip_filler(window, start, stop)[0] == stop:
        return "nothing"
    rest = bytes(window.read(stop - start, start))
    return "page" if MAGIC in rest or rest in _MAGIC_STARTS else "junk"
