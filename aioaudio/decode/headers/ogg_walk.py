"""The streams of an Ogg file that follow one another, and the pages that are missing in them."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

from aioaudio.decode.headers.ogg_pages import NO_GRANULE, Page, page_at, rest_of, whole_pages
from aioaudio.decode.headers.ogg_sample import last_pages, stream_starts
from aioaudio.decode.headers.window import Window

__all__ = ["Fault", "Link", "find_links"]

# Of a larger file only the end and some places are looked at.
_MAX_WALK_BYTES = 1 << 24

_MAX_LINKS = 4096
_MAX_FAULTS = 100
_SEQUENCE_MASK = 0xFFFFFFFF


class Fault(NamedTuple):
    """What is wrong behind the granule position `granule`: `kind` is as in Damage."""

    granule: int
    kind: Literal["truncated", "undecodable", "junk"]
    message: str


class Link(NamedTuple):
    """One of the streams, `[first.offset, stop)` in the file; `last` is the last page that has a granule position."""

    first: Page
    last: Page
    stop: int
    faults: tuple[Fault, ...]


def find_links(window: Window, first: Page) -> list[Link]:
    """The streams of the file that begins with the page `first`."""
    return _walked(window) if window.size <= _MAX_WALK_BYTES else _sampled(window, first)


def _walked(window: Window) -> list[Link]:
    """The streams, from all pages of the file. Those of streams that run at the same time are passed over."""
    links: list[Link] = []
    walk: _LinkWalk | None = None
    for page in whole_pages(window):
        if page.begins_stream and len(links) < _MAX_LINKS:
            if walk is not None:
                links.append(walk.link(window, page.offset))
            walk = _LinkWalk(page)
        elif walk is not None and page.serial == walk.first.serial:
            walk.add(page)
    return links if walk is None else [*links, walk.link(window, window.size)]


def _sampled(window: Window, first: Page) -> list[Link]:
    """The streams, from some pages of the file. Only what is missing at their ends shows."""
    links: list[Link] = []
    ends = last_pages(window, 0, window.size)
    starts = [] if ends is None else stream_starts(window, first, ends[0])
    for start, stop in pairwise([*starts, window.size]):
        page, ends = page_at(window, start), last_pages(window, start, stop)
        if page is None or ends is None:
            return []
        walk = _LinkWalk(page)
        walk.last, walk.page = ends
        links.append(walk.link(window, stop))
    return links


class _LinkWalk:
    """Notes what is wrong in one stream: `page` is the last page so far, `last` the last one that has a granule."""

    def __init__(self, first: Page) -> None:
        self.first = self.last = self.page = first
        self.faults: list[Fault] = []

    def add(self, page: Page) -> None:
        before, self.page = self.page, page
        if page.sequence != before.sequence + 1 & _SEQUENCE_MASK:
            self._note("undecodable", f"page {page.sequence} follows page {before.sequence}")
        elif page.offset != before.stop:
            self._note("junk", f"{page.offset - before.stop} bytes between pages")
        if page.granule != NO_GRANULE:
            self.last = page

    def link(self, window: Window, stop: int) -> Link:
        """The link that ends at `stop`."""
        rest = rest_of(window, self.page.stop, stop)
        if rest == "page" or not self.page.is_last:
            kind: Literal["truncated", "undecodable"] = "truncated" if stop == window.size else "undecodable"
            self._note(kind, "ends inside a page" if rest == "page" else "the last page does not end the stream")
        elif rest == "junk":
            self._note("junk", f"{stop - self.page.stop} bytes behind the last page")
        return Link(self.first, self.last, stop, tuple(self.faults))

    def _note(self, kind: Literal["truncated", "undecodable", "junk"], message: str) -> None:
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(Fault(self.last.granule, kind, message))
