"""What arrives is decoded as it comes, to the samples of a load; an end, a stall and an abort are told apart."""

from __future__ import annotations

import asyncio
import io
import os
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media import MediaLibrary
from sources import AsyncOnlyReads, OnlyReads, forever, in_blocks

import aioaudio
from aioaudio import Session

# Decoded as they come, and (behind them) those that must be there as a whole.
LIVE = ["wav", "rf64", "flac", "mp3", "mp2", "adts", "ac3", "vorbis", "opus", "flac-ogg", "opus-webm", "flac-mka"]
HELD = ["aac", "alac", "aiff", "au", "caf", "tta", "wavpack", "w64"]

FORMS: dict[str, Callable[[bytes, random.Random], Any]] = {
    "iterator": in_blocks,
    "file": OnlyReads,
    "async file": AsyncOnlyReads,
}

WAYS: list[dict[str, Any]] = [
    {},
    {"sample_rate": 16_000},
    {"sample_rate": 44_100, "dtype": torch.int16, "start_seconds": 0.4},
    {"start_seconds": 0.2, "stop_seconds": 0.9},
]


def joined(chunks: list[aioaudio.Audio]) -> torch.Tensor:
    return torch.cat([chunk.waveform for chunk in chunks], dim=1)


@given(
    kind=st.sampled_from(LIVE + HELD),
    form=st.sampled_from(sorted(FORMS)),
    seconds=st.floats(0.02, 2.0),
    way=st.sampled_from(WAYS),
    seed=st.integers(0, 99),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_joined_chunks_are_what_load_gives(
    kind: str, form: str, seconds: float, way: dict[str, Any], seed: int, media: MediaLibrary
) -> None:
    data = media.make(kind, seconds=1.2, channels=2).path.read_bytes()
    whole = aioaudio.sync.load(data, **way)
    with aioaudio.sync.open(FORMS[form](data, random.Random(seed)), chunk_seconds=seconds, **way) as reader:
        chunks = list(reader)
    length = max(1, int(seconds * whole.sample_rate + 0.5))
    assert all(chunk.num_samples == length for chunk in chunks[:-1])
    assert joined(chunks).shape == whole.waveform.shape
    if kind not in ("aac", "adts"):  # whose noise is random
        assert joined(chunks).equal(whole.waveform)


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("kind", ["mp3", "vorbis", "opus", "flac"])
@pytest.mark.parametrize("options", [{}, {"sample_rate": 16_000, "num_channels": 1}])
async def test_joined_files_play_through(kind: str, options: dict[str, Any], media: MediaLibrary) -> None:
    """As sentences of a speech synthesis come, each a file of its own; also where they differ in rate and channels."""
    first = media.make(kind, seconds=1.0)
    second = media.make(kind, seconds=0.7, channels=2, sample_rate=48_000 if kind == "opus" else 32_000)
    data = first.path.read_bytes() + second.path.read_bytes() + first.path.read_bytes()
    whole = await aioaudio.load(data, **options)
    assert whole.num_samples >= 2.69 * whole.sample_rate
    async with aioaudio.open(in_blocks(data, random.Random(0)), chunk_seconds=0.25, **options) as reader:
        chunks = [chunk async for chunk in reader]
    assert joined(chunks).equal(whole.waveform)


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("kind", LIVE)
async def test_chunks_come_before_the_rest_does(kind: str, media: MediaLibrary) -> None:
    """From a source that falls silent: whoever waited for its end would wait for ever."""
    made = media.make(kind, seconds=8.0)
    data = made.path.read_bytes()
    whole = await aioaudio.load(data)
    async with aioaudio.open(forever(data[: len(data) * 3 // 4]), chunk_seconds=0.5) as reader:
        chunks = [await anext(reader) for _ in range(8)]
    if kind != "adts":
        assert joined(chunks).equal(whole.waveform[:, : 4 * 48_000])


async def test_headerless_pcm_comes_at_once(media: MediaLibrary) -> None:
    made = media.make("wav", seconds=1.0, channels=2)
    data = made.path.read_bytes()[-4 * made.num_samples :]
    raw = aioaudio.RawPCM("s16le", 48_000, 2)
    async with aioaudio.open(forever(data[:20_000], 77), chunk_seconds=0.05, format=raw) as reader:
        assert (await anext(reader)).waveform.equal(made.samples[:, :2_400].float())
    async with aioaudio.open(in_blocks(data + b"?", random.Random(0)), format=raw, on_damage="conceal") as reader:
        chunks = [chunk async for chunk in reader]
    assert joined(chunks).equal(made.samples.float())
    assert [damage.kind for damage in chunks[-1].damage] == ["truncated"]


async def failing(data: bytes, error: BaseException) -> AsyncIterator[bytes]:
    yield data
    raise error


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [(ConnectionResetError(104, "reset by peer"), aioaudio.FetchError), (LookupError("mine"), LookupError)],
)
@pytest.mark.parametrize("share", [0.6, 0.001, 0.0])
async def test_an_abort_is_raised_behind_what_has_come(
    error: Exception, expected: type[Exception], share: float, media: MediaLibrary
) -> None:
    data = media.make("mp3", seconds=4.0).path.read_bytes()
    whole, chunks = await aioaudio.load(data), []
    reader = aioaudio.open(failing(data[: int(len(data) * share)], error), chunk_seconds=0.25)
    with pytest.raises(expected):  # noqa: PT012
        async for chunk in reader:
            chunks.append(chunk)  # noqa: PERF401
    given = joined(chunks) if chunks else torch.zeros(1, 0)
    assert given.equal(whole.waveform[:, : given.shape[1]])
    assert given.shape[1] >= (share - 0.1) * 4 * 48_000


async def test_damage_is_raised_in_its_place_also_where_the_source_breaks_off_behind_it(data: Path) -> None:
    broken = bytearray((data / "jfk.mp3").read_bytes()[:60_000])
    broken[13_000:15_000] = bytes(2_000)
    has_ended = asyncio.Event()

    async def blocks() -> AsyncIterator[bytes]:
        yield bytes(broken)
        has_ended.set()
        raise OSError("broke off")

    async with aioaudio.open(blocks(), chunk_seconds=1.0, sample_rate=16_000) as reader:
        assert (await anext(reader)).damage == ()
        await has_ended.wait()
        with pytest.raises(aioaudio.DamagedAudioError) as caught:
            await anext(reader)
    assert caught.value.audio is not None
    assert caught.value.audio.num_samples == 16_000


async def test_a_stall_is_a_timeout(media: MediaLibrary) -> None:
    data, num_chunks = media.make("mp3", seconds=4.0).path.read_bytes(), 0
    reader = aioaudio.open(forever(data[: len(data) // 2]), chunk_seconds=0.25, timeout=0.2)
    with pytest.raises(aioaudio.AudioTimeout):  # noqa: PT012
        async for _ in reader:
            num_chunks += 1
    assert num_chunks >= 6


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("kind", ["mp3", "opus", "wav", "flac", "opus-webm"])
async def test_an_end_in_the_middle_is_damage(kind: str, media: MediaLibrary) -> None:
    data = media.make(kind, seconds=2.0).path.read_bytes()
    for on_damage in ("raise", "conceal"):
        source = in_blocks(data[: len(data) * 2 // 3 + 1], random.Random(0))
        reader = aioaudio.open(source, chunk_seconds=0.25, on_damage=on_damage)  # type: ignore[arg-type]
        if on_damage == "raise":
            with pytest.raises(aioaudio.DamagedAudioError):
                [chunk async for chunk in reader]
        else:
            assert "truncated" in [damage.kind async for chunk in reader for damage in chunk.damage]


async def test_limits_hold_as_it_comes(media: MediaLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    data = media.make("mp3", seconds=4.0).path.read_bytes()
    for options in ({"max_bytes": 20_000}, {"max_seconds": 1.0}):
        with pytest.raises(aioaudio.LimitError):
            [chunk async for chunk in aioaudio.open(forever(data), chunk_seconds=0.25, **options)]  # type: ignore[arg-type]
    monkeypatch.setattr("aioaudio.stream.feed._MAX_HELD_BYTES", 10_000)
    data = media.make("aac", seconds=4.0).path.read_bytes()
    with pytest.raises(aioaudio.LimitError, match="max_bytes"):
        await anext(aioaudio.open(forever(data)))
    async with aioaudio.open(in_blocks(data, random.Random(0)), max_bytes=len(data), chunk_seconds=9.0) as reader:
        assert (await anext(reader)).num_samples == 4 * 48_000


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("data", [b"", b"RIFF", b"no audio at all " * 9_000, b"\0" * 100_000, b"OggS" * 1_000])
async def test_what_is_no_audio_is_an_error(data: bytes) -> None:
    with pytest.raises(aioaudio.AudioError):
        await anext(aioaudio.open(in_blocks(data, random.Random(0))))


async def test_the_source_is_not_read_far_ahead(media: MediaLibrary) -> None:
    data, sent = media.make("wav", seconds=60.0).path.read_bytes(), 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal sent
        for start in range(0, len(data), 4_096):
            sent += 4_096
            yield data[start : start + 4_096]

    async with aioaudio.open(counted(), chunk_seconds=0.5) as reader:
        async for chunk in reader:
            for _ in range(20):
                await asyncio.sleep(0)
            taken = (chunk.start_seconds + chunk.duration_seconds) * 96_000
            assert sent - taken <= 512 * 1024
            if chunk.start_seconds > 20:
                break


async def test_only_forward(media: MediaLibrary) -> None:
    made = media.make("flac", seconds=3.0)
    async with aioaudio.open(in_blocks(made.path.read_bytes(), random.Random(0)), chunk_seconds=0.5) as reader:
        assert (await reader.info()).codec == "flac"
        await reader.seek(1.0)
        assert (await reader.read(100)).waveform.equal(made.samples[:, 48_000:48_100].float())
        await reader.seek(2.0)
        await reader.read(100)
        with pytest.raises(io.UnsupportedOperation):
            await reader.seek(1.0)
        assert (await anext(reader)).waveform.equal(made.samples[:, 96_100:120_100].float())


async def test_cancelling_loses_no_sample(media: MediaLibrary) -> None:
    data = media.make("mp3", seconds=2.0).path.read_bytes()
    whole, rng, chunks = await aioaudio.load(data), random.Random(0), []
    async with aioaudio.open(in_blocks(data, rng)) as reader:
        while not chunks or chunks[-1].num_samples:
            task = asyncio.ensure_future(reader.read(2_400))
            for _ in range(rng.randrange(60)):
                await asyncio.sleep(0)
            if rng.random() < 0.7:
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                chunks.append(task.result())
    assert joined(chunks).equal(whole.waveform)


async def test_a_fifo_and_a_process_arrive(tmp_path: Path, media: MediaLibrary) -> None:
    path = media.make("mp3", seconds=2.0).path
    whole = await aioaudio.load(path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(path.read_bytes()))
    writer.start()
    async with aioaudio.open(fifo, chunk_seconds=0.3) as reader:
        assert joined([chunk async for chunk in reader]).equal(whole.waveform)
    writer.join()
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as process:  # noqa: ASYNC220
        async with aioaudio.open(process.stdout, chunk_seconds=0.3) as reader:
            assert joined([chunk async for chunk in reader]).equal(whole.waveform)
    child = await asyncio.create_subprocess_exec("cat", path, stdout=subprocess.PIPE)
    async with aioaudio.open(child.stdout, chunk_seconds=0.3) as reader:
        assert joined([chunk async for chunk in reader]).equal(whole.waveform)
    await child.wait()


# However it is left


class Tracked:
    """An async iterable that knows whether it was closed."""

    def __init__(self, data: bytes) -> None:
        self.data, self.closed, self.asked = data, False, asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.asked.set()
        try:
            async for block in forever(self.data):
                yield block
        finally:
            self.closed = True


def live_threads() -> int:
    return sum(thread.name.startswith("aioaudio-live") for thread in threading.enumerate())


@pytest.mark.parametrize("share", [0.5, 0.0])
async def test_closing_frees_a_thread_that_waits(share: float, media: MediaLibrary) -> None:
    data = media.make("mp3", seconds=4.0).path.read_bytes()
    source = Tracked(data[: int(len(data) * share)])
    reader = aioaudio.open(source, chunk_seconds=0.25)
    task = asyncio.ensure_future(anext(reader))
    await source.asked.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    await reader.aclose()
    await asyncio.wait([task])
    assert isinstance(task.exception(), aioaudio.ClosedError | None)
    assert source.closed
    assert live_threads() == 0


@pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])
async def test_leaving_at_random_moments_leaves_nothing(media: MediaLibrary, soak: Callable[[int], int]) -> None:
    """No thread, no descriptor and no task: the fixtures of every test look for them."""
    data = media.make("mp3", seconds=4.0).path.read_bytes()

    async def source(rng: random.Random) -> AsyncIterator[bytes]:
        async for block in forever(data[: rng.randrange(len(data))], rng.choice([100, 2_000, 50_000])):
            if rng.random() < 0.02:
                raise ConnectionResetError
            await asyncio.sleep(0)
            yield block

    async def consume(rng: random.Random, session: Session) -> None:
        async with session.open(source(rng), chunk_seconds=rng.choice([0.01, 0.5])) as reader:
            async for _ in reader:
                if rng.random() < 0.05:
                    break

    async with Session(decode_threads=2) as session:
        for seed in range(soak(500)):
            rng = random.Random(seed)
            task = asyncio.ensure_future(consume(rng, session))
            await asyncio.sleep(rng.uniform(0, 0.01))
            task.cancel()
            await asyncio.wait([task])
        assert live_threads() == 0


async def test_closing_the_session_frees_its_streams(media: MediaLibrary) -> None:
    data = media.make("mp3", seconds=4.0).path.read_bytes()
    session = Session()
    readers = [session.open(forever(data[:20_000]), chunk_seconds=3.0) for _ in range(5)]
    tasks = [asyncio.ensure_future(anext(reader)) for reader in readers]
    while live_threads() < 5:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await session.aclose()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, aioaudio.ClosedError) for result in results)
    assert live_threads() == 0
    for reader in readers:
        await reader.aclose()
    for _ in range(10):
        await asyncio.sleep(0)


async def test_silent_streams_slow_nothing(media: MediaLibrary) -> None:
    """They take no decode thread, of which there is one here, nor a read thread."""
    data, path = media.make("mp3", seconds=4.0).path.read_bytes(), media.make("flac", seconds=2.0).path
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as silent, open(write_end, "wb"):  # noqa: ASYNC230
        async with Session(decode_threads=1, read_threads=1) as session:
            sources = [*(forever(data[:10_000]) for _ in range(20)), silent]
            readers = [session.open(source, chunk_seconds=3.0) for source in sources]
            tasks = [asyncio.ensure_future(anext(reader)) for reader in readers]
            while live_threads() < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            audios = await asyncio.gather(*(session.load(io.BytesIO(path.read_bytes())) for _ in range(4)))
            assert len({audio.num_samples for audio in audios}) == 1
            assert not any(task.done() for task in tasks)
            await asyncio.gather(*(reader.aclose() for reader in readers))
            await asyncio.gather(*tasks, return_exceptions=True)


_ENDS_WHILE_IT_WAITS = """
import asyncio, sys, aioaudio

async def silent():
    yield open(sys.argv[1], "rb").read()[:30_000]
    await asyncio.Event().wait()

async def main():
    reader = aioaudio.open(silent(), chunk_seconds=0.1)
    await anext(reader)
    tasks = [asyncio.ensure_future(reader.read(1_000_000))]
    await asyncio.sleep(0.05)
    globals().update(reader=reader)
    if sys.argv[2] == "exit":
        sys.exit(3)
    if sys.argv[2] == "raise":
        raise LookupError

try:
    aioaudio.run(main())
except LookupError:
    pass
"""


@pytest.mark.parametrize(("way", "code"), [("return", 0), ("exit", 3), ("raise", 0)])
def test_a_program_ends_while_a_stream_waits(way: str, code: int, media: MediaLibrary) -> None:
    path = media.make("mp3", seconds=4.0).path
    command = [sys.executable, "-W", "ignore", "-c", _ENDS_WHILE_IT_WAITS, str(path), way]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (code, "")
