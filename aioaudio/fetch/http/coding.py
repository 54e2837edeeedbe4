"""Bodies that were compressed for the way, though nobody asked for it."""

from __future__ import annotations

import zlib
from typing import Any

__all__ = ["Inflater", "inflater_for"]

# What is given at once: a bomb grows no faster than its reader takes it.
_BLOCK_BYTES = 256 * 1024

_GZIP, _ZLIB, _RAW = 31, 15, -15


class Inflater:
    """Undoes gzip (of any number of members) or deflate (with or without the header of zlib), in bounded blocks."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._stream: Any = zlib.decompressobj(_GZIP) if is_gzip else None
        self._pending = b""
        self._has_more = False

    def feed(self, data: bytes) -> None:
        """Give it the next bytes, once it has given back all of those before."""
        if self._stream is None:
            self._stream = zlib.decompressobj(_ZLIB if data[0] & 0x0F == 8 else _RAW)
        self._pending = data

    def take(self) -> bytes:
        """A block of what was fed; empty where more must be fed. Raises zlib.error."""
        while self._pending or self._has_more:
            if self._stream.eof:
                if not self._is_gzip:  # what follows the end is nothing
                    self._pending, self._has_more = b"", False
                    break
                self._stream = zlib.decompressobj(_GZIP)
            block: bytes = self._stream.decompress(self._pending, _BLOCK_BYTES)
            self._has_more = len(block) == _BLOCK_BYTES and not self._stream.eof
            self._pending = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if block:
                return block
        return b""

    @property
    def is_complete(self) -> bool:
        """Whether what was fed ends where what was compressed ends; nothing at all is so, too."""
        return self._stream is None or self._stream.eof


def inflater_for(content_encoding: str | None) -> Inflater | None:
    """What undoes a Content-Encoding, None where there is nothing to undo. Raises ValueError for other kinds."""
    match (content_encoding or "identity").strip().lower():
        case "identity" | "":
            return None
        case "gzip" | "x-gzip":
            return Inflater(is_gzip=True)
        case "deflate":
            return Inflater(is_gzip=False)
        case other:
            raise ValueError(f"is compressed with {other[:40]!r}, which nobody asked for")
