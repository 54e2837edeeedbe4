"""System calls that cannot wait, made with the GIL kept.

Python's own functions let go of it for each call. Beside a thread that runs Python without pause, to get it back takes
up to the switch interval (5 ms), where the call itself takes a microsecond; and to open a file takes several. So a call
keeps the GIL where the system promises not to wait for a disk or for anybody else (RESOLVE_CACHED and RWF_NOWAIT of
Linux), and little is copied. What would have to wait says so, and is done by the general way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from typing import Any

import numpy as np

__all__ = ["MAX_BYTES", "close", "create_memory_file", "is_in_memory", "open_regular", "read_into", "send", "write"]

#: What is copied at once, at most: it takes some ten microseconds, for which other threads wait.
MAX_BYTES = 128 * 1024

_SYS_OPENAT2 = 437  # on every architecture
_AT_FDCWD = -100
_RESOLVE_CACHED = 0x20
_O_PATH = 0o10000000
_AT_EMPTY_PATH, _AT_STATX_DONT_SYNC = 0x1000, 0x4000
_STATX_TYPE = 0x1
_STATX_BYTES = 256
_RWF_NOWAIT = 0x8
_MSG_DONTWAIT, _MSG_NOSIGNAL = 0x40, 0x4000

# How openat2 opens: flags, mode, resolve.
_CLOEXEC, _NONBLOCK = getattr(os, "O_CLOEXEC", 0), getattr(os, "O_NONBLOCK", 0)
_TO_LOOK_AT = struct.pack("QQQ", _O_PATH | _CLOEXEC, 0, _RESOLVE_CACHED)
_TO_READ = struct.pack("QQQ", os.O_RDONLY | _NONBLOCK | _CLOEXEC, 0, _RESOLVE_CACHED)

# What is read to ask whether it is there; by all threads, and what it is does not matter.
_anything = ctypes.c_char()
_ONE_BYTE = struct.pack("PP", ctypes.addressof(_anything), 1)


def _functions() -> Any:
    """The C library, which keeps the GIL; None where it lacks one of the calls."""
    if sys.platform != "linux":
        return None
    library = ctypes.PyDLL(None, use_errno=True)
    try:
        library.syscall.argtypes = (
            ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t
        )  # fmt: skip
        library.statx.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p
        library.preadv2.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int
        library.preadv2.restype = library.write.restype = ctypes.c_ssize_t
        library.lseek.argtypes = ctypes.c_int, ctypes.c_int64, ctypes.c_int
        library.lseek.restype = ctypes.c_int64
        library.write.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
        library.memfd_create.argtypes = ctypes.c_char_p, ctypes.c_uint
        library.close.argtypes = (ctypes.c_int,)
        library.send.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        library.send.restype = ctypes.c_ssize_t
    except AttributeError:  # an old one
        return None
    return library


_libc = _functions()


def open_regular(path: str | bytes) -> tuple[int, int] | None:
    """A descriptor of a regular file, to read from, and its size; None for anything else that `path` may lead to.

    None also where the system would have to look for it on a disk, or cannot tell.
    """
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        return None
    # Looked at before it is opened: a FIFO's writer would notice that, and a device might act on it.
    if _libc is None or b"\0" in name or not _is_regular(name):
        return None
    fd = _libc.syscall(_SYS_OPENAT2, _AT_FDCWD, name, _TO_READ, len(_TO_READ))
    if fd < 0:
        return None
    size = _libc.lseek(fd, 0, os.SEEK_END)
    if size < 0 or _libc.lseek(fd, 0, os.SEEK_SET) != 0:
        os.close(fd)
        return None
    return fd, size


def _is_regular(name: bytes) -> bool:
    place = _libc.syscall(_SYS_OPENAT2, _AT_FDCWD, name, _TO_LOOK_AT, len(_TO_LOOK_AT))
    if place < 0:
        return False
    status = ctypes.create_string_buffer(_STATX_BYTES)
    failed = _libc.statx(place, b"", _AT_EMPTY_PATH | _AT_STATX_DONT_SYNC, _STATX_TYPE, status)
    _libc.close(place)
    return not failed and stat.S_ISREG(struct.unpack_from("=28xH", status)[0])


def read_into(fd: int, buffer: memoryview, offset: int) -> int | None:
    """Read at `offset` what lies in memory: how many bytes came, 0 at the end; None where there is none, or no telling.

    `buffer` is writable and contiguous.
    """
    if _libc is None or not buffer:
        return None
    vector = struct.pack("PP", ctypes.addressof(ctypes.c_char.from_buffer(buffer)), len(buffer))
    count: int = _libc.preadv2(fd, vector, 1, offset, _RWF_NOWAIT)
    return None if count < 0 else count


def is_in_memory(fd: int, offset: int) -> bool:
    """Whether the byte at `offset` lies in memory, or there is none; False where there is no telling."""
    return _libc is not None and _libc.preadv2(fd, _ONE_BYTE, 1, offset, _RWF_NOWAIT) >= 0


def create_memory_file(name: str) -> int:
    """As `os.memfd_create`, closed in a program that is executed."""
    if _libc is None:
        return os.memfd_create(name, os.MFD_CLOEXEC)
    return _checked(_libc.memfd_create(os.fsencode(name), os.MFD_CLOEXEC))


def write(fd: int, data: memoryview) -> int:
    """As `os.write` to a file in memory; `data` is contiguous."""
    if _libc is None or len(data) > MAX_BYTES:
        return os.write(fd, data)
    return _checked(_libc.write(fd, np.frombuffer(data, np.uint8).ctypes.data, len(data)))


def send(fd: int, data: memoryview) -> int:
    """Send to a socket what finds room: how many bytes went, 0 where there is none or no telling; `data` is contiguous.

    Raises OSError where nobody receives any more.
    """
    if _libc is None or not data:
        return 0
    address = np.frombuffer(data, np.uint8).ctypes.data
    count: int = _libc.send(fd, address, min(len(data), MAX_BYTES), _MSG_DONTWAIT | _MSG_NOSIGNAL)
    if count < 0 and ctypes.get_errno() in (errno.EAGAIN, errno.EINTR):
        return 0
    return _checked(count)


def close(fd: int) -> None:
    """As `os.close`."""
    if _libc is None:
        os.close(fd)
    else:
        _checked(_libc.close(fd))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
