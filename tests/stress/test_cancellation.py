"""A thousand cancellations at random moments: what is queued never starts, what runs ends, the others get theirs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from clips import KnownClip

import aioaudio
from aioaudio.encoded import Encoded
from aioaudio.workers import MAX_GROUP

PATIENCE = 30  # seconds after which a thread that waits in vain gives up


class Kernels:
    """What the decode threads do: the sources that they have begun, and the blocks that they take.

    `late` is how many blocks were taken in each call after nobody waited for any of its sources any more;
    `block_seconds` are the times between the blocks of each engine.
    """

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.late: list[int] = []
        self.block_seconds: dict[str, list[float]] = {"wav": [], "graph": [], "frames": []}
        self.entered = threading.Semaphore(0)
        self._current = threading.local()

    def watch(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def watched(jobs: Sequence[Any], stops: Sequence[Any]) -> Any:
            self.begun += [job.file.name for job in jobs]
            self._current.stops, self._current.late, self._current.last = stops, 0, None
            self.entered.release()
            results = kernel(jobs, stops)
            self.late.append(self._current.late)
            return results

        return watched

    def count_block(self, engine: str) -> None:
        """Called where a block is about to be taken."""
        now, last = time.perf_counter(), self._current.last
        if last is not None:
            self.block_seconds[engine].append(now - last)
        self._current.last = now
        self._current.late += all(stop.is_set for stop in self._current.stops)


class Demuxing:
    """A container whose packets are counted."""

    def __init__(self, container: Any, engine: str, kernels: Kernels) -> None:
        self._container, self._engine, self._kernels = container, engine, kernels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def demux(self, *streams: Any) -> Iterator[Any]:
        packets = self._container.demux(*streams)
        while True:
            self._kernels.count_block(self._engine)
            try:
                packet = next(packets)
            except StopIteration:
                return
            yield packet


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    kernels = Kernels()

    def counting(open_container: Callable[..., Any], engine: str) -> Callable[..., Any]:
        @contextlib.contextmanager
        def open_and_count(*args: Any, **options: Any) -> Iterator[Demuxing]:
            with open_container(*args, **options) as container:
                yield Demuxing(container, engine, kernels)

        return open_and_count

    decode, graph, frames, wav = (
        importlib.import_module(f"aioaudio.decode{name}") for name in ("", ".graph", ".frames", ".wav")
    )
    unpack = wav.unpack

    def unpack_and_count(*args: Any) -> Any:
        kernels.count_block("wav")
        return unpack(*args)

    monkeypatch.setattr(decode, "decode_group", kernels.watch(decode.decode_group))
    monkeypatch.setattr(graph, "open_graph", counting(graph.open_graph, "graph"))
    monkeypatch.setattr(frames, "open_input", counting(frames.open_input, "frames"))
    monkeypatch.setattr(wav, "unpack", unpack_and_count)
    return kernels


@pytest.fixture
async def session() -> AsyncIterator[aioaudio.Session]:
    """With one decode thread, so that its next job begins when it has let go of the one before."""
    async with aioaudio.Session(decode_threads=1, read_threads=4) as session:
        yield session


def echo(tasks: list[Any], stops: Sequence[Any]) -> list[Any]:
    return tasks


@contextlib.asynccontextmanager
async def held_thread(session: aioaudio.Session) -> AsyncIterator[None]:
    """The decode thread is busy meanwhile."""
    entered, opened = threading.Semaphore(0), threading.Event()

    def wait(tasks: list[Any], stops: Sequence[Any]) -> list[Any]:
        entered.release()
        assert opened.wait(PATIENCE)
        return tasks

    task = asyncio.create_task(session.workers.decode(wait, None))
    try:
        assert await asyncio.to_thread(entered.acquire, timeout=PATIENCE)
        yield
    finally:
        opened.set()
        await task


async def turns(count: int) -> None:
    """Let the loop go round `count` times."""
    for _ in range(count):
        await asyncio.sleep(0)


def start(session: aioaudio.Session, clip: KnownClip, source: Any) -> asyncio.Task[None]:
    async def load() -> None:
        clip.check(await session.load(source))

    return asyncio.create_task(load())


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel, and wait for the ends of the awaits; any that had its result before keeps it."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert result is None or isinstance(result, asyncio.CancelledError), result


def percentiles(seconds: Sequence[float]) -> str:
    values = sorted(seconds)
    return f"{values[len(values) // 2] * 1e3:.1f} ms (p99 {values[len(values) * 99 // 100] * 1e3:.1f})"


async def test_what_waits_in_the_queue_never_starts(
    session: aioaudio.Session, clips: list[KnownClip], kernels: Kernels, soak: Callable[[int], int]
) -> None:
    rng, left = random.Random(0), soak(1000) // 2  # on each of the two kinds of loops
    while left > 0:
        kernels.begun.clear()
        async with held_thread(session):
            chosen = [rng.choice(clips) for _ in range(rng.randint(1, 40))]
            sources = [Encoded(clip.data, name=f"{left} {i}") for i, clip in enumerate(chosen)]
            tasks = [start(session, clip, source) for clip, source in zip(chosen, sources, strict=True)]
            await turns(rng.randint(0, 4))
            lost = set(rng.sample(range(len(tasks)), rng.randint(1, len(tasks))))
            await cancel([tasks[i] for i in lost])
        kept = [i for i in range(len(tasks)) if i not in lost]
        await asyncio.gather(*(tasks[i] for i in kept))
        assert all(tasks[i].cancelled() for i in lost)
        assert sorted(kernels.begun) == sorted(sources[i].name for i in kept)
        left -= len(lost)


async def test_what_is_read_or_waits_for_its_turn_never_starts(
    session: aioaudio.Session, clips: list[KnownClip], kernels: Kernels, soak: Callable[[int], int]
) -> None:
    rng, left = random.Random(1), soak(1000) // 2
    while left > 0:
        kernels.begun.clear()
        async with held_thread(session):
            chosen = [rng.choice(clips) for _ in range(rng.randint(1, 40))]  # more than there are slots
            tasks = [start(session, clip, clip.source(rng.choice(("file", "iterator")))) for clip in chosen]
            await turns(rng.randint(0, 100))
            lost = set(rng.sample(range(len(tasks)), rng.randint(1, len(tasks))))
            await cancel([tasks[i] for i in lost])
        await asyncio.gather(*(tasks[i] for i in range(len(tasks)) if i not in lost))
        assert all(tasks[i].cancelled() for i in lost)
        assert len(kernels.begun) == len(tasks) - len(lost)
        assert session.workers.statistics()[-2:] == (0, 0)  # slots
        left -= len(lost)


async def test_a_running_group_goes_on_for_those_who_wait(
    session: aioaudio.Session, clips: list[KnownClip], kernels: Kernels, soak: Callable[[int], int]
) -> None:
    rng, left, num_mates = random.Random(2), soak(1000) // 2, 0
    while left > 0:
        kernels.begun.clear()
        async with held_thread(session):
            chosen = rng.choices(clips, k=rng.randint(2, MAX_GROUP))
            sources = [Encoded(clip.data, name=f"{left} {i}") for i, clip in enumerate(chosen)]
            tasks = [start(session, clip, source) for clip, source in zip(chosen, sources, strict=True)]
            await turns(1)
        await turns(rng.randint(0, 2 ** rng.randint(0, 11)))
        lost = set(rng.sample(range(len(tasks)), rng.randint(1, len(tasks) - 1)))
        await cancel([tasks[i] for i in lost])
        mates = [task for i, task in enumerate(tasks) if i not in lost]
        await asyncio.gather(*mates)
        num_mates += len(mates)
        clip = rng.choice(clips)
        clip.check(await session.load(clip.path))  # the next one
        left -= len(lost)
    assert num_mates > 0


@pytest.mark.timeout(300)
async def test_a_load_that_runs_ends_within_a_block(
    session: aioaudio.Session,
    clips: list[KnownClip],
    long_clips: list[KnownClip],
    kernels: Kernels,
    soak: Callable[[int], int],
    measured: Callable[[str], None],
) -> None:
    rng, seconds, num_cut = random.Random(3), list[float](), 0
    for i in range(soak(1000) // 2):
        clip = long_clips[i % len(long_clips)]
        task = start(session, clip, clip.source(rng.choice(("path", "bytes"))))
        assert await asyncio.to_thread(kernels.entered.acquire, timeout=PATIENCE)
        await turns(rng.randint(0, 2 ** rng.randint(0, 9)))
        begin = time.perf_counter()
        await cancel([task])
        await session.workers.decode(echo, None)  # by the same thread
        seconds.append(time.perf_counter() - begin)
        num_cut += task.cancelled()
        clip = rng.choice(clips)
        clip.check(await session.load(clip.path))
        assert await asyncio.to_thread(kernels.entered.acquire, timeout=PATIENCE)
    assert num_cut > 0
    assert max(kernels.late) <= 1
    assert all(kernels.block_seconds.values())  # each engine was there
    blocks = ", ".join(f"{name} {percentiles(values)}" for name, values in kernels.block_seconds.items())
    measured(f"{num_cut} of {len(seconds)} long loads cut short: thread free after {percentiles(seconds)}")
    measured(f"their blocks take: {blocks}")


async def test_a_group_that_nobody_waits_for_ends_within_a_block(
    session: aioaudio.Session, long_clips: list[KnownClip], kernels: Kernels, soak: Callable[[int], int]
) -> None:
    rng = random.Random(4)
    for _ in range(soak(200) // 2):
        async with held_thread(session):
            chosen = rng.choices(long_clips, k=rng.randint(2, MAX_GROUP))
            tasks = [start(session, clip, clip.data) for clip in chosen]
            await turns(1)
        assert await asyncio.to_thread(kernels.entered.acquire, timeout=PATIENCE)
        await turns(rng.randint(0, 2 ** rng.randint(0, 9)))
        await cancel(tasks)
        await session.workers.decode(echo, None)
    assert max(kernels.late) <= 1


async def test_nothing_is_written_to_out_once_the_await_has_ended(
    session: aioaudio.Session, long_clips: list[KnownClip], soak: Callable[[int], int]
) -> None:
    rng, num_cut = random.Random(5), 0
    for i in range(soak(200) // 2):
        clip = long_clips[i % len(long_clips)]
        out = torch.zeros_like(clip.samples)
        task = asyncio.create_task(session.load(clip.path, out=out))
        await turns(rng.randint(0, 2 ** rng.randint(0, 9)))
        for _ in range(rng.randint(1, 3)):
            task.cancel()
            await turns(1)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        num_cut += task.cancelled()
        out.fill_(7)
        await session.workers.decode(echo, None)
        assert (out == 7).all()
    assert num_cut > 0


async def test_a_timeout_ends_a_load_in_each_engine(session: aioaudio.Session, long_clips: list[KnownClip]) -> None:
    for clip in long_clips:
        with pytest.raises(aioaudio.AudioTimeout):
            await session.load(clip.data, timeout=1e-9)
        clip.check(await session.load(clip.data, timeout=PATIENCE))
