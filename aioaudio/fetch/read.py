"""Reading each kind of source into an `Encoded`.

What blocks runs as one job in a read thread, whatever its number of blocks; what comes from the network, on the I/O
thread; what else is awaited, on the caller's own loop. Both loops go to a thread only with whole blocks. A cancelled or
timed out await ends at once. A thread that is at work then ends with the read that it is in; an async generator is
closed, the caller's files never are.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from aioaudio.encoded import (
    Descriptor,
    Encoded,
    EncodedWriter,
    LocalFile,
    NotRegularFile,
    byte_view,
    limit_error,
    reading,
)
from aioaudio.fetch.http import URL, NetworkWorkers, http_body, on_io_thread
from aioaudio.fetch.sources import AsyncChunks, AsyncFile, BlockingFile, Memory, Resolved, resolve
from aioaudio.fetch.timeout import time_limit
from aioaudio.fetch.warm import StopFlag, warm

__all__ = [
    "ReadWorkers",
    "at_hand",
    "await_blocks",
    "await_readable",
    "checked_block",
    "closing_blocks",
    "collect",
    "fetch",
    "open_stream",
    "warm_up",
]

_BLOCK_BYTES = 1024 * 1024

# Copied on the event loop; more goes to a thread.
_INLINE_BYTES = 256 * 1024

T = TypeVar("T")


class ReadWorkers(NetworkWorkers, Protocol):
    """Who runs blocking calls, and has an I/O thread."""

    async def read(self, function: Callable[..., T], /, *args: Any) -> T:
        """Run `function(*args)` in a read thread. Cancelled, it ends at once; the function may yet run."""
        ...


async def fetch(
    source: Any,
    workers: ReadWorkers,
    *,
    max_bytes: int | None = None,
    timeout: float | None = None,
    home: asyncio.AbstractEventLoop | None = None,
) -> Encoded:
    """Read all of a source: a path or a URL from its start, a file-like object from where it stands.

    `source` may be what `resolve` has made of it. A view of the caller's memory, which forbids to resize a bytearray,
    is released at the end, also by an error. `home` is the event loop that the source's own awaitables belong to, None
    for the running one.

    `timeout` counts in seconds from when the reading begins, not while it waits for a thread. Raises TypeError and
    ValueError for what is no source, SourceError where reading fails, LimitError as soon as more than `max_bytes` have
    come, and AudioTimeout. An OSError of the source becomes a SourceError, its other exceptions come as they are.
    """
    resolved = resolve(source)
    with resolved.view if isinstance(resolved, Memory) else contextlib.nullcontext():
        encoded = at_hand(resolved)
        if encoded is not None:
            if max_bytes is not None and encoded.num_bytes > max_bytes:
                raise limit_error(max_bytes, encoded.name)
            return encoded
        if isinstance(resolved, URL):
            return await on_io_thread(workers, _download(resolved, workers, max_bytes, timeout))
        async with time_limit(resolved.name, timeout) as begin:
            if isinstance(resolved, AsyncChunks | AsyncFile):
                begin()
                blocks = _awaited(resolved)
            else:
                read = await _in_thread(workers, begin, _read, resolved, max_bytes)
                if isinstance(read, Encoded):
                    return read
                blocks = read
                if isinstance(resolved, LocalFile):  # a FIFO, which any loop can wait for
                    home = None
            return await _at_home(collect(blocks, resolved.name, workers, max_bytes), home)


async def warm_up(file: LocalFile, workers: ReadWorkers, *, timeout: float | None = None) -> None:
    """`warm` in a read thread, which stops soon once this is cancelled or timed out. Raises AudioTimeout, too."""
    async with time_limit(file.name, timeout) as begin:
        await _in_thread(workers, begin, warm, file)


def at_hand(resolved: Resolved) -> Encoded | None:
    """What needs no thread: bytes that need not be copied, or are few and surely in memory."""
    match resolved:
        case Encoded():
            return resolved
        case Memory(view, name) if isinstance(view.obj, bytearray) and len(view) <= _INLINE_BYTES:
            return Encoded(view, name=name)
        case BlockingFile(file, name) if type(file) is io.BytesIO:
            # From the start, BytesIO gives out the bytes that it has.
            if file.tell() == 0 or len(file.getbuffer()) - file.tell() <= _INLINE_BYTES:
                return Encoded(file.read(), name=name)
    return None


# In a read thread


def _read(
    resolved: LocalFile | Memory | BlockingFile, max_bytes: int | None, stop: StopFlag
) -> Encoded | AsyncIterator[Any]:
    """All of a source, or its blocks where they turn out to be for the event loop."""
    name = resolved.name
    with reading(name):
        match resolved:
            case Memory(view):
                blocks = (view[start : start + _BLOCK_BYTES] for start in range(0, len(view), _BLOCK_BYTES))
                return _gather(blocks, name, max_bytes, stop)
            case BlockingFile(file):
                first = file.read(_BLOCK_BYTES)
                if inspect.iscoroutine(first):
                    first.close()  # nothing of it has run; left over by a cancellation, it would warn
                    return await_blocks(file.read, None, name)
                if inspect.isawaitable(first):
                    return await_blocks(file.read, first, name)
                return _gather(_read_blocks(file.read, first, name), name, max_bytes, stop)
            case LocalFile():
                return _read_path(resolved, max_bytes, stop)


def _read_path(file: LocalFile, max_bytes: int | None, stop: StopFlag) -> Encoded | AsyncIterator[Any]:
    with contextlib.ExitStack() as stack:
        try:
            fd = stack.enter_context(file.open()).fd
        except NotRegularFile:
            descriptor = open_stream(file)
            fd = descriptor.fd
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                return _await_fifo(descriptor)
            stack.callback(descriptor.close)
        blocks = _read_blocks(lambda size: os.read(fd, size), os.read(fd, _BLOCK_BYTES), file.name)
        return _gather(blocks, file.name, max_bytes, stop)


def open_stream(file: LocalFile) -> Descriptor:
    """Open what is no regular file."""
    return Descriptor(os.open(file.path, os.O_RDONLY | os.O_NONBLOCK))


def _read_blocks(read: Callable[[int], Any], first: Any, name: str) -> Iterator[memoryview]:
    block = checked_block(first, name)
    while block:
        yield block
        block = checked_block(read(_BLOCK_BYTES), name)


def _gather(blocks: Iterator[memoryview], name: str, max_bytes: int | None, stop: StopFlag) -> Encoded:
    with EncodedWriter(name, max_bytes=max_bytes) as writer:
        for block in blocks:
            with block:
                if stop.is_set:
                    raise CancelledError
                writer.write(block)
        return writer.finish()


@dataclass(slots=True)
class _Stop:
    is_set: bool = False


async def _in_thread(workers: ReadWorkers, begin: Callable[[], None], function: Callable[..., T], /, *args: Any) -> T:
    """Run `function(*args, stop)` in a read thread; `stop` is set once the result is not awaited any more."""
    stop = _Stop()

    def job() -> T:
        if stop.is_set:
            raise CancelledError
        begin()
        return function(*args, stop)

    try:
        return await workers.read(job)
    finally:
        stop.is_set = True


# On the I/O thread


async def _download(url: URL, workers: ReadWorkers, max_bytes: int | None, timeout: float | None) -> Encoded:
    async with time_limit(url.name, timeout) as begin, http_body(url, workers, began=begin) as body:
        if max_bytes is not None and body.num_bytes is not None and body.num_bytes > max_bytes:
            raise limit_error(max_bytes, url.name)
        return await collect(_await_pieces(body.read_block), url.name, workers, max_bytes)


async def _await_pieces(read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    while block := await read():
        yield block


# On the event loop


def _awaited(source: AsyncChunks | AsyncFile) -> AsyncIterator[Any]:
    if isinstance(source, AsyncChunks):
        return aiter(source.chunks)
    return await_blocks(source.read, None, source.name)


async def await_blocks(
    read: Callable[[int], Awaitable[Any]], first: Awaitable[Any] | None, name: str, size: int = _BLOCK_BYTES
) -> AsyncIterator[Any]:
    """The blocks that `read` gives, of `size` bytes at most, behind the `first` one, if that was asked for already."""
    block = await (read(size) if first is None else first)
    while checked_block(block, name):
        yield block
        block = await read(size)


async def _await_fifo(descriptor: Descriptor) -> AsyncIterator[bytes]:
    """The blocks of a FIFO, whose writer may be silent or missing for ever: no thread waits for it."""
    try:
        while True:
            await await_readable(descriptor.fd)
            with contextlib.suppress(BlockingIOError):  # another reader was faster
                block = os.read(descriptor.fd, _BLOCK_BYTES)
                if not block:
                    return
                yield block
    finally:
        descriptor.close()


async def await_readable(fd: int) -> None:
    """Wait until a read of `fd` would not."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


