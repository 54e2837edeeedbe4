"""A fast path is never a different algorithm: all engines, and all kinds of source, give the same samples."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiofiles
import pytest
import torch
from media import KINDS, MediaLibrary

import aioaudio
from aioaudio.decode import group
from aioaudio.decode.graph import decode_members
from aioaudio.decode.job import DecodeJob
from aioaudio.decode.prepare import Piece, Task, prepare
from aioaudio.decode.result import Result, audio_of
from aioaudio.encoded import LocalFile
from aioaudio.options import LoadOptions
from aioaudio.workers import Stop

# What FFmpeg's graph fails on from the first frame on, and so only the frame engine serves.
FRAMES_ONLY = {"mp2", "tta"}

OPTIONS: dict[str, dict[str, Any]] = {
    "as-is": {},
    "float64": dict(dtype=torch.float64),
    "int16": dict(dtype=torch.int16),
    "mono": dict(num_channels=1),
    "picked": dict(channels=(1, 0)),
    "resampled": dict(sample_rate=16_000),
    "resampled-mono-range": dict(sample_rate=32_000, num_channels=1, start_seconds=0.7, stop_seconds=1.9),
    "range": dict(start_seconds=0.4, stop_seconds=1.5),
}


def by_engine(path: Path, options: LoadOptions, engine: str) -> torch.Tensor:
    with contextlib.ExitStack() as files:
        task = prepare(DecodeJob(LocalFile(path), options), Stop(), files)
        task = replace(task, pieces=(Piece(str(path), task.facts),))
        result = {"frames": group._decode_frames, "graph": _by_graph, "wav": group._decode_pcm}[engine](task)
        return audio_of(task, result).waveform


def _by_graph(task: Task) -> Result:
    (outcome,) = decode_members([group.member_of(task)], [task.stop])
    assert outcome.clean
    return Result(task.plan.sample_rate, outcome.blocks)


@pytest.mark.parametrize("way", OPTIONS)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - FRAMES_ONLY))
def test_graph_equals_frames(kind: str, way: str, media: MediaLibrary) -> None:
    made = media.make(kind, seconds=2.0, sample_rate=48_000, channels=2)
    options = LoadOptions(**OPTIONS[way])
    graph, frames = (by_engine(made.path, options, engine) for engine in ("graph", "frames"))
    assert graph.dtype == frames.dtype
    assert graph.shape == frames.shape
    # The order of a sum over channels is FFmpeg's in one and torch's in the other.
    tolerance = 1e-6 if graph.dtype.is_floating_point else 1
    if KINDS[kind].encoders[next(iter(KINDS[kind].encoders))][0] != "aac":  # its noise bands are random
        assert (graph.double() - frames.double()).abs().max() <= tolerance


@pytest.mark.parametrize("way", ["as-is", "float64", "int16", "mono", "picked", "range"])
@pytest.mark.parametrize("sample_format", ["u8", "s16", "s24", "s32", "f32", "f64"])
@pytest.mark.parametrize("kind", ["wav", "rf64", "w64", "aiff"])
def test_wav_equals_graph_and_frames(kind: str, sample_format: str, way: str, media: MediaLibrary) -> None:
    if sample_format not in KINDS[kind].encoders:
        pytest.skip("no such file is made")
    made = media.make(kind, seconds=2.0, channels=2, sample_format=sample_format)
    options = LoadOptions(**OPTIONS[way])
    wav, graph, frames = (by_engine(made.path, options, engine) for engine in ("wav", "graph", "frames"))
    if way == "mono":
        assert (wav - graph).abs().max() <= 1e-7
        assert (wav - frames).abs().max() <= 1e-7
    else:
        assert wav.equal(graph)
        assert wav.equal(frames)


class AsyncFile:
    """An upload: `read` is a coroutine, and gives at most so much at a time."""

    def __init__(self, data: bytes, at_most: int) -> None:
        self._file, self._at_most = io.BytesIO(data), at_most

    async def read(self, size: int = -1) -> bytes:
        await asyncio.sleep(0)
        return self._file.read(self._at_most if size < 0 else min(size, self._at_most))


async def chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        await asyncio.sleep(0)
        yield data[start : start + size]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("way", ["as-is", "resampled-mono-range"])
async def test_every_kind_of_source_gives_the_same_samples(kind: str, way: str, media: MediaLibrary) -> None:
    path = media.make(kind, seconds=2.0, channels=2).path
    data, options = path.read_bytes(), OPTIONS[way]
    expected = await aioaudio.load(path, **options)
    with path.open("rb") as file, path.open("rb", buffering=0) as unbuffered:
        async with aiofiles.open(path, "rb") as async_file:
            sources: dict[str, Any] = {
                "str": str(path),
                "bytes": data,
                "bytearray": bytearray(data),
                "memoryview": memoryview(data),
                "tensor": torch.frombuffer(bytearray(data), dtype=torch.uint8),
                "file": file,
                "unbuffered": unbuffered,
                "BytesIO": io.BytesIO(data),
                "aiofiles": async_file,
                "upload": AsyncFile(data, 10_000),
                "iterator": chunks(data, 4_096),
                "Encoded": await aioaudio.fetch(path),
            }
            if "start_seconds" not in options:
                sources["Clip"] = aioaudio.Clip(path)
            for name, source in sources.items():
                audio = await aioaudio.load(source, **options)
                assert audio.sample_rate == expected.sample_rate, name
                if "aac" not in kind and kind != "adts":  # its noise bands are random
                    assert audio.waveform.equal(expected.waveform), name
                else:
                    assert audio.waveform.shape == expected.waveform.shape, name


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_a_counted_length_is_that_of_load(kind: str, media: MediaLibrary) -> None:
    path = media.make(kind, seconds=2.3, sample_rate=48_000).path
    info, audio = await aioaudio.info(path, exact=True), await aioaudio.load(path)
    assert info.num_samples == audio.num_samples
    assert info.duration_from == "count"
    assert (info.sample_rate, info.num_channels) == (audio.sample_rate, audio.num_channels)
    told = await aioaudio.info(path)
    if told.num_samples is not None:
        assert told.num_samples == audio.num_samples


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "opus"])
async def test_one_encoded_is_decoded_by_eight_tasks_at_once(kind: str, media: MediaLibrary) -> None:
    path = media.make(kind, seconds=3.0).path
    encoded = await aioaudio.fetch(path)
    results = await asyncio.gather(*(aioaudio.decode(encoded) for _ in range(8)))
    expected = await aioaudio.load(path)
    assert all(audio.waveform.equal(expected.waveform) for audio in results)
    assert await asyncio.to_thread(bytes, encoded) == path.read_bytes()


async def test_members_of_a_group_get_their_own_samples(media: MediaLibrary) -> None:
    """Many at once, of all kinds, rates and channels, give what each gives alone."""
    made = [
        media.make(kind, seconds=0.5 + seed / 10, sample_rate=rate, channels=channels, seed=seed)
        for seed, (kind, rate, channels) in enumerate(
            (kind, rate, channels)
            for kind in ("wav", "flac", "mp3", "vorbis")
            for rate in (16_000, 44_100)
            for channels in (1, 2)
        )
    ]
    alone = [await aioaudio.load(clip.path, sample_rate=24_000) for clip in made]
    together = await asyncio.gather(*(aioaudio.load(clip.path, sample_rate=24_000) for clip in made * 3))
    for i, audio in enumerate(together):
        assert audio.waveform.equal(alone[i % len(made)].waveform)


@pytest.mark.parametrize(("kind", "channels"), [("opus", 8), ("vorbis", 9), ("vorbis", 16)])
async def test_many_planar_channels_are_all_there(kind: str, channels: int, media: MediaLibrary) -> None:
    made = media.make(kind, seconds=2.0, channels=channels)
    waveform = (await aioaudio.load(made.path, verify=True)).waveform
    assert waveform.shape == made.samples.shape
    error = (waveform - made.samples).square().mean(dim=1)
    assert (error < 0.2 * made.samples.square().mean(dim=1)).all()
