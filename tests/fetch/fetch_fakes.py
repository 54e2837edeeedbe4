"""Sources for the tests of fetching: kinds that the standard library lacks, and ones that fail or wait."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import threading
import types
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks and threads go on until `condition` holds."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


def content(num_bytes: int) -> bytes:
    """Bytes of which no two parts are alike."""
    return os.urandom(num_bytes)


class OnlyReads:
    """The least that a file-like object is."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)
        self.num_reads = 0

    def read(self, size: int) -> bytes:
        self.num_reads += 1
        return self._file.read(size)


class OnlyReadsAsync(OnlyReads):
    """The same with an async `read`."""

    async def read(self, size: int) -> bytes:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().read(size)


class ReadsAwaitable(OnlyReadsAsync):
    """Its `read` is no coroutine function, but gives what must be awaited."""

    def read(self, size: int) -> Awaitable[bytes]:  # type: ignore[override]
        return super().read(size)


class ReadsFuture(OnlyReads):
    """Its `read` gives a future, whose work has begun."""

    def read(self, size: int) -> Awaitable[bytes]:  # type: ignore[override]
        return _Done(super().read(size))


class _Done:
    def __init__(self, result: bytes) -> None:
        self._result = result

    def __await__(self) -> Generator[Any, None, bytes]:
        yield from asyncio.sleep(0).__await__()
        return self._result


class Chunks:
    """An async iterable that is no iterator."""

    def __init__(self, data: bytes, chunk_bytes: int) -> None:
        self._data, self._chunk_bytes = data, chunk_bytes

    def __aiter__(self) -> AsyncIterator[bytes]:
        return read_chunks(self._data, self._chunk_bytes)


async def read_chunks(data: bytes, chunk_bytes: int) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(data), chunk_bytes):
        await asyncio.sleep(0)
        yield data[start : start + chunk_bytes]


class Faulty(io.RawIOBase):
    """Gives `data`, then raises."""

    def __init__(self, data: bytes, error: BaseException | None = None) -> None:
        self._file = io.BytesIO(data)
        self._error = error or OSError(errno.EIO, os.strerror(errno.EIO))
        self.name = "faulty.wav"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        if count == 0:
            raise self._error
        return count


class FaultyAsync:
    """The same with an async `read`."""

    def __init__(self, data: bytes, error: BaseException | None = None) -> None:
        self._file = Faulty(data, error)
        self.name = self._file.name

    async def read(self, size: int) -> bytes:
        await asyncio.sleep(0)
        return self._file.read(size) or b""


class Endless:
    """Gives blocks for ever; each read waits until it is let through."""

    def __init__(self) -> None:
        self.reading = threading.Event()
        self.gate = threading.Semaphore(0)
        self.num_reads = 0
        self.closed = False

    def read(self, size: int) -> bytes:
        self.num_reads += 1
        self.reading.set()
        assert self.gate.acquire(timeout=60)
        return bytes(size)

    def close(self) -> None:
        self.closed = True


async def never() -> AsyncGenerator[bytes, None]:
    """Gives a chunk, then waits for ever."""
    yield b"RIFF"
    await asyncio.get_running_loop().create_future()


@types.coroutine
def cancelled_at(step: int, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run `coroutine`, and cancel the task when it waits for the `step`th time. Gives its result if it comes first."""
    value, error = None, None
    while True:
        try:
            waits_for = coroutine.send(value) if error is None else coroutine.throw(error)
        except StopIteration as stop:
            return stop.value
        finally:
            error = None  # or it and this frame would keep each other
        step -= 1
        if step == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        try:
            value = yield waits_for
        except BaseException as thrown:
            error = thrown