async def _at_home(work: Coroutine[Any, Any, T], home: asyncio.AbstractEventLoop | None) -> T:
    """Await `work` on the loop where it belongs."""
    if home is None or home is asyncio.get_running_loop():
        return await work
    try:
        future = asyncio.run_coroutine_threadsafe(work, home)
    except RuntimeError:  # that loop is closed
        work.close()
        raise
    return await asyncio.wrap_future(future)


async def collect(blocks: AsyncIterator[Any], name: str, workers: ReadWorkers, max_bytes: int | None) -> Encoded:
    with EncodedWriter(name, max_bytes=max_bytes) as writer, reading(name):
        async with closing_blocks(blocks):
            async for block in blocks:
                with checked_block(block, name) as view:
                    if not view:  # a source that never waits for anything must not keep the loop from its timeouts
                        await asyncio.sleep(0)
                    if writer.fits(len(view)):
                        writer.write(view)
                    else:
                        await workers.read(writer.write, view)
        return writer.finish() if writer.is_in_memory else await workers.read(writer.finish)


@contextlib.asynccontextmanager
async def closing_blocks(blocks: AsyncIterator[Any]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if isinstance(blocks, AsyncGenerator):
            await blocks.aclose()


def checked_block(block: Any, name: str) -> memoryview:
    if isinstance(block, str):
        raise TypeError(f"{name} gives str, not bytes: open it in binary mode")
    try:
        return byte_view(block)
    except TypeError as error:
        raise TypeError(f"{name} must give bytes, not {type(block).__name__}") from error
