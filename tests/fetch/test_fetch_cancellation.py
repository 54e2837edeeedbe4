"""After a cancellation nothing is left: no descriptor, no generator at work, no thread that reads on."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiofiles
import pytest
from fetch_fakes import (
    Chunks,
    Endless,
    OnlyReads,
    OnlyReadsAsync,
    ReadsAwaitable,
    ReadsFuture,
    cancelled_at,
    content,
    until,
)

from aioaudio.fetch import fetch
from aioaudio.workers import Workers

MIB = 1024 * 1024
DATA = content(3 * MIB + 7)


async def _cancel_at_every_step(
    make: Callable[[], Any], workers: Workers, descriptors: Callable[[], list[str]], after: Callable[[], None]
) -> int:
    """Fetch again and again, cancelled at the first wait, then at the second, and so on until it comes through."""
    before = descriptors()
    for step in itertools.count(1):
        try:
            encoded = await cancelled_at(step, fetch(make(), workers))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            after()
        else:
            assert await workers.read(bytes, encoded) == DATA
            return step - 1
        await workers.read(int)
        assert descriptors() == before
    raise AssertionError


@pytest.mark.parametrize(
    ("make", "at_least"),
    [
        (lambda: bytearray(DATA), 1),
        (lambda: OnlyReads(DATA), 1),
        (lambda: OnlyReadsAsync(DATA), 8),
        (lambda: ReadsAwaitable(DATA), 8),
        (lambda: ReadsFuture(DATA), 8),
        (lambda: Chunks(DATA, MIB // 2), 8),
        (lambda: Chunks(DATA, MIB // 16), 40),
    ],
    ids=["memory", "file", "async file", "awaitable file", "future file", "chunks", "small chunks"],
)
async def test_cancelled_at_any_wait_nothing_is_left(
    make: Callable[[], Any], at_least: int, workers: Workers, descriptors: Callable[[], list[str]]
) -> None:
    assert await _cancel_at_every_step(make, workers, descriptors, lambda: None) >= at_least


async def test_a_path_cancelled_at_any_wait_leaves_nothing(
    tmp_path: Path, workers: Workers, descriptors: Callable[[], list[str]]
) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(DATA)
    assert await _cancel_at_every_step(lambda: path, workers, descriptors, lambda: None) >= 1


async def test_generators_cancelled_at_any_wait_are_closed(
    workers: Workers, descriptors: Callable[[], list[str]]
) -> None:
    state: list[str] = []

    async def chunks() -> AsyncGenerator[bytes, None]:
        state[:] = ["begun"]
        try:
            for start in range(0, len(DATA), MIB // 2):
                await asyncio.sleep(0)
                yield DATA[start : start + MIB // 2]
        finally:
            state.append("closed")

    def after() -> None:
        assert state in ([], ["begun", "closed"])

    assert await _cancel_at_every_step(chunks, workers, descriptors, after) >= 8


async def test_aiofiles_cancelled_at_any_wait_stay_open_and_usable(
    tmp_path: Path, workers: Workers, executor: ThreadPoolExecutor, descriptors: Callable[[], list[str]]
) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(DATA)
    for step in itertools.count(1):
        async with aiofiles.open(path, "rb", executor=executor) as file:
            before = descriptors()
            try:
                await cancelled_at(step, fetch(file, workers))
                break
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
            await file.seek(0)
            assert await file.read() == DATA
            await workers.read(int)
            assert descriptors() == before
    assert step >= 8


async def test_a_cancelled_read_ends_at_once_and_its_thread_after_the_read_that_it_is_in(workers: Workers) -> None:
    file = Endless()
    task = asyncio.create_task(fetch(file, workers))
    await until(file.reading.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task  # while the thread is still in read()
    assert workers.statistics().read_running == 1
    file.gate.release(100)
    await workers.aclose()
    assert file.num_reads == 1
    assert not file.closed


async def test_a_read_that_waits_for_a_thread_never_begins_once_cancelled(workers: Workers) -> None:
    busy, waiting = Endless(), OnlyReads(DATA)
    tasks = [asyncio.create_task(fetch(busy, workers))]
    await until(busy.reading.is_set)
    tasks.append(asyncio.create_task(fetch(waiting, workers)))
    await until(lambda: workers.statistics().read_queued)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    busy.gate.release()
    await workers.aclose()
    assert waiting.num_reads == 0


class _LastReadWaits(OnlyReads):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.gate = threading.Event()

    def read(self, size: int) -> bytes:
        block = super().read(size)
        if not block:
            assert self.gate.wait(timeout=60)
        return block


class _Gated:
    """Workers whose threads have not begun yet."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.jobs: list[Callable[[], Any]] = []

    async def read(self, function: Callable[..., Any], *args: Any) -> Any:
        self.jobs.append(lambda: function(*args))
        self.arrived.set()
        return await asyncio.get_running_loop().create_future()


async def test_a_block_that_is_written_after_the_cancellation_goes_nowhere(
    descriptors: Callable[[], list[str]],
) -> None:
    before = descriptors()
    gated = _Gated()
    task = asyncio.create_task(fetch(Chunks(DATA, MIB), gated))
    await gated.arrived.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    del task
    [job] = gated.jobs
    with pytest.raises(ValueError, match="released"):
        job()
    gated.jobs.clear()
    assert descriptors() == before


async def test_a_result_that_comes_too_late_is_dropped(workers: Workers, descriptors: Callable[[], list[str]]) -> None:
    before = descriptors()
    file = _LastReadWaits(DATA)
    task = asyncio.create_task(fetch(file, workers))
    await until(lambda: len(descriptors()) > len(before))  # its anonymous file
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    file.gate.set()
    await workers.aclose()
    assert descriptors() == before


async def test_an_abandoned_read_leaves_the_callers_bytearray_free() -> None:
    buffer = bytearray(DATA)
    gated = _Gated()
    task = asyncio.create_task(fetch(buffer, gated))
    await gated.arrived.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    buffer.clear()  # BufferError if a view of it were left
