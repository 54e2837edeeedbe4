"""Bytes on their way to a thread that decodes them as they come."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Generator, Mapping
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple

from aioaudio.encoded import nowait

__all__ = ["Mark", "Pipe", "PlacedMark"]

# What may be on its way: the sender waits once so much has not been read.
_BUFFER_BYTES = 64 * 1024


class Mark(NamedTuple):
    """What a source tells between its bytes: `kind` and `fields` are as in `StreamEvent`."""

    kind: Literal["station", "metadata", "reconnect"]
    fields: Mapping[str, str]


class PlacedMark(NamedTuple):
    """A mark, and behind how many bytes of which file it stands; files are counted from 0."""

    file: int
    offset: int
    mark: Mark


class _Socket(socket.socket):
    """One that is closed with its last reference, as a `Descriptor` is: a stream may go with its session."""

    def __del__(self) -> None:
        self.close()


class Pipe:
    """Carries files, one after another, from a sender to a thread that waits for them inside FFmpeg.

    Each file goes through a pair of sockets, since shutting one down frees a thread that waits for it, also where a
    forked child has a copy. `abort` may be called at any time, from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: SimpleQueue[socket.socket | None] = SimpleQueue()
        self._open: set[socket.socket] = set()
        self._aborted = False
        #: What the sender has noticed to be wrong. Written before the end is.
        self.faults: list[Any] = []
        #: What was told between the bytes: the sender appends it before the bytes behind it, the thread takes it away.
        self.marks: deque[PlacedMark] = deque()
        #: The files that begin in the midst of a stream; one that is followed by such a file was cut off.
        self.joined: set[int] = set()

    def begin(self) -> socket.socket:
        """The sender begins a file: what it writes to this is read there. It shuts it down, and closes it."""
        reader, writer = (_Socket(fileno=end.detach()) for end in socket.socketpair())
        writer.setblocking(False)
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        with self._lock:
            if self._aborted:
                reader.close()
            else:
                self._open.add(reader)
                self._files.put(reader)
        return writer

    @staticmethod
    def send_now(writer: socket.socket, data: bytes) -> int:
        """Send as much of `data` as finds room, with the GIL kept; how much. Raises OSError where nobody takes it."""
        num_sent = 0
        with memoryview(data) as view:
            while count := nowait.send(writer.fileno(), view[num_sent:]):
                num_sent += count
        return num_sent

    def end(self) -> None:
        """The sender has no more files."""
        self._files.put(None)

    def abort(self) -> None:
        """Have the thread find the end, at once; whatever is sent from now on is refused."""
        with self._lock:
            self._aborted = True
            for reader in self._open:
                with contextlib.suppress(OSError):
                    reader.shutdown(socket.SHUT_RDWR)
        self._files.put(None)

    def files(self) -> Generator[int]:
        """In the thread: a descriptor for each file, which is closed when the next one is asked for. Waits for them."""
        while (reader := self._files.get()) is not None:
            with reader:
                try:
                    if not self._aborted:
                        yield reader.fileno()
                finally:
                    with self._lock:
                        self._open.discard(reader)

    def close(self) -> None:
        """Let go of what the thread has not taken; it has ended."""
        self.abort()
        while (reader := self._files.get()) is not None:
            self._open.discard(reader)
            reader.close()
