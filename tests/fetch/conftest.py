from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from aioaudio.workers import Workers


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    """Workers with one read thread: what it has done before a call, it has also let go of when that call ends."""
    workers = Workers(read_threads=1, decode_threads=1)
    yield workers
    await workers.aclose()


@pytest.fixture
async def executor() -> AsyncIterator[ThreadPoolExecutor]:
    """A thread for aiofiles, whose default are the loop's."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def descriptors() -> Callable[[], list[str]]:
    """What descriptors are open for, save for the event loop's own."""

    def look() -> list[str]:
        folder = "/proc/self/fd"
        found = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder) if os.path.exists(f"{folder}/{fd}")]
        return sorted(path for path in found if not path.startswith(("anon_inode:", "/proc/")))

    return look
