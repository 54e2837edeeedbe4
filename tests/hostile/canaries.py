"""Things that nobody may touch, and that tell when somebody did."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Canaries", "canaries"]

_IN_ACCESS, _IN_OPEN = 0x1, 0x20


class Canaries:
    """A file of sound and a server on this machine. `touched` tells, once, whether either was reached meanwhile."""

    def __init__(self, file: Path, watch: int, listener: socket.socket) -> None:
        self.file = file
        self._watch, self._listener = watch, listener
        self.port: int = listener.getsockname()[1]

    def touched(self) -> list[str]:
        """What was reached since the last call: "file", "host"."""
        found = []
        with contextlib.suppress(BlockingIOError):
            os.read(self._watch, 1 << 16)
            found.append("file")
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                connection.close()
                found = sorted({*found, "host"})
        return found


@contextlib.contextmanager
def canaries(folder: Path, sound: Path) -> Iterator[Canaries]:
    """A copy of `sound` in `folder` that is watched by the kernel, so that even opening it shows, and a listener."""
    file = folder / f"canary{sound.suffix}"
    shutil.copy(sound, file)
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0
    try:
        assert libc.inotify_add_watch(watch, os.fsencode(file), _IN_ACCESS | _IN_OPEN) >= 0
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            yield Canaries(file, watch, listener)
    finally:
        os.close(watch)
