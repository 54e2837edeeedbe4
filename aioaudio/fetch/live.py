"""The bytes of a source as they come, block by block, without a thread that waits for those that are not there."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import stat
from collections.abc import AsyncIterator
from typing import Any

from aioaudio.encoded import Descriptor, LocalFile, Mark, reading
from aioaudio.fetch.http import URL, http_body, played_blocks
from aioaudio.fetch.read import ReadWorkers, await_blocks, await_readable, open_stream
from aioaudio.fetch.sources import AsyncChunks, AsyncFile, BlockingFile

__all__ = ["ArrivingBlocks", "arriving_blocks", "is_at_home"]

_BLOCK_BYTES = 64 * 1024


ArrivingBlocks = AsyncChunks | AsyncFile | BlockingFile | LocalFile | URL


def arriving_blocks(source: ArrivingBlocks, workers: ReadWorkers) -> AsyncIterator[Any]:
    """The blocks of a source, and between them what it tells. Called on the loop that they belong to: `is_at_home` says
    which."""
    match source:
        case AsyncChunks(chunks):
            return aiter(chunks)
        case AsyncFile(read, name):
            return await_blocks(read, None, name, _BLOCK_BYTES)
        case BlockingFile(file):
            return _file_blocks(file, workers)
        case URL():
            return _url_blocks(source, workers)
        case LocalFile():
            return _path_blocks(source, workers)


def is_at_home(source: ArrivingBlocks) -> bool:
    """Whether the blocks of a source belong to its owner's loop, or else to any."""
    return isinstance(source, AsyncChunks | AsyncFile)


async def _url_blocks(url: URL, workers: ReadWorkers) -> AsyncIterator[bytes | Mark]:
    async with http_body(url, workers, plays=True) as body, contextlib.aclosing(played_blocks(body)) as blocks:
        async for block in blocks:
            yield block


async def _path_blocks(file: LocalFile, workers: ReadWorkers) -> AsyncIterator[bytes]:
    """The blocks of a FIFO or a device."""
    with reading(file.name):
        descriptor = await workers.read(open_stream, file)
        try:
            waits = await workers.read(_waits, descriptor.fd)
            while True:
                if waits:
                    await await_readable(descriptor.fd)
                block = await workers.read(_read_some, descriptor.fd)
                if block == b"":
                    return
                if block is not None:
                    yield block
        finally:
            descriptor.close()


def _read_some(fd: int) -> bytes | None:
    try:
        return os.read(fd, _BLOCK_BYTES)
    except BlockingIOError:  # another reader was faster
        return None


async def _file_blocks(file: Any, workers: ReadWorkers) -> AsyncIterator[Any]:
    """The blocks of a file-like object; where it has a descriptor to wait for, no thread waits."""
    descriptor = await workers.read(_duplicate, file)
    # Of what is buffered, `read` waits for as much as was asked for, `read1` for what there is.
    read = getattr(file, "read1", file.read)
    try:
        while True:
            if descriptor is not None:
                await await_readable(descriptor.fd)
            block = await workers.read(read, _BLOCK_BYTES)
            if inspect.isawaitable(block):
                block = await block
            if block is None:  # it is set to not wait, and has nothing yet
                await asyncio.sleep(0.01)
                continue
            if not len(block):
                return
            yield block
    finally:
        if descriptor is not None:
            descriptor.close()


def _duplicate(file: Any) -> Descriptor | None:
    """A descriptor of what `file` reads from, to be waited for: None where there is none, or a wait says nothing."""
    try:
        fd = file.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return Descriptor(os.dup(fd)) if isinstance(fd, int) and _waits(fd) else None


def _waits(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(fd))
