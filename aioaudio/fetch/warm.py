"""Local files and the page cache, which is their buffer.

A decode worker opens a `LocalFile`, asks `is_cached`, and has a read worker `warm` it where it is not: so it never
waits for a disk, and FFmpeg, which takes a read error for the end of the file, meets none.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from itertools import chain
from typing import Protocol

from aioaudio.encoded import LocalFile, OpenBytes, OpenLocalFile

__all__ = ["StopFlag", "is_cached", "warm"]

_BLOCK_BYTES = 1024 * 1024
_SAMPLE_SPACING = 256 * 1024
_MAX_SAMPLES = 32


class StopFlag(Protocol):
    """Tells a thread, once `is_set` is true, that its result is not wanted any more."""

    @property
    def is_set(self) -> bool: ...


def is_cached(opened: OpenBytes) -> bool:
    """Whether open bytes lie in memory, as far as samples of a local file tell. Never waits.

    Asks for one byte of the first page, of the last and of some between. What is missing starts to be read by being
    asked for: so ask once, and warm the file where the answer is False, which it also is where the system does not say.
    """
    if not isinstance(opened, OpenLocalFile):
        return True
    spacing = max(_SAMPLE_SPACING, -(-opened.size // _MAX_SAMPLES))
    offsets = chain(range(0, opened.size, spacing), (max(0, opened.size - 1),))
    return all(map(opened.is_in_memory, offsets))


def warm(file: LocalFile, stop: StopFlag | None = None) -> None:
    """Bring a local file into the page cache by reading all of it. Blocks.

    Raises SourceError if any read fails, NotRegularFile for what has no pages (`fetch` reads those), and
    `concurrent.futures.CancelledError` once `stop` is set.
    """
    with file.open() as opened:
        buffer = memoryview(bytearray(min(_BLOCK_BYTES, opened.size + 1)))
        offset = 0
        while count := opened.read_into(buffer, offset):
            offset += count
            if stop is not None and stop.is_set:
                raise CancelledError
