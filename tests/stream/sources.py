"""Sources whose bytes arrive."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator

__all__ = ["AsyncOnlyReads", "OnlyReads", "blocks", "forever", "in_blocks"]


def blocks(data: bytes, rng: random.Random) -> list[bytes]:
    """`data` in blocks of random sizes."""
    found, at = [], 0
    while at < len(data):
        size = rng.choice([1, 100, 4_000, 60_000])
        found.append(data[at : at + size])
        at += size
    return found


async def in_blocks(data: bytes, rng: random.Random) -> AsyncIterator[bytes]:
    """An async iterable of bytes."""
    for block in blocks(data, rng):
        await asyncio.sleep(0)
        yield block


async def forever(data: bytes, block_bytes: int = 2_000) -> AsyncIterator[bytes]:
    """`data`, and then silence without end."""
    for start in range(0, len(data), block_bytes):
        yield data[start : start + block_bytes]
    await asyncio.Event().wait()


class OnlyReads:
    """A file-like object that can do nothing else."""

    def __init__(self, data: bytes, rng: random.Random) -> None:
        self._file, self._rng = io.BytesIO(data), rng

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, self._rng.choice([1, 1_000, 30_000])))


class AsyncOnlyReads(OnlyReads):
    """The same with an awaited `read`, as uploads and the pipes of asyncio's processes have it."""

    async def read(self, size: int) -> bytes:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().read(size)
