"""Files of the file system."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from aioaudio.encoded import nowait
from aioaudio.encoded.access import OpenDescriptor
from aioaudio.encoded.descriptor import Descriptor
from aioaudio.encoded.faults import reading, source_error
from aioaudio.errors import FetchError, SourceNotFound

__all__ = ["LocalFile", "NotRegularFile", "OpenLocalFile"]


class NotRegularFile(FetchError):
    """A path names a FIFO, a device or the like, which is not read at a position: its bytes must be fetched first."""


# FFmpeg knows these by the ending of the name alone: they have no header.
_HEADERLESS = frozenset(
    ".722 .al .aptx .aptxhd .dfpwm .g722 .g723_1 .g728 .g729 .gsm .msbc .rco .sb .sbc .sln .sw .tco .ub .ul".split()
)

_HAS_DESCRIPTOR_PATHS = os.path.isdir("/proc/self/fd")


class OpenLocalFile(OpenDescriptor):
    """An open `LocalFile`."""

    def ffmpeg_path(self) -> str | bytes:
        """The descriptor's, so that FFmpeg opens this very file, whatever has become of its name meanwhile.

        Nor does it see the name, from which it would guess: it takes x%d.png for a sequence of pictures, whatever the
        bytes say.
        """
        path = super().ffmpeg_path()
        if not _HAS_DESCRIPTOR_PATHS or os.path.splitext(os.fsdecode(path))[1].lower() in _HEADERLESS:
            return path
        return f"/proc/self/fd/{self.fd}"


class LocalFile:
    """A regular file of the file system, opened anew for each decode; the page cache is its buffer."""

    __slots__ = ("name", "path")

    def __init__(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
        self.path = os.fspath(path)
        # Bytes that are no UTF-8 are shown as escapes, so that errors can always be printed.
        self.name = os.fsdecode(self.path).encode("utf-8", "backslashreplace").decode()

    def __repr__(self) -> str:
        return f"LocalFile({self.name!r})"

    @contextlib.contextmanager
    def open(self) -> Iterator[OpenLocalFile]:
        """Open for one decode. Raises SourceError, NotRegularFile among them."""
        descriptor, size = self._open_descriptor()
        try:
            if size == 0:
                self._check_empty(descriptor)
            yield OpenLocalFile(descriptor, size, self.path, self.name)
        finally:
            descriptor.close()

    def _check_empty(self, descriptor: Descriptor) -> None:
        """Raise NotRegularFile for what a kernel makes up as it is read, as in /proc: it only says that it is empty."""
        with reading(self.name):
            if os.pread(descriptor.fd, 1, 0):
                raise NotRegularFile("has no size before it is read", source=self.name)

    def _open_descriptor(self) -> tuple[Descriptor, int]:
        opened = nowait.open_regular(self.path)
        if opened is not None:
            return Descriptor(opened[0]), opened[1]
        try:
            # Asked before opening: a FIFO's writer would notice that, and a device might act on it.
            mode = os.stat(self.path).st_mode
            if stat.S_ISREG(mode):
                descriptor = Descriptor(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK))
                return descriptor, os.fstat(descriptor.fd).st_size
        except OSError as error:
            raise source_error(error, self.name) from error
        except ValueError as error:  # a NUL in the name, or what the file system cannot spell
            raise SourceNotFound(f"no such file: {error}", source=self.name) from error
        if stat.S_ISDIR(mode):
            raise source_error(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)), self.name)
        raise NotRegularFile("is not a regular file", source=self.name)
