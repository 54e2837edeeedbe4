"""The boxes of an MP4 or QuickTime file (ISO/IEC 14496-12): what is in a file, and in each of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from aioaudio.decode.headers.window import Window

__all__ = ["Box", "boxes", "find", "payload", "whole"]

_HEADER = struct.Struct(">I4s")

# More than any file has in one place; bounds the reads that a file of nothing but empty boxes can cause.
_MAX_BOXES = 10_000

# The longest payload that is read as a whole: a table for many hours has some megabytes.
_MAX_PAYLOAD = 64 << 20


class Box(NamedTuple):
    """A box's kind, and where its payload begins and ends, as promised: perhaps behind the end of what it lies in."""

    kind: bytes
    start: int
    stop: int


def whole(window: Window) -> Box:
    """The file as a box."""
    return Box(b"", 0, window.size)


def boxes(window: Window, parent: Box, skip: int = 0) -> Iterator[Box]:
    """The boxes in `parent`, behind `skip` bytes, up to one that ends behind its end, or has no sound header."""
    offset, stop = parent.start + skip, min(parent.stop, window.size)
    for _ in range(_MAX_BOXES):
        if stop - offset < 8:
            return
        size, kind = _HEADER.unpack(window.read(8, offset))
        header_bytes = 8
        if size == 0:  # up to the end
            size = stop - offset
        elif size == 1:
            size, header_bytes = int.from_bytes(window.read(8, offset + 8), "big"), 16
        if size < header_bytes or stop - offset < header_bytes:
            return
        yield Box(kind, offset + header_bytes, offset + size)
        offset += size


def find(window: Window, parent: Box, *path: bytes) -> Box | None:
    """The first box at `path` that lies in its parent as a whole."""
    for box in boxes(window, parent):
        if box.stop > min(parent.stop, window.size):
            return None
        if box.kind == path[0]:
            return box if len(path) == 1 else find(window, box, *path[1:])
    return None


def payload(window: Window, box: Box) -> memoryview:
    """What is in `box`; nothing where that is absurdly long."""
    size = box.stop - box.start
    return window.read(size if size <= _MAX_PAYLOAD else 0, box.start)
