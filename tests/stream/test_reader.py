"""A stream gives the samples of a load, in chunks, from any place on, whatever becomes of those who wait for them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media import KINDS, MediaLibrary

import aioaudio

# The noise of AAC is random: of it, only lengths and places are the same twice.
EXACT = sorted(set(KINDS) - {"aac", "adts"})

RANGES: list[dict[str, Any]] = [{}, {"start_seconds": 0.31}, {"start_seconds": 0.7, "stop_seconds": 1.3}]
WAYS: list[dict[str, Any]] = [
    {},
    {"sample_rate": 16_000, "num_channels": 1},
    {"sample_rate": 44_100, "dtype": torch.int16},
    {"channels": [1, 0, 1], "dtype": torch.bfloat16},
    {"dtype": torch.int32},
    {"verify": True},
]


def joined(chunks: list[aioaudio.Audio]) -> torch.Tensor:
    return torch.cat([chunk.waveform for chunk in chunks], dim=1)


def chunks_of(source: Any, seconds: float, **options: Any) -> list[aioaudio.Audio]:
    with aioaudio.sync.open(source, chunk_seconds=seconds, **options) as reader:
        return list(reader)


def assert_chunks(chunks: list[aioaudio.Audio], whole: aioaudio.Audio, seconds: float, *, exact: bool = True) -> None:
    """Fail unless `chunks` are all of `whole`, each of `seconds`, but for the last one."""
    length = max(1, int(seconds * whole.sample_rate + 0.5))
    assert all(chunk.num_samples == length for chunk in chunks[:-1])
    assert joined(chunks).shape == whole.waveform.shape
    if exact:
        assert joined(chunks).equal(whole.waveform)
    start = round(whole.start_seconds * whole.sample_rate)
    assert [chunk.start_seconds for chunk in chunks] == [
        (start + i * length) / whole.sample_rate for i in range(len(chunks))
    ]
    assert [damage for chunk in chunks for damage in chunk.damage] == [*whole.damage]
    assert chunks[-1].verified == whole.verified


@given(
    kind=st.sampled_from(sorted(KINDS)),
    seconds=st.sampled_from([0.02, 0.1, 0.33]) | st.floats(0.01, 4.0),
    span=st.sampled_from(RANGES),
    way=st.sampled_from(WAYS),
    as_bytes=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_joined_chunks_are_what_load_gives(
    kind: str, seconds: float, span: dict[str, Any], way: dict[str, Any], as_bytes: bool, media: MediaLibrary
) -> None:
    path = media.make(kind, seconds=1.5, channels=2).path
    source = path.read_bytes() if as_bytes else path
    whole = aioaudio.sync.load(source, **span, **way)
    assert_chunks(chunks_of(source, seconds, **span, **way), whole, seconds, exact=kind in EXACT)


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "vorbis", "opus", "wavpack", "caf"])
@pytest.mark.parametrize("num_samples", [1, 50, 300, 1000])
def test_short_clips_keep_their_length(kind: str, num_samples: int, media: MediaLibrary) -> None:
    path = media.make(kind, num_samples=num_samples).path
    for options in ({}, {"sample_rate": 16_000}):
        whole = aioaudio.sync.load(path, **options)
        assert_chunks(chunks_of(path, 0.002, **options), whole, 0.002)


@pytest.mark.parametrize("kind", ["flac", "wavpack", "mp3", "vorbis"])
@pytest.mark.parametrize("options", [{}, {"sample_rate": 16_000, "num_channels": 1}])
def test_joined_files_play_through(kind: str, options: dict[str, Any], media: MediaLibrary) -> None:
    """Also where they differ in rate and channels."""
    first, second = media.make(kind, seconds=1.0), media.make(kind, seconds=1.3, sample_rate=32_000, channels=2)
    source = first.path.read_bytes() + second.path.read_bytes() + first.path.read_bytes()
    whole = aioaudio.sync.load(source, on_damage="conceal", **options)
    assert_chunks(chunks_of(source, 0.25, on_damage="conceal", **options), whole, 0.25)


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("name", ["jfk.mp3", "jfk.opus", "jfk.flac", "jfk.m4a", "ljspeech.ogg", "ljspeech.wav"])
async def test_after_a_seek_the_samples_are_those_of_a_load(name: str, data: Path) -> None:
    places = [4.0, 0.0, 2.6321, 0.5, 0.75, 4.999, 100.0, 1.25]
    async with aioaudio.open(data / name, sample_rate=16_000) as reader:
        for place in places:
            await reader.seek(place)
            assert reader.tell() == pytest.approx(place, abs=1 / 32_000)
            audio = await reader.read(4_000)
            expected = await aioaudio.load(
                data / name, sample_rate=16_000, start_seconds=place, stop_seconds=place + 0.25
            )
            if name == "jfk.m4a":
                assert audio.waveform.shape == expected.waveform.shape
            else:
                assert audio.waveform.equal(expected.waveform)
            assert reader.tell() == audio.start_seconds + audio.duration_seconds


async def test_a_seek_far_ahead_does_not_decode_what_lies_between(media: MediaLibrary) -> None:
    made = media.make("flac", seconds=60.0, sample_rate=16_000)
    async with aioaudio.open(made.path, chunk_seconds=0.5) as reader:
        for seconds in (55.0, 3.0, 40.0):
            await reader.seek(seconds)
            start = int(seconds * 16_000)
            assert (await anext(reader)).waveform.equal(made.samples[:, start : start + 8_000].float())


async def test_reading_and_iterating_go_on_from_one_another(media: MediaLibrary) -> None:
    made = media.make("flac", seconds=2.0, sample_rate=16_000)
    async with aioaudio.open(made.path, chunk_seconds=0.25) as reader:
        assert reader.tell() == 0
        parts = [await reader.read(1), await anext(reader), await reader.read(5_000)]
        parts += [chunk async for chunk in reader]
        assert joined(parts).equal(made.samples.float())
        assert (await reader.read(10)).num_samples == 0
        await reader.seek(0.0)
        assert joined([chunk async for chunk in reader]).equal(made.samples.float())


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("hop", [0.1, 0.25, 0.3, 0.9])
async def test_chunks_begin_at_every_hop(hop: float, media: MediaLibrary) -> None:
    """They overlap, or leave something out; the last one is the first that has the end."""
    made = media.make("flac", seconds=2.0, sample_rate=16_000)
    chunks = []
    async with aioaudio.open(made.path, chunk_seconds=0.25, hop_seconds=hop) as reader:
        async for chunk in reader:
            chunks.append(chunk)
            chunk.waveform.mul(0)  # which is the consumer's own
    for i, chunk in enumerate(chunks):
        start = i * round(hop * 16_000)
        assert chunk.waveform.equal(made.samples[:, start : start + 4_000].float())
    ends = [round(chunk.start_seconds * 16_000) + chunk.num_samples for chunk in chunks]
    assert ends.count(32_000) <= 1
    assert hop > 0.25 or ends[-1] == 32_000


async def test_chunks_are_memory_of_their_own(media: MediaLibrary) -> None:
    made = media.make("wav", seconds=1.0)
    async with aioaudio.open(made.path, chunk_seconds=0.25, hop_seconds=0.125) as reader:
        async for chunk in reader:
            start = round(chunk.start_seconds * 48_000)
            assert chunk.waveform.equal(made.samples[:, start : start + chunk.num_samples].float())
            chunk.waveform.zero_()


def test_damage_is_raised_in_its_place_after_what_comes_before(media: MediaLibrary) -> None:
    data = bytearray(media.make("mp3", seconds=4.0).path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2_000] = bytes(2_000)
    whole = aioaudio.sync.load(bytes(data), on_damage="conceal")
    (damage, *_) = whole.damage
    chunks = []
    with (
        pytest.raises(aioaudio.DamagedAudioError) as caught,
        aioaudio.sync.open(bytes(data), chunk_seconds=0.5) as all_,
    ):
        chunks.extend(all_)
    assert damage in caught.value.damage
    assert caught.value.audio is not None
    start = caught.value.audio.start_seconds
    assert damage.at_seconds is not None
    assert start <= damage.at_seconds < start + 0.5
    given = joined([*chunks, caught.value.audio])
    assert given.equal(whole.waveform[:, : given.shape[1]])
    assert_chunks(chunks_of(bytes(data), 0.5, on_damage="conceal"), whole, 0.5)


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "opus", "wavpack"])
def test_a_missing_end_is_told_with_the_last_chunk(kind: str, media: MediaLibrary) -> None:
    data = media.make(kind, seconds=2.0).path.read_bytes()
    data = data[: len(data) * 2 // 3]
    whole = aioaudio.sync.load(data, on_damage="conceal")
    for seconds in (0.3, whole.num_samples / 48_000):  # the end of a chunk may be the end of all
        chunks = chunks_of(data, seconds, on_damage="conceal")
        assert joined(chunks).equal(whole.waveform)
        assert [damage.kind for damage in chunks[-1].damage] == [damage.kind for damage in whole.damage]
        with pytest.raises(aioaudio.DamagedAudioError):
            chunks_of(data, seconds)


async def test_cancelling_loses_no_sample(media: MediaLibrary) -> None:
    """Whatever the await that is cancelled waits for."""
    path = media.make("mp3", seconds=3.0).path
    whole, rng, chunks = await aioaudio.load(path, sample_rate=16_000), random.Random(0), []
    async with aioaudio.open(path, chunk_seconds=0.05, sample_rate=16_000) as reader:
        while True:
            task = asyncio.ensure_future(reader.read(800))
            for _ in range(rng.randrange(30)):
                await asyncio.sleep(0)
            if rng.random() < 0.7:
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                chunks.append(task.result())
                if chunks[-1].num_samples < 800:
                    break
    assert joined(chunks).equal(whole.waveform)


async def test_several_tasks_share_a_stream(media: MediaLibrary) -> None:
    made = media.make("flac", seconds=2.0, sample_rate=16_000)
    chunks: list[aioaudio.Audio] = []

    async def consume(reader: aioaudio.AudioReader) -> None:
        async for chunk in reader:
            chunks.append(chunk)  # noqa: PERF401

    async with aioaudio.open(made.path, chunk_seconds=0.05) as reader:
        await asyncio.gather(*(consume(reader) for _ in range(4)))
    assert joined(sorted(chunks, key=lambda chunk: chunk.start_seconds)).equal(made.samples.float())


async def test_a_clip_is_a_source(media: MediaLibrary) -> None:
    made = media.make("flac", seconds=2.0)
    clip = aioaudio.Clip(made.path, 0.5, 1.25, fields={"text": "hello"})
    async with aioaudio.open(clip, chunk_seconds=0.3) as reader:
        chunks = [chunk async for chunk in reader]
    assert joined(chunks).equal(made.samples[:, 24_000:60_000].float())
    assert all(chunk.clip is clip for chunk in chunks)
    with pytest.raises(ValueError, match="Clip"):
        aioaudio.open(clip, start_seconds=1.0)


async def test_info_is_that_of_the_source(data: Path) -> None:
    async with aioaudio.open(data / "jfk.mp3", sample_rate=16_000) as reader:
        assert await reader.info() == await aioaudio.info(data / "jfk.mp3")


async def test_errors_come_when_samples_are_asked_for(tmp_path: Path, media: MediaLibrary) -> None:
    failing: list[tuple[type[Exception], Any, dict[str, Any]]] = [
        (aioaudio.SourceNotFound, tmp_path / "missing.wav", {}),
        (aioaudio.CorruptAudioError, b"", {}),
        (aioaudio.UnsupportedAudioError, b"ffconcat version 1.0\nfile a.wav\n", {}),
        (aioaudio.LimitError, media.make("wav").path, {"max_seconds": 0.5}),
        (aioaudio.LimitError, media.make("adts").path, {"max_seconds": 0.5}),
        (aioaudio.LimitError, media.make("mp3").path, {"max_bytes": 100}),
        (ValueError, media.make("mp3").path, {"channels": [5]}),
    ]
    for expected, source, options in failing:
        reader = aioaudio.open(source, **options)
        with pytest.raises(expected):
            async for _ in reader:
                pass
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        with pytest.raises(aioaudio.ClosedError):
            await reader.read(1)


@pytest.mark.parametrize(
    "options",
    [{"chunk_seconds": 0}, {"chunk_seconds": float("nan")}, {"hop_seconds": -1.0}, {"timeout": 0}, {"dtype": "x"}],
)
def test_a_wrong_option_fails_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        aioaudio.open("missing.wav", **options)


async def test_a_blocking_reader_beside_a_running_loop(media: MediaLibrary) -> None:
    made = media.make("flac", seconds=1.0)
    with aioaudio.sync.open(made.path, chunk_seconds=0.3) as reader:
        first = reader.read(100)
        reader.seek(first.duration_seconds)
        assert reader.tell() == first.duration_seconds
        assert joined([first, *reader]).equal(made.samples.float())
        assert reader.info().num_samples == made.num_samples
