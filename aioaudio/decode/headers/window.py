"""What every parser needs: bytes at a position, and where an ID3v2 tag ends."""

from __future__ import annotations

from aioaudio.encoded import OpenBytes
from aioaudio.errors import FetchError

__all__ = ["Held", "Window", "skip_id3v2", "window_of"]

# Some taggers put a new tag before the old ones.
_MAX_TAGS = 16


class Window:
    """A file of which the bytes from `start` on have been read as `head`: only what lies elsewhere is read again."""

    __slots__ = ("_file", "_head", "_reaches_end", "_start", "size")

    def __init__(self, file: OpenBytes, head: memoryview, start: int = 0) -> None:
        self._file, self._head, self._start = file, head, start
        self.size = file.size
        self._reaches_end = start + len(head) >= file.size

    def read(self, num_bytes: int, offset: int) -> memoryview:
        """Bytes `[offset, offset + num_bytes)`, fewer only at the end. Raises SourceError where they cannot be had."""
        at = offset - self._start
        if at >= 0 and (self._reaches_end or at + num_bytes <= len(self._head)):
            return self._head[at : at + num_bytes]
        data = self._file.read(num_bytes, offset)
        # A parser that trusts the size would look for ever for bytes that are gone.
        if len(data) < min(num_bytes, self.size - offset):
            raise FetchError("became shorter while it was read")
        return data

    def moved(self, num_bytes: int, offset: int) -> Window:
        """A window of the same file that has read `num_bytes` at `offset`."""
        return Window(self._file, self.read(num_bytes, offset), offset)


def skip_id3v2(window: Window, start: int) -> int:
    """Where the ID3v2 tags that begin at `start` end; `start` where there are none."""
    for _ in range(_MAX_TAGS):
        tag = bytes(window.read(10, start))
        if tag[:3] != b"ID3" or len(tag) < 10 or 0xFF in tag[3:5] or max(tag[6:]) > 0x7F:
            break
        start += 10 + (tag[6] << 21 | tag[7] << 14 | tag[8] << 7 | tag[9])
        if tag[5] & 0x10:  # a footer repeats the header
            start += 10
    return start


class Held:
    """Bytes at hand, for the parsers."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data)
        self.size = len(data)

    def read(self, num_bytes: int, offset: int) -> memoryview:
        return self._data[max(0, offset) : max(0, offset) + num_bytes]

    def ffmpeg_path(self) -> str:
        raise NotImplementedError


def window_of(data: bytes | bytearray) -> Window:
    return Window(Held(data), memoryview(data))
