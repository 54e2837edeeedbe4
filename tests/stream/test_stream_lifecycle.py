"""However a stream is left, nothing of it remains, and nobody waits for it but `aclose`."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from media import MediaLibrary

import aioaudio
from aioaudio import Session
from aioaudio.decode.blocks import FrameBlocks, GraphBlocks


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds, however long that takes."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def is_idle(session: Session, num_streams: int = 0) -> bool:
    """Whether the workers have nothing to do, but to hold so many streams."""
    workers = session.workers
    return not any(workers.statistics()) and len(asyncio.all_tasks(workers.io().loop)) == num_streams


async def idle(session: Session, num_streams: int = 0) -> None:
    """Wait until they have."""
    await until(lambda: is_idle(session, num_streams))


@pytest.fixture(scope="session")
def long(media: MediaLibrary) -> Path:
    return media.make("mp3", seconds=30.0, sample_rate=16_000).path


async def test_leaving_early_ends_the_work(long: Path) -> None:
    async with Session(decode_threads=2) as session:
        async with session.open(long, chunk_seconds=0.1) as reader:
            async for _ in reader:
                break
        await idle(session)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)


async def test_leaving_without_closing_warns_and_ends_the_work(long: Path) -> None:
    async with Session(decode_threads=2) as session:
        reader = session.open(long, chunk_seconds=0.1)
        await anext(reader)
        with pytest.warns(ResourceWarning, match="unclosed"):  # noqa: PT031
            del reader
            gc.collect()
        await idle(session)


async def test_a_reader_that_was_not_used_is_silent(long: Path) -> None:
    async with Session() as session:
        session.open(long)
        gc.collect()
        assert not session.workers.started


async def test_closing_ends_a_wait(long: Path) -> None:
    async with Session(decode_threads=1) as session:
        reader = session.open(long, chunk_seconds=30.0)
        task = asyncio.ensure_future(anext(reader))
        await until(lambda: session.workers.statistics().decode_running)
        await reader.aclose()
        with pytest.raises(aioaudio.ClosedError):
            await task
        await idle(session)


async def test_closing_the_session_ends_its_streams(long: Path) -> None:
    session = Session(decode_threads=1)
    readers = [session.open(long, chunk_seconds=5.0) for _ in range(8)]
    tasks = [asyncio.ensure_future(anext(reader)) for reader in readers]
    await until(lambda: session.workers.started and session.workers.statistics().decode_running)
    await session.aclose()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, aioaudio.ClosedError | aioaudio.Audio) for result in results)
    for reader in readers:
        await reader.aclose()


@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_leaving_at_random_moments_leaves_nothing(long: Path, soak: Callable[[int], int]) -> None:
    async with Session(decode_threads=2) as session:

        async def consume(rng: random.Random) -> None:
            async with session.open(long, chunk_seconds=rng.choice([0.01, 0.5, 20.0])) as reader:
                async for _ in reader:
                    if rng.random() < 0.1:
                        await reader.seek(rng.uniform(0, 29))
                    if rng.random() < 0.1:
                        break

        for seed in range(soak(600)):
            rng = random.Random(seed)
            task = asyncio.ensure_future(consume(rng))
            await asyncio.sleep(rng.uniform(0, 0.01))
            task.cancel()
            await asyncio.wait([task])
        await idle(session)


async def test_a_blocked_loop_has_its_next_chunk_ready(long: Path) -> None:
    """What is decoded ahead is decoded elsewhere."""
    async with Session(decode_threads=1) as session, session.open(long, chunk_seconds=0.5) as reader:
        await anext(reader)
        deadline = time.monotonic() + 30
        while not is_idle(session, 1):
            assert time.monotonic() < deadline
        decoder = reader._run._serving._decoder  # type: ignore[union-attr]
        assert decoder is not None
        assert decoder._stop >= 2 * 8_000


async def test_no_more_is_decoded_ahead_than_a_chunk(long: Path) -> None:
    async with Session(decode_threads=1) as session, session.open(long, chunk_seconds=0.25) as reader:
        async for chunk in reader:
            await idle(session, 1)
            decoder = reader._run._serving._decoder  # type: ignore[union-attr]
            assert decoder is not None
            end = round((chunk.start_seconds + chunk.duration_seconds) * 16_000)
            assert decoder._stop - end <= 4_000 + 2**14
            assert decoder._stop - decoder._start <= 8_000 + 2 * 2**14
            if chunk.start_seconds > 5:
                break


@pytest.mark.parametrize("engine", [GraphBlocks, FrameBlocks])
async def test_streams_take_turns_on_few_threads(
    engine: type, long: Path, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    path = long if engine is GraphBlocks else media.make("tta", seconds=5.0, sample_rate=16_000).path
    whole = await aioaudio.load(path, stop_seconds=2.0)
    async with Session(decode_threads=2) as session:

        async def consume() -> None:
            async with session.open(path, chunk_seconds=0.5, stop_seconds=2.0) as reader:
                start = 0
                async for chunk in reader:
                    assert chunk.waveform.equal(whole.waveform[:, start : start + 8_000])
                    start += 8_000
                assert start == 32_000

        await asyncio.gather(*(consume() for _ in range(soak(200))))
        await idle(session)
