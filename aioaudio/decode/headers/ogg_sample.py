"""The streams of a large Ogg file, found without reading it as a whole.

A chain of streams shows in samples of its pages, and only then all its beginnings are searched for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from aioaudio.decode.headers.ogg_pages import (
    FIRST_PAGE_MAGIC,
    MAGIC,
    MAX_PAGE_BYTES,
    NO_GRANULE,
    Page,
    page_at,
)
from aioaudio.decode.headers.window import Window

__all__ = ["last_pages", "stream_starts"]

# Most pages are smaller than the first; the second holds a whole page wherever it begins.
_PROBE_BYTES = (1 << 13, 2 * MAX_PAGE_BYTES)

# So much of the front is searched for a second stream in every file.
_FRONT_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 18

_MAX_CANDIDATES = 1024
_MAX_STREAMS = 4096


def last_pages(window: Window, start: int, stop: int) -> tuple[Page, Page] | None:
    """The last whole page in `[start, stop)` that has a granule position, and the last whole one."""
    for num_bytes in _PROBE_BYTES:
        begin = max(start, stop - num_bytes)
        near = window.moved(stop - begin, begin)
        final = None
        for at in islice(_occurrences(bytes(near.read(stop - begin, begin))), _MAX_CANDIDATES):
            page = page_at(near, begin + at)
            if page is None or page.stop > stop:
                continue
            final = final or page
            if page.granule != NO_GRANULE:
                return page, final
    return None


def stream_starts(window: Window, first: Page, last: Page) -> list[int]:
    """Where streams begin in a file whose first page is `first` and whose last one is `last`; in a chain, many."""
    starts = [first.offset]
    if not _may_be_chain(window, first, last):
        return starts
    for offset in range(0, window.size, _CHUNK_BYTES):
        # A few bytes of the next chunk, for a page that begins at the very end of this one.
        chunk = bytes(window.read(_CHUNK_BYTES + len(FIRST_PAGE_MAGIC) - 1, offset))
        found = [offset + at for at in _occurrences(chunk, FIRST_PAGE_MAGIC)]
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
    while offset > _FRONT_BYTES:
        page = _next_page(window, offset)
        if page is None or page.serial != first.serial:
            return True
        if page.offset < later.offset and page.sequence >= later.sequence:
            return True
        later, offset = page, offset // 2
    return bytes(window.read(_FRONT_BYTES, 0)).rfind(FIRST_PAGE_MAGIC) > first.offset


def _next_page(window: Window, offset: int) -> Page | None:
    """The first page that begins at `offset` or later."""
    for num_bytes in _PROBE_BYTES:
        near = window.moved(num_bytes, offset)
        data = bytes(near.read(num_bytes, offset))
        at = data.find(MAGIC)
        for _ in range(_MAX_CANDIDATES):
            if at < 0:
                break
            if page := page_at(near, offset + at):
                return page
            at = data.find(MAGIC, at + 1)
    return None


def _occurrences(data: bytes, magic: bytes = MAGIC) -> Iterator[int]:
    """Where `magic` is in `data`, the last one first: Python searches backwards several times faster."""
    at = data.rfind(magic)
    while at >= 0:
        yield at
        at = data.rfind(magic, 0, at)
