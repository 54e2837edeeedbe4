"""Long streams, and many of them: memory that does not grow, and an event loop that goes round."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import torch
from children import run_program
from clips import in_chunks
from media import MediaLibrary

import aioaudio

MIB = 2**20


@pytest.fixture(scope="session")
def seconds(soak: Callable[[int], int]) -> int:
    """An hour, or two minutes where the tests are not to soak."""
    return 3_600 if soak(10) == 10 else 120


@pytest.fixture(scope="session")
def hour(media: MediaLibrary, seconds: int) -> Path:
    """So long an MP3."""
    return media.make("mp3", seconds=seconds, sample_rate=16_000, bit_rate=32_000).path


@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", ["path", "bytes", "iterator"])
def test_an_hour_takes_the_memory_of_a_few_chunks(
    form: str, hour: Path, seconds: int, measured: Callable[[str], None]
) -> None:
    if form == "bytes" and seconds < 3_600:
        pytest.skip("as the path does, so do the bytes; when soaking, both are tried")
    finished = run_program("run_stream.py", hour, form, patience=600)
    assert (finished.code, finished.stderr) == (0, "")
    report = json.loads(finished.stdout)
    assert report["seconds"] == pytest.approx(seconds, abs=0.1)
    early, growth = report["resident"][0], max(report["resident"]) - report["resident"][0]
    measured(f"{report['seconds']:.0f} s as {form}: {early / MIB:.0f} MiB after a tenth, {growth / MIB:+.1f} after it")
    assert growth < 10 * MIB
    assert report["most_ahead"] < MIB


class Silent:
    """Bytes that come, and then no more of them."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data
        await asyncio.Event().wait()


@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("form", ["path", "iterator"])
async def test_many_streams_at_once_are_each_right(
    form: str, media: MediaLibrary, soak: Callable[[int], int], measured: Callable[[str], None]
) -> None:
    """On two threads, beside others that are silent; how long the loop was held up is measured."""
    asyncio.get_running_loop().set_debug(False)
    path = media.make("mp3", seconds=10.0, sample_rate=16_000).path
    data, whole = path.read_bytes(), await aioaudio.load(path)
    gaps, num_streams = [0.0], soak(200)

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            gaps.append(time.perf_counter() - before)

    async with aioaudio.Session(decode_threads=2) as session:

        async def consume() -> None:
            source = path if form == "path" else in_chunks(data, 4_000)
            async with session.open(source, chunk_seconds=0.5) as reader:
                chunks = [chunk.waveform async for chunk in reader]
            assert torch.cat(chunks, dim=1).equal(whole.waveform)

        silent = [session.open(Silent(data[:5_000]), chunk_seconds=5.0) for _ in range(soak(50))]
        waiting = [asyncio.ensure_future(anext(reader)) for reader in silent]
        ticker = asyncio.ensure_future(tick())
        began = time.perf_counter()
        await asyncio.gather(*(consume() for _ in range(num_streams)))
        seconds = time.perf_counter() - began
        ticker.cancel()
        assert not any(task.done() for task in waiting)
        await asyncio.gather(*(reader.aclose() for reader in silent))
        await asyncio.gather(*waiting, ticker, return_exceptions=True)
    speed = num_streams * 10 / seconds
    measured(
        f"{num_streams} streams as {form} beside {len(silent)} silent ones: {speed:.0f} s of audio a second, "
        f"the loop's longest gap {max(gaps) * 1000:.0f} ms"
    )
