"""The options of load: what each gives, and how each fails."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from media import MediaLibrary

import aioaudio


async def test_an_audio_is_what_was_asked_for(data: Path) -> None:
    audio = await aioaudio.load(data / "ljspeech.wav", sample_rate=16_000, num_channels=1)
    assert audio.waveform.is_contiguous()
    assert (audio.waveform.dtype, audio.sample_rate, audio.num_channels) == (torch.float32, 16_000, 1)
    assert audio.source.endswith("ljspeech.wav")
    assert audio.damage == ()
    assert audio.verified is None


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
async def test_floats_are_the_rounded_whole(kind: str, dtype: torch.dtype, media: MediaLibrary) -> None:
    path = media.make(kind, channels=2).path
    reference = await aioaudio.load(path)
    audio = await aioaudio.load(path, dtype=dtype)
    assert audio.waveform.dtype == dtype
    assert audio.waveform.to(torch.float32).equal(reference.waveform.to(dtype).to(torch.float32))


@pytest.mark.parametrize(("kind", "sample_format"), [("wav", "u8"), ("wav", "s16"), ("wav", "s24"), ("flac", "s24")])
async def test_integers_are_exact_at_full_scale(kind: str, sample_format: str, media: MediaLibrary) -> None:
    made = media.make(kind, sample_format=sample_format, channels=2)
    assert made.bits is not None
    wide = await aioaudio.load(made.path, dtype=torch.int32)
    assert wide.waveform.equal((made.integers() << (32 - made.bits)).to(torch.int32))
    if made.bits <= 16:
        narrow = await aioaudio.load(made.path, dtype=torch.int16)
        assert narrow.waveform.equal((made.integers() << (16 - made.bits)).to(torch.int16))


async def test_integers_saturate_and_floats_keep_what_is_beyond(tmp_path: Path) -> None:
    import soundfile

    path = tmp_path / "loud.wav"
    soundfile.write(path, [0.0, 0.5, 1.0, 1.5, -1.5, float("nan")], 8_000, subtype="FLOAT")
    floats = (await aioaudio.load(path)).waveform[0]
    assert floats[:5].tolist() == [0.0, 0.5, 1.0, 1.5, -1.5]
    for rate in (None, 8_000):
        int16 = (await aioaudio.load(path, dtype=torch.int16, sample_rate=rate)).waveform[0]
        assert int16.tolist() == [0, 16_384, 32_767, 32_767, -32_768, 0]


@pytest.mark.parametrize("kind", ["wav", "flac", "opus"])
async def test_mono_is_the_mean_and_channels_are_picked(kind: str, media: MediaLibrary) -> None:
    path = media.make(kind, channels=2).path
    stereo = (await aioaudio.load(path)).waveform
    mono = (await aioaudio.load(path, num_channels=1)).waveform
    assert torch.allclose(mono, stereo.mean(dim=0, keepdim=True), atol=1e-7)
    swapped = (await aioaudio.load(path, channels=[1, 0])).waveform
    assert swapped.equal(stereo.flip(0))
    assert (await aioaudio.load(path, num_channels=2)).waveform.equal(stereo)


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3"])
async def test_mono_to_several_channels_is_copies(kind: str, media: MediaLibrary) -> None:
    path = media.make(kind).path
    mono = (await aioaudio.load(path)).waveform
    assert (await aioaudio.load(path, num_channels=3)).waveform.equal(mono.expand(3, -1))


async def test_channels_that_are_not_there_name_the_source(media: MediaLibrary) -> None:
    path = media.make("flac", channels=2).path
    with pytest.raises(ValueError, match=rf"{path.name}.*\b2\b"):
        await aioaudio.load(path, channels=[0, 2])


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "mp2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int16])
async def test_out_is_written_and_returned(kind: str, dtype: torch.dtype, media: MediaLibrary) -> None:
    path = media.make(kind, channels=2).path
    options = {"dtype": dtype, "start_seconds": 0.5, "stop_seconds": 1.0}
    expected = (await aioaudio.load(path, **options)).waveform
    channels, samples = expected.shape
    for out in (
        torch.zeros(channels, samples, dtype=dtype),
        torch.zeros(samples, channels, dtype=dtype).T,
        torch.zeros(channels, 2 * samples, dtype=dtype)[:, ::2],
        torch.zeros(4, channels, samples, dtype=dtype)[2],
    ):
        audio = await aioaudio.load(path, out=out, **options)
        assert audio.waveform is out
        assert out.equal(expected)


async def test_a_wrong_out_fails_before_anything_is_read() -> None:
    missing = "no-such-file.wav"  # any reading would raise SourceNotFound
    good = torch.zeros(1, 10)
    for out, options in (
        (good.int(), {}),
        (good, {"dtype": torch.float16}),
        (torch.zeros(10), {}),
        (good, {"num_channels": 2}),
        (good, {"channels": [0, 1]}),
        (good.clone().requires_grad_(), {}),
        (torch.zeros(1, 1).expand(2, 10), {}),
        (good.to("meta"), {}),
        (good.to_sparse(), {}),
    ):
        with pytest.raises(ValueError, match="out"):
            await aioaudio.load(missing, out=out, **options)
    with pytest.raises(TypeError, match="out"):
        await aioaudio.load(missing, out=good.numpy())


@pytest.mark.parametrize("kind", ["wav", "flac", "mp2"])
async def test_an_out_of_another_length_names_both_shapes(kind: str, media: MediaLibrary) -> None:
    with pytest.raises(ValueError, match=r"\(1, 10\).*\(1, 96\d{3}\)"):
        await aioaudio.load(media.make(kind, sample_rate=48_000).path, out=torch.zeros(1, 10))


@pytest.mark.parametrize(
    "options",
    [
        {"sample_rate": 0},
        {"sample_rate": -1},
        {"sample_rate": 10**9},
        {"sample_rate": 16_000.0},
        {"num_channels": 0},
        {"num_channels": True},
        {"channels": []},
        {"channels": [-1]},
        {"channels": [0], "num_channels": 1},
        {"dtype": torch.int8},
        {"dtype": "float32"},
        {"track": 1.5},
        {"format": 7},
        {"on_damage": "ignore"},
        {"max_seconds": 0},
        {"max_bytes": 0},
        {"timeout": 0},
        {"timeout": "1"},
        {"start_seconds": "1"},
        {"stop_seconds": "1"},
        {"max_seconds": "1"},
        {"channels": 0},
        {"timeout": -1},
        {"start_seconds": -1},
    ],
    ids=str,
)
async def test_a_wrong_option_fails_at_once_and_by_name(options: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(reversed(options))) as caught:
        await aioaudio.load("no-such-file.wav", **options)  # type: ignore[arg-type]
    assert not isinstance(caught.value, aioaudio.AudioError)


async def test_an_unknown_format_says_what_is_allowed(data: Path) -> None:
    with pytest.raises(ValueError, match=r"format.*flac.*hls"):
        await aioaudio.load(data / "ljspeech.wav", format="hls")


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "vorbis", "opus-webm", "mp2"])
@pytest.mark.parametrize("rate", [None, 16_000])
async def test_limits_raise_and_never_cut(kind: str, rate: int | None, media: MediaLibrary) -> None:
    path = media.make(kind, seconds=2.0).path
    size = path.stat().st_size
    with pytest.raises(aioaudio.LimitError, match="max_seconds"):
        await aioaudio.load(path, sample_rate=rate, max_seconds=1.9)
    with pytest.raises(aioaudio.LimitError, match="max_bytes"):
        await aioaudio.load(path, sample_rate=rate, max_bytes=size - 1)
    whole = await aioaudio.load(path, sample_rate=rate, max_seconds=2.2, max_bytes=size)
    assert whole.duration_seconds == pytest.approx(2.0, abs=0.1)
    part = await aioaudio.load(path, sample_rate=rate, start_seconds=0.5, stop_seconds=1.0, max_seconds=1.0)
    assert part.duration_seconds == pytest.approx(0.5)


async def test_raw_pcm_is_read_as_told(media: MediaLibrary) -> None:
    made = media.make("wav", channels=2, sample_rate=44_100)
    data = (made.integers().T.to(torch.int16)).contiguous().numpy().tobytes()
    raw = aioaudio.RawPCM("s16le", 44_100, 2)
    for options in ({}, {"sample_rate": 16_000}, {"start_seconds": 0.3, "stop_seconds": 0.9}):
        expected = await aioaudio.load(made.path, **options)
        audio = await aioaudio.load(data, format=raw, **options)
        assert audio.waveform.equal(expected.waveform)
    info = await aioaudio.info(data, format=raw)
    assert (info.num_samples, info.sample_rate, info.num_channels) == (made.num_samples, 44_100, 2)
    with pytest.raises(aioaudio.DamagedAudioError, match="truncated"):
        await aioaudio.load(data + b"x", format=raw)


async def test_a_format_can_be_forced(data: Path) -> None:
    by_name = await aioaudio.load(data / "jfk.mp3", format="mp3")
    assert by_name.num_channels == (await aioaudio.load(data / "jfk.mp3")).num_channels
    with pytest.raises(aioaudio.CorruptAudioError):
        await aioaudio.load(data / "jfk.mp3", format="wav")


async def test_a_clip_brings_its_range(data: Path) -> None:
    path = data / "ljspeech.flac"
    clip = aioaudio.Clip(path, 1.0, 2.0, fields={"text": "x"})
    expected = await aioaudio.load(path, start_seconds=1.0, stop_seconds=2.0)
    assert (await aioaudio.load(clip)).waveform.equal(expected.waveform)
    with pytest.raises(ValueError, match="Clip"):
        await aioaudio.load(clip, start_seconds=0.5)


async def test_a_failing_file_hurts_none_of_its_group(media: MediaLibrary, tmp_path: Path, data: Path) -> None:
    good = [media.make("flac", seed=seed).path for seed in range(4)] + [media.make("mp3", seed=1).path]
    expected = [await aioaudio.load(path) for path in good]
    cut = tmp_path / "cut.flac"
    cut.write_bytes(good[0].read_bytes()[:-3000])
    noise = tmp_path / "noise.mp3"
    noise.write_bytes(bytes(range(256)) * 40)
    bad = [cut, noise, tmp_path / "missing.flac", tmp_path, data / "README.md"]
    for _ in range(4):
        order = [*good[:2], *bad[:2], *good[2:4], *bad[2:], good[4]]
        results = await asyncio.gather(*(aioaudio.load(path) for path in order), return_exceptions=True)
        by_path = dict(zip(order, results, strict=True))
        for path, audio in zip(good, expected, strict=True):
            result = by_path[path]
            assert isinstance(result, aioaudio.Audio)
            assert result.waveform.equal(audio.waveform)
        kinds = [type(by_path[path]) for path in bad]
        assert kinds == [
            aioaudio.DamagedAudioError,
            aioaudio.CorruptAudioError,
            aioaudio.SourceNotFound,
            aioaudio.FetchError,
            aioaudio.CorruptAudioError,
        ]
        for path in bad:
            assert str(path) in str(by_path[path])


async def test_a_cancelled_load_leaves_nothing_and_the_next_is_right(media: MediaLibrary) -> None:
    path = media.make("flac", seconds=20.0, channels=2).path
    expected = (await aioaudio.load(path)).waveform
    for steps in range(12):
        task = asyncio.create_task(aioaudio.load(path))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert (await aioaudio.load(path)).waveform.equal(expected)


async def test_a_cancelled_load_into_out_waits_until_nobody_writes(media: MediaLibrary) -> None:
    made = media.make("flac", seconds=20.0, channels=2, sample_rate=48_000)
    out = torch.zeros(2, made.num_samples)
    task = asyncio.create_task(aioaudio.load(made.path, out=out))
    for _ in range(4):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    seen = out.clone()
    await aioaudio.load(made.path)
    assert out.equal(seen)


async def test_a_source_that_stalls_times_out(data: Path) -> None:
    start = (data / "ljspeech.flac").read_bytes()[:5000]

    async def stalling() -> AsyncIterator[bytes]:
        yield start
        await asyncio.Event().wait()

    with pytest.raises(aioaudio.AudioTimeout, match="stalling"):
        await aioaudio.load(stalling(), timeout=0.05)


async def test_a_source_of_nothing_without_end_times_out() -> None:
    async def nothing() -> AsyncIterator[bytes]:
        while True:
            yield b""

    with pytest.raises(aioaudio.AudioTimeout, match="nothing"):
        await aioaudio.load(nothing(), timeout=0.05)


async def test_decoding_that_takes_too_long_times_out(media: MediaLibrary) -> None:
    path = media.make("mp2", seconds=60.0).path
    with pytest.raises(aioaudio.AudioTimeout, match=path.name):
        await aioaudio.load(path, timeout=1e-4)


async def test_a_session_has_threads_of_its_own_and_closes(data: Path) -> None:
    async with aioaudio.Session(read_threads=2, decode_threads=1) as session:
        audio = await session.load(data / "ljspeech.flac")
        assert audio.waveform.equal((await aioaudio.load(data / "ljspeech.flac")).waveform)
        assert session.workers.decode_threads == 1
    await session.aclose()
    for operation in (session.load, session.info, session.fetch):
        with pytest.raises(aioaudio.ClosedError):
            await operation(data / "ljspeech.flac")


async def test_aclose_ends_a_read_that_would_go_on() -> None:
    """The file-like sees no end, and no more than one further read is made of it."""

    class Endless(io.RawIOBase):
        num_reads = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            self.num_reads += 1
            buffer[:] = bytes(len(buffer))
            started.set()
            return len(buffer)

    started, endless = threading.Event(), Endless()
    session = aioaudio.Session(decode_threads=1)
    task = asyncio.create_task(session.fetch(endless))
    await asyncio.to_thread(started.wait)
    await session.aclose()
    with pytest.raises(aioaudio.ClosedError):
        await task
    num_reads = endless.num_reads
    await asyncio.sleep(0)
    assert endless.num_reads == num_reads


async def test_a_session_that_is_dropped_warns(data: Path) -> None:
    sessions = [aioaudio.Session(decode_threads=1)]
    await sessions[0].load(data / "ljspeech.wav")
    with pytest.warns(ResourceWarning, match="unclosed"):
        sessions.clear()
    gc.collect()


async def test_the_default_session_comes_back_after_aclose(data: Path) -> None:
    before = await aioaudio.load(data / "jfk.opus")
    await aioaudio.aclose()
    await aioaudio.aclose()
    after = await aioaudio.load(before.source)
    assert after.waveform.equal(before.waveform)


def test_sync_gives_what_the_coroutines_give(data: Path) -> None:
    path = data / "jfk.mp3"
    audio = aioaudio.sync.load(path, sample_rate=16_000)
    encoded = aioaudio.sync.fetch(path)
    assert aioaudio.sync.decode(encoded, sample_rate=16_000).waveform.equal(audio.waveform)
    assert aioaudio.sync.info(path) == asyncio.run(aioaudio.info(path))
    with pytest.raises(FileNotFoundError):
        aioaudio.sync.load("no-such-file.wav")


async def test_sync_works_beside_a_running_loop(data: Path) -> None:
    audio = aioaudio.sync.load(data / "jfk.opus")
    assert audio.waveform.equal((await aioaudio.load(data / "jfk.opus")).waveform)


async def test_a_clip_comes_back_with_its_audio(data: Path) -> None:
    clip = aioaudio.Clip(data / "jfk.flac", 0.5, 1.0, fields={"text": "ask not"})
    assert (await aioaudio.load(clip)).clip is clip
    assert (await aioaudio.load(data / "jfk.flac")).clip is None
