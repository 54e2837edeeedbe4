"""System calls that cannot wait, made with the GIL kept.

Python's own functions let go of it for each call. Beside a thread that runs Python without pause, to get it back takes
up to the switch interval (5 ms), where the call itself takes a microsecond; and to open a file takes several. So a call
keeps the GIL where the system promises not to wait for a disk or for anybody else (RESOLVE_CACHED and RWF_NOWAIT of
Linux), and little is copied. What would have to wait says so, and is done by the general way.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from typing import Any

import numpy as np

__all__ = ["MAX_BYTES", "close", "create_memory_file", "open_regular", "read_into", "write"]

#: What is copied at once, at most: it takes some ten microseconds, for which other threads wait.
MAX_BYTES = 128 * 1024

_SYS_OPENAT2 = 437  # on every architecture
_AT_FDCWD = -100
_RESOLVE_CACHED = 0x20
_O_PATH = 0o10000000
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC if sys.platform == "linux" else 0
_AT_EMPTY_PATH, _AT_STATX_DONT_SYNC = 0x1000, 0x4000
_STATX_TYPE, _STATX_SIZE = 0x1, 0x200
_STATX_BYTES = 256
_RWF_NOWAIT = 0x8


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
        library.write.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
        library.memfd_create.argtypes = ctypes.c_char_p, ctypes.c_uint
        library.close.argtypes = (ctypes.c_int,)
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
    if _libc is None or b"\0" in name:
        return None
    # Without opening it first: a FIFO's writer would notice that, and a device might act on it.
    place = _openat2(name, _O_PATH | os.O_CLOEXEC)
    if place < 0:
        return None
    is_regular = _regular_size(place) is not None
    _libc.close(place)
    fd = _openat2(name, _READ) if is_regular else -1
    if fd < 0:
        return None
    size = _regular_size(fd)
    if size is None:
        os.close(fd)
        return None
    return fd, size


def _openat2(name: bytes, flags: int) -> int:
    how = struct.pack("QQQ", flags, 0, _RESOLVE_CACHED)
    fd: int = _libc.syscall(_SYS_OPENAT2, _AT_FDCWD, name, how, len(how))
    return fd


def _regular_size(fd: int) -> int | None:
    status = ctypes.create_string_buffer(_STATX_BYTES)
    if _libc.statx(fd, b"", _AT_EMPTY_PATH | _AT_STATX_DONT_SYNC, _STATX_TYPE | _STATX_SIZE, status) != 0:
        return None
    mode, size = struct.unpack_from("=28xH10xQ", status)
    return size if stat.S_ISREG(mode) else None


def read_into(fd: int, buffer: memoryview, offset: int) -> int | None:
    """Read at `offset` what lies in memory: how many bytes came, 0 at the end; None where there is none, or no telling.

    `buffer` is writable and contiguous.
    """
    if _libc is None:
        return None
    vector = struct.pack("PP", _address(buffer), len(buffer))
    count: int = _libc.preadv2(fd, vector, 1, offset, _RWF_NOWAIT)
    return None if count < 0 else count


def create_memory_file(name: str) -> int:
    """As `os.memfd_create`, closed in a program that is executed."""
    if _libc is None:
        return os.memfd_create(name, os.MFD_CLOEXEC)
    return _checked(_libc.memfd_create(os.fsencode(name), os.MFD_CLOEXEC))


def write(fd: int, data: memoryview) -> int:
    """As `os.write` to a file in memory; `data` is contiguous."""
    if _libc is None or len(data) > MAX_BYTES:
        return os.write(fd, data)
    return _checked(_libc.write(fd, _address(data), len(data)))


def close(fd: int) -> None:
    """As `os.close`."""
    if _libc is None:
        os.close(fd)
    else:
        _checked(_libc.close(fd))


def _address(data: memoryview) -> int:
    address: int = np.frombuffer(data, np.uint8).ctypes.data
    return address


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
