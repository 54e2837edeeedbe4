"""How encoded bytes are read, wherever they lie."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Protocol

from aioaudio.encoded import nowait
from aioaudio.encoded.descriptor import Descriptor
from aioaudio.encoded.faults import source_error

__all__ = ["OpenBytes", "OpenDescriptor", "Readable", "byte_view", "clip"]


class OpenBytes(Protocol):
    """Encoded bytes, open for reading by one decode. Closed by the context manager that gave it."""

    size: int

    def read(self, num_bytes: int, offset: int) -> memoryview:
        """Bytes `[offset, offset + num_bytes)`, fewer only at the end. Raises SourceError on a read error.

        Nothing lies before offset 0 or beyond `size`: there, the view is empty. It may be read-only.
        """
        ...

    def ffmpeg_path(self) -> str | bytes:
        """A path that FFmpeg can open anew, each time with an offset of its own; valid until closed."""
        ...


class Readable(Protocol):
    """What a decode reads from: a `LocalFile` or an `Encoded`."""

    name: str

    def open(self) -> contextlib.AbstractContextManager[OpenBytes]:
        """Open for one decode. Raises SourceError."""
        ...


class OpenDescriptor:
    """Bytes behind a descriptor, which it keeps open."""

    def __init__(self, descriptor: Descriptor, size: int, path: str | bytes, name: str) -> None:
        self.size = size
        self._descriptor, self._path, self._name = descriptor, path, name

    @property
    def fd(self) -> int:
        """The descriptor; its offset is nobody's."""
        return self._descriptor.fd

    def read(self, num_bytes: int, offset: int) -> memoryview:
        buffer = memoryview(bytearray(clip(num_bytes, offset, self.size)))
        filled = (nowait.read_into(self.fd, buffer, offset) or 0) if len(buffer) <= nowait.MAX_BYTES else 0
        while filled < len(buffer):
            count = self.read_into(buffer[filled:], offset + filled)
            if count == 0:
                break
            filled += count
        return buffer[:filled]

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """One read at `offset`: how many bytes came, 0 at the end. Raises SourceError."""
        try:
            return os.preadv(self.fd, [buffer], offset)
        except OSError as error:
            raise source_error(error, self._name) from error

    def is_in_memory(self, offset: int) -> bool:
        """Whether the byte at `offset` lies in memory; False where the system does not say. Never waits."""
        return nowait.is_in_memory(self.fd, offset)

    def ffmpeg_path(self) -> str | bytes:
        return self._path


def byte_view(data: Any) -> memoryview:
    """A view of `data`, which may be strided. Raises TypeError unless it is one-dimensional, of single bytes."""
    view = memoryview(data)
    if view.ndim != 1 or view.format.lstrip("@=<>!") not in ("B", "b", "c"):
        kind = f"{type(data).__name__} of shape {view.shape} and format {view.format!r}"
        raise TypeError(f"encoded audio must be one-dimensional and of single bytes (uint8), not {kind}")
    return view


def clip(num_bytes: int, offset: int, size: int) -> int:
    """How many of `num_bytes` at `offset` lie within `size`."""
    return max(0, min(num_bytes, size - offset)) if offset >= 0 else 0
