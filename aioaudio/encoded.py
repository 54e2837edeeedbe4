"""Encoded audio as bytes at hand: in memory, in an anonymous file, or in a local file.

The engines read all three through one small interface, `OpenBytes`: checked reads at a position for our own parsers,
and a path for FFmpeg. FFmpeg takes a read error for the end of the file, so it is only given what has been read here
before, with every read checked.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, Protocol, Self

from aioaudio.errors import FetchError, LimitError, SourceDenied, SourceError, SourceNotFound

__all__ = ["Encoded", "EncodedWriter", "LocalFile", "OpenBytes", "Readable", "source_error"]

_HAS_MEMFD = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")

# Anonymous files kept open at once by Encoded objects; beyond that they hold plain bytes. A quarter of the usual
# limit of 1024 descriptors, so that the program keeps most of them.
_MAX_OPEN = 256


def source_error(error: OSError, name: str) -> SourceError:
    """The `SourceError` for what the system said about the source `name`."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return SourceNotFound("no such file", source=name)
        case PermissionError():
            return SourceDenied("permission denied", source=name)
        case IsADirectoryError():
            fetch_error = FetchError("is a directory", source=name)
        case _:
            fetch_error = FetchError(f"reading failed: {error.strerror or error}", source=name)
    fetch_error.errno = error.errno
    return fetch_error


class OpenBytes(Protocol):
    """Encoded bytes, open for reading by one decode. Closed by the context manager that gave it."""

    size: int

    def read(self, num_bytes: int, offset: int) -> memoryview:
        """Bytes `[offset, offset + num_bytes)`, fewer only at the end. Raises SourceError on a read error."""
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


class _OpenDescriptor:
    def __init__(self, fd: int, path: str | bytes, name: str) -> None:
        self._fd, self._path, self._name = fd, path, name
        self.size = os.fstat(fd).st_size

    def read(self, num_bytes: int, offset: int) -> memoryview:
        num_bytes = max(0, min(num_bytes, self.size - offset))
        buffer = memoryview(bytearray(num_bytes))
        try:
            filled = 0
            while filled < num_bytes:
                count = os.preadv(self._fd, [buffer[filled:]], offset + filled)
                if count == 0:
                    break
                filled += count
        except OSError as error:
            raise source_error(error, self._name) from error
        return buffer[:filled]

    def ffmpeg_path(self) -> str | bytes:
        return self._path


class LocalFile:
    """A file of the file system, opened anew for each decode; the page cache is its buffer."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.name = os.fsdecode(self.path)

    @contextlib.contextmanager
    def open(self) -> Iterator[OpenBytes]:
        try:
            fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise source_error(error, self.name) from error
        except ValueError as error:  # a NUL in the name
            raise SourceNotFound(str(error), source=self.name) from error
        try:
            opened = _OpenDescriptor(fd, self.path, self.name)
            yield opened
        finally:
            os.close(fd)


class _OpenMemory:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.size = len(data)
        self._file: _AnonymousFile | None = None

    def read(self, num_bytes: int, offset: int) -> memoryview:
        return self._data[offset : offset + max(0, num_bytes)]

    def ffmpeg_path(self) -> str | bytes:
        if self._file is None:
            self._file = _AnonymousFile()
            self._file.write(self._data)
        return self._file.path

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _AnonymousFile:
    """A file without a name in memory; where the system has none, a temporary file that goes with this object."""

    def __init__(self) -> None:
        if _HAS_MEMFD:
            self.fd = os.memfd_create("aioaudio", os.MFD_CLOEXEC)
            self.path = f"/proc/self/fd/{self.fd}"
        else:
            self.fd, self.path = tempfile.mkstemp(prefix="aioaudio-")
        self._pid = os.getpid()

    def write(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)
            if not _HAS_MEMFD and self._pid == os.getpid():
                with contextlib.suppress(OSError):
                    os.unlink(self.path)


class _OpenCount:
    """Counts the anonymous files that Encoded objects keep, up to `_MAX_OPEN`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def take(self) -> bool:
        with self._lock:
            if self._count >= _MAX_OPEN:
                return False
            self._count += 1
            return True

    def give_back(self) -> None:
        with self._lock:
            self._count -= 1


_open_count = _OpenCount()


class Encoded:
    """Encoded audio that has been fetched: the bytes of a whole file, not decoded yet.

    Made by `fetch`, or from `bytes`. It may be decoded many times, by many tasks at once, is freed like any other
    memory, and pickles as its bytes. `name` is what errors call it, `num_bytes` its size.
    """

    __slots__ = ("__weakref__", "_data", "_file", "_size", "name")

    def __init__(self, data: bytes | bytearray | memoryview, *, name: str | None = None) -> None:
        view = memoryview(data).cast("B")
        self._data: memoryview | None = view
        self._file: _AnonymousFile | None = None
        self._size = len(view)
        self.name = f"<{len(view)} bytes>" if name is None else name

    @classmethod
    def _of_file(cls, file: _AnonymousFile, size: int, name: str) -> Self:
        encoded = cls(b"", name=name)
        encoded._data, encoded._file, encoded._size = None, file, size
        return encoded

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""
        return self._size

    @contextlib.contextmanager
    def open(self) -> Iterator[OpenBytes]:
        """Open for one decode; what the engines read from."""
        if self._file is not None:
            yield _OpenDescriptor(self._file.fd, self._file.path, self.name)
            return
        assert self._data is not None
        opened = _OpenMemory(self._data)
        try:
            yield opened
        finally:
            opened.close()

    def __bytes__(self) -> bytes:
        with self.open() as opened:
            return bytes(opened.read(opened.size, 0))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (bytes(self), self.name)

    def __repr__(self) -> str:
        return f"Encoded({self.name!r}, {self.num_bytes} bytes)"

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()
            _open_count.give_back()


def _from_bytes(data: bytes, name: str) -> Encoded:
    return Encoded(data, name=name)


class EncodedWriter:
    """Collects bytes as they arrive into an `Encoded`; raises LimitError beyond `max_bytes`."""

    def __init__(self, name: str, *, max_bytes: int | None = None) -> None:
        self.name = name
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._file = _AnonymousFile() if _open_count.take() else None
        self._memory = bytearray()

    def write(self, data: Any) -> None:
        """Append `data`, any bytes-like object."""
        self.num_bytes += memoryview(data).nbytes
        if self._max_bytes is not None and self.num_bytes > self._max_bytes:
            raise LimitError(f"more than max_bytes={self._max_bytes} bytes", source=self.name)
        if self._file is None:
            self._memory += data
        else:
            self._file.write(data)

    def finish(self) -> Encoded:
        """What was written, as an `Encoded`."""
        if self._file is None:
            return Encoded(self._memory, name=self.name)
        file, self._file = self._file, None
        return Encoded._of_file(file, self.num_bytes, self.name)

    def close(self) -> None:
        """Drop what was written and not finished."""
        if self._file is not None:
            self._file.close()
            _open_count.give_back()
            self._file = None
