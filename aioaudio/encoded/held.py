"""Encoded audio that is held until it is decoded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from aioaudio.encoded.access import OpenBytes, OpenDescriptor, byte_view, clip
from aioaudio.encoded.descriptor import AnonymousFile
from aioaudio.encoded.faults import buffer_error

__all__ = ["Encoded"]


class Encoded:
    """Encoded audio that has been fetched: the bytes of a whole file, not decoded yet.

    Made by `fetch`, or from bytes-like data, of which mutable kinds are copied. It never changes, may be decoded many
    times and by many tasks at once, is freed like any other memory, and pickles as its bytes. `name` is what errors
    call it, `num_bytes` its size.
    """

    __slots__ = ("__weakref__", "_held", "_size", "name")

    def __init__(
        self, data: bytes | bytearray | memoryview | npt.NDArray[np.uint8], *, name: str | None = None
    ) -> None:
        view = byte_view(data)
        if not (isinstance(view.obj, bytes) and view.contiguous and view.format == "B"):
            view = memoryview(view.tobytes())
        self._set(view, len(view), f"<{len(view)} bytes>" if name is None else name)

    def _set(self, held: memoryview | AnonymousFile, size: int, name: str) -> None:
        self._held, self._size, self.name = held, size, name

    @classmethod
    def _holding(cls, held: memoryview | AnonymousFile, size: int, name: str) -> Self:
        """An `Encoded` that keeps `held` itself, which nobody else may change."""
        encoded = cls.__new__(cls)
        encoded._set(held, size, name)
        return encoded

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""
        return self._size

    @contextlib.contextmanager
    def open(self) -> Iterator[OpenBytes]:
        """Open for one decode; what the engines read from."""
        if isinstance(self._held, AnonymousFile):
            yield OpenDescriptor(self._held, self._size, self._held.path, self.name)
            return
        opened = _OpenMemory(self._held, self.name)
        try:
            yield opened
        finally:
            opened.close()

    def __bytes__(self) -> bytes:
        with self.open() as opened:
            return bytes(opened.read(opened.size, 0))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (bytes(self), self.name)

    def __repr__(self) -> str:
        return f"Encoded({self.name!r}, {self.num_bytes} bytes)"


def _from_bytes(data: bytes, name: str) -> Encoded:
    return Encoded(data, name=name)


class _OpenMemory:
    def __init__(self, data: memoryview, name: str) -> None:
        self.size = len(data)
        self._data, self._name = data, name
        self._file: AnonymousFile | None = None

    def read(self, num_bytes: int, offset: int) -> memoryview:
        length = clip(num_bytes, offset, self.size)
        return self._data[offset : offset + length] if length else self._data[:0]

    def ffmpeg_path(self) -> str | bytes:
        if self._file is None:
            try:
                file = AnonymousFile()
                file.write(self._data)
            except OSError as error:
                raise buffer_error(error, self._name) from error
            self._file = file
        return self._file.path

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
