"""Descriptors and files that go with their last reference."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import tempfile

from aioaudio.encoded import nowait

__all__ = ["AnonymousFile", "Descriptor", "may_open_another"]

# Anonymous files that may be open at once, whatever the limit on descriptors.
_MAX_FILES = 4096

_HAS_MEMFD = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


class Descriptor:
    """A file descriptor that is closed with its last reference.

    So it is safe to drop it while a thread still uses it: that thread's reference keeps it open, and no call ever
    meets a number that has been closed and given to another file.
    """

    fd = -1

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Close now; for its only user."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            nowait.close(fd)

    def __del__(self) -> None:
        self.close()


class AnonymousFile(Descriptor):
    """A file in memory that has no name; where the system has none, a temporary file. Goes with its last reference."""

    def __init__(self) -> None:
        fd, self.path, self._is_named = _create_anonymous()
        super().__init__(fd)
        self._pid = os.getpid()
        _open_files.add(fd)

    def write(self, data: bytearray | memoryview) -> None:
        """Append all of `data`; closes where that fails."""
        view = memoryview(data)
        try:
            while view:
                view = view[nowait.write(self.fd, view) :]
        except OSError:
            self.close()  # the traceback would keep it open
            raise

    def close(self) -> None:
        if self.fd < 0:
            return
        _open_files.discard(self.fd)
        super().close()
        if self._is_named and self._pid == os.getpid():  # a forked child has a copy of this object, not of the file
            with contextlib.suppress(OSError):
                os.unlink(self.path)


# Descriptors of the anonymous files that are open. Adding to a set and discarding from it are atomic, so this needs
# no lock, which a finalizer could find held by its own thread, and a forked child by a thread that it lacks.
_open_files: set[int] = set()


def _create_anonymous() -> tuple[int, str, bool]:
    if _HAS_MEMFD:
        try:
            fd = nowait.create_memory_file("aioaudio")
        except OSError as error:  # forbidden in some sandboxes
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
        else:
            return fd, f"/proc/self/fd/{fd}", False
    fd, path = tempfile.mkstemp(prefix="aioaudio-")
    return fd, path, True


def may_open_another() -> bool:
    """Whether an anonymous file may be kept open: they take a quarter of the descriptors, the program the rest."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    bound = _MAX_FILES if soft_limit == resource.RLIM_INFINITY else min(soft_limit // 4, _MAX_FILES)
    return len(_open_files) < bound
