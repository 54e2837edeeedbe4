"""However a loop over results is left, nothing of the work remains; and nobody waits for it but `aclose`."""

from __future__ import annotations

import asyncio
import gc
import io
import random
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

import aioaudio
from aioaudio import Session
from aioaudio.workers import Workers


async def idle(workers: Workers) -> None:
    """Wait until the workers have nothing to do, however long that takes."""
    await until(lambda: not any(workers.statistics()) and not asyncio.all_tasks(workers.io().loop))


class Counted:
    """Paths without end, and how many of them were asked for."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths, self.count = paths, 0

    def __iter__(self) -> Iterator[Path]:
        while True:
            self.count += 1
            yield self.paths[self.count % len(self.paths)]


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    async with Session(read_threads=2, decode_threads=2) as session:
        yield session


async def leave_by_break(session: Session, clips: Any) -> None:
    async with session.batches(clips, batch_size=2) as batches:
        async for _ in batches:
            break


async def leave_by_an_error(session: Session, clips: Any) -> None:
    with pytest.raises(LookupError):  # noqa: PT012
        async with session.batches(clips, batch_size=2) as batches:
            async for _ in batches:
                raise LookupError


async def leave_by_cancelling(session: Session, clips: Any) -> None:
    begun = asyncio.Event()

    async def consume() -> None:
        async with session.batches(clips, batch_size=2) as batches:
            async for _ in batches:
                begun.set()

    task = asyncio.create_task(consume())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def leave_by_aclose(session: Session, clips: Any) -> None:
    batches = session.batches(clips, batch_size=2)
    await anext(batches)
    await batches.aclose()
    await batches.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(batches)


async def leave_by_dropping(session: Session, clips: Any) -> None:
    batches = session.batches(clips, batch_size=2)
    await anext(batches)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del batches


async def leave_without_beginning(session: Session, clips: Any) -> None:
    async with session.batches(clips, batch_size=2):
        pass
    session.batches(clips, batch_size=2)


WAYS = [
    leave_by_break,
    leave_by_an_error,
    leave_by_cancelling,
    leave_by_aclose,
    leave_by_dropping,
    leave_without_beginning,
]


@pytest.mark.parametrize("leave", WAYS)
async def test_nothing_goes_on_after_it_was_left(session: Session, paths: list[Path], leave: Any) -> None:
    clips = Counted(paths)
    await leave(session, clips)
    await idle(session.workers)
    count = clips.count
    gc.collect()
    assert clips.count == count
    reference = weakref.ref(clips)
    del clips
    await until(lambda: gc.collect() >= 0 and reference() is None)  # a thread may be at its last instructions


@pytest.mark.parametrize("leave", WAYS)
async def test_an_async_input_is_closed_where_it_belongs(session: Session, paths: list[Path], leave: Any) -> None:
    here = asyncio.get_running_loop()
    closed: list[bool] = []

    async def clips() -> AsyncIterator[Path]:
        try:
            while True:
                for path in paths:
                    yield path
                await asyncio.sleep(0)
        finally:
            closed.append(asyncio.get_running_loop() is here)

    await leave(session, clips())
    await idle(session.workers)
    await until(lambda: closed or leave is leave_without_beginning)
    assert all(closed)


async def test_leaving_at_random_moments_leaves_nothing(
    session: Session, paths: list[Path], soak: Callable[[int], int]
) -> None:
    rng = random.Random(1)

    async def consume() -> None:
        async with session.batches(Counted(paths), batch_size=3, prefetch=2) as batches:
            async for _ in batches:
                await asyncio.sleep(0)

    for _ in range(soak(300)):
        task = asyncio.create_task(consume())
        for _ in range(rng.randrange(60)):
            await asyncio.sleep(0)
        await asyncio.sleep(rng.random() * 0.01)
        task.cancel()
        await asyncio.wait([task])
    await idle(session.workers)


async def test_closing_the_session_raises_closed_error_in_who_waits(paths: list[Path]) -> None:
    session = Session()
    gate = asyncio.Event()

    async def clips() -> AsyncIterator[Path]:
        yield paths[0]
        await gate.wait()

    batches = session.batches(clips(), batch_size=1)
    await anext(batches)
    waiting = asyncio.create_task(anext(batches))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await session.aclose()
    with pytest.raises(aioaudio.ClosedError):
        await waiting
    with pytest.raises(aioaudio.ClosedError):
        await anext(session.batches(paths, batch_size=1))


async def test_cancelling_the_wait_for_a_batch_loses_none(session: Session, paths: list[Path]) -> None:
    come = []
    async with session.batches(paths * 2, batch_size=2) as batches:
        while True:
            try:
                async with asyncio.timeout(0):
                    batch = await anext(batches)
            except TimeoutError:
                await asyncio.sleep(0.001)
                continue
            except StopAsyncIteration:
                break
            come += [clip.source for clip in batch.clips]
    assert come == paths * 2


async def test_several_tasks_share_the_results(session: Session, paths: list[Path]) -> None:
    come: list[Any] = []

    async def consume(results: aioaudio.Results[Any]) -> None:
        async for result in results:
            come.append(result.clip.source)  # noqa: PERF401

    async with session.load_many(paths * 4) as results:
        await asyncio.gather(*(consume(results) for _ in range(3)))
    assert sorted(come) == sorted(paths * 4)


def test_several_threads_share_the_results(paths: list[Path]) -> None:
    come: list[Any] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            results = aioaudio.sync.load_many(paths)
            threads = [threading.Thread(target=lambda results=results: come.extend(results)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(result.clip.source for result in come) == sorted(paths * 10)


def test_waiting_on_the_thread_that_does_the_work_is_an_error(paths: list[Path]) -> None:
    async def clips() -> AsyncIterator[Path]:
        yield paths[0]
        aioaudio.sync.load(paths[0])

    with pytest.raises(RuntimeError, match="await"):
        list(aioaudio.sync.batches(clips(), batch_size=1))


def test_a_sync_loop_that_is_left_ends_the_work(paths: list[Path]) -> None:
    clips = Counted(paths)
    with aioaudio.sync.batches(clips, batch_size=2) as batches:
        next(batches)
    assert clips.count < 1000
    assert list(batches) == []
    batches = aioaudio.sync.batches(clips, batch_size=2)
    next(batches)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del batches
    gc.collect()


async def test_a_slow_consumer_holds_up_the_input(session: Session, paths: list[Path]) -> None:
    clips = Counted(paths)
    async with session.batches(clips, batch_size=4, prefetch=3) as batches:
        for i in range(5):
            await anext(batches)
            await until(lambda: batches.statistics()["consumer"].depth == 3)
            await idle_but_for_the_flow(session)
            # What was taken, what is ahead, and the clip that the generator stands at.
            assert clips.count <= 4 * (i + 1) + 3 * 4 + 1


async def idle_but_for_the_flow(session: Session) -> None:
    await until(lambda: not any(session.workers.statistics()))


async def test_bytes_ahead_of_a_slow_consumer_are_bounded(session: Session, paths: list[Path]) -> None:
    longest = max([(await session.load(path)).num_samples for path in paths])
    clips = Counted(paths)
    async with session.batches(clips, batch_size=1, prefetch=1000, prefetch_bytes=10 * 4 * longest) as batches:
        await anext(batches)
        count = -1
        while count != clips.count:  # until it stands still
            count = clips.count
            for _ in range(20):
                await idle_but_for_the_flow(session)
                await asyncio.sleep(0.001)
        ahead = batches.statistics()["consumer"].depth
        held = [await anext(batches) for _ in range(ahead)]
        assert 10 <= ahead < 100
        # Beside the bound, what was begun before any size was known, or only those of shorter clips.
        assert sum(batch.waveforms.nbytes for batch in held) <= (10 + 2 * 8) * 4 * longest


async def test_batches_are_made_while_the_consumer_blocks_its_loop(session: Session, paths: list[Path]) -> None:
    async with session.batches(paths * 10, batch_size=8, prefetch=4) as batches:
        await anext(batches)
        until = time.monotonic() + 60
        while batches.statistics()["consumer"].depth < 4 and time.monotonic() < until:
            time.sleep(0.001)  # noqa: ASYNC251 - the loop of this test stands still
        assert batches.statistics()["consumer"].depth == 4


async def test_a_slow_input_costs_no_time(session: Session, paths: list[Path]) -> None:
    gate = threading.Event()

    def clips() -> Iterator[Path]:
        yield paths[0]
        gate.wait()
        yield paths[1]

    async with session.batches(clips(), batch_size=1) as batches:
        await anext(batches)
        await asyncio.sleep(0.01)
        before = time.process_time()
        await asyncio.sleep(0.3)
        waiting = time.process_time() - before
        gate.set()
        await anext(batches)
    assert waiting < 0.1


async def test_inputs_that_block_hold_up_nobody(paths: list[Path]) -> None:
    gate = threading.Event()

    def clips() -> Iterator[Path]:
        yield paths[0]
        gate.wait()
        yield paths[1]

    async with Session(read_threads=1) as session:
        runs = [session.batches(clips(), batch_size=1) for _ in range(20)]
        try:
            first = [await anext(run) for run in runs]
            assert (await session.load(io.BytesIO(paths[2].read_bytes()))).num_samples
        finally:
            gate.set()
        assert len(first) == 20
        for run in runs:
            assert [batch.clips[0].source async for batch in run] == [paths[1]]


async def test_a_direct_load_goes_before_what_is_read_ahead(paths: list[Path]) -> None:
    names: list[str] = []

    class Named(io.BytesIO):
        """A file that tells when it is read first."""

        def __init__(self, name: str, data: bytes) -> None:
            super().__init__(data)
            self.name = name

        def readinto(self, buffer: Any, /) -> int:
            if self.name not in names:
                names.append(self.name)
            return super().readinto(buffer)

        def read(self, size: int | None = -1, /) -> bytes:
            if self.name not in names:
                names.append(self.name)
            return super().read(size)

    data = paths[1].read_bytes()
    ahead = [Named(f"ahead {i}", data) for i in range(64)]
    async with (
        Session(read_threads=1, decode_threads=1) as session,
        session.load_many(ahead, prefetch=64) as results,
    ):
        await anext(aiter(results))
        await session.load(Named("direct", data))
        async for _ in results:
            pass
    # Of 64 that were queued, at most those go before it that held a slot when it came, or were just given one.
    assert len(names) == 65
    assert names.index("direct") < 32
