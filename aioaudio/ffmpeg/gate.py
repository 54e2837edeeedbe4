"""A gate before a log callback of ours, which lets only errors pass and needs no GIL to turn the others away.

FFmpeg calls its log callback for every message, whatever its level: several hundred times for a group of eight files.
PyAV's callback takes the GIL even for those that it drops, and beside a busy Python thread each time can be a wait of
5 ms (the switch interval), together some seconds for a group that decodes in a tenth of one. FFmpeg has no filter of
its own before the callback. So this one is a few bytes of machine code.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from typing import Any

__all__ = ["CALLBACK_TYPE", "open_gate"]

#: `void callback(void *context, int level, const char *format, va_list arguments)`
CALLBACK_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def open_gate(callback: Any, max_level: int) -> int | None:
    """The address of a function that passes messages up to `max_level` (0 to 127) on to `callback`, a CALLBACK_TYPE.

    None where there is none: on other systems than Linux on x86-64, and where no memory may be made executable.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 2**32:
        return None
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    code = (
        bytes((0x83, 0xFE, max_level))  # cmp esi, max_level: the second argument
        + bytes((0x7F, 0x0C))  # jg to the ret
        + bytes((0x48, 0xB8))  # mov rax, address
        + address.to_bytes(8, "little")
        + bytes((0xFF, 0xE0))  # jmp rax, with all arguments as they are
        + bytes((0xC3,))  # ret
    )
    try:
        # Written as a file and mapped to be executed: so no memory is ever both writable and executable.
        fd = os.memfd_create("aioaudio-log-gate", os.MFD_CLOEXEC)
        try:
            os.write(fd, code)
            gate = _mmap(None, len(code), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, 0)
        finally:
            os.close(fd)
    except OSError:
        return None
    if gate == _MAP_FAILED:
        return None
    _called.append(callback)
    return gate  # it stays, since FFmpeg may call it as long as the process lives


def _mmap(*arguments: Any) -> int:
    # The module mmap would keep the descriptor, and unmap what it returns.
    function = ctypes.PyDLL(None).mmap
    function.restype = ctypes.c_size_t
    function.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_ssize_t
    )  # fmt: skip
    address: int = function(*arguments)
    return address


_MAP_FAILED = 2**64 - 1

_called: list[Any] = []  # what a gate leads to must stay, too
