"""What arrives on a device is what the CPU makes: to the bit, or within a tolerance where the device resamples.

The device is the CPU, by the same code as any other but for the calls of CUDA.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from media import DATA, MediaLibrary
from waiting import until

import aioaudio
from aioaudio import Batch, Clip, RawPCM, Session
from aioaudio.device import PlainTransfer

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

# Of full scale: what documentation promises where the device resamples.
TOLERANCE = 2e-6

SPEECH = [DATA / name for name in ("jfk.flac", "ljspeech.wav", "jfk.mp3", "jfk.opus", "ljspeech.ogg")]

HALVES = [torch.float16, torch.bfloat16]


@pytest.fixture
async def session() -> Any:
    async with Session(decode_threads=2) as session:
        yield session


@pytest.fixture
def crossed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all buffers that cross."""
    sizes: list[int] = []
    host_memory = PlainTransfer.host_memory

    def counted(transfer: PlainTransfer, num_bytes: int) -> torch.Tensor:
        sizes.append(num_bytes)
        return host_memory(transfer, num_bytes)

    monkeypatch.setattr(PlainTransfer, "host_memory", counted)
    return sizes


@pytest.fixture(scope="module")
def sources(media: MediaLibrary, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Clips that cross in one way or another, by what they are."""
    kinds = ["wav", "flac", "alac", "wavpack", "aiff"]
    sixteen = [media.make(kind, num_samples=700 + 333 * i, sample_rate=8_000).path for i, kind in enumerate(kinds)]
    wide = [media.make("wav", sample_format=name, num_samples=900, sample_rate=8_000).path for name in ("s24", "f32")]
    eight = [media.make("wav", sample_format="u8", num_samples=901, sample_rate=8_000).path]
    lossy = [media.make(kind, num_samples=4_000, sample_rate=8_000).path for kind in ("mp3", "vorbis")]
    codes = [np.random.default_rng(i).integers(0, 256, 600 + i, np.uint8).tobytes() for i in range(3)]
    folder = tmp_path_factory.mktemp("g711")
    laws = {}
    for law in ("alaw", "mulaw"):
        laws[law] = [write_g711(folder / f"{law}-{i}.wav", law, one) for i, one in enumerate(codes)]
    return {
        "16 bits": [*sixteen, *eight],
        "floats": [*lossy, *wide],
        "all kinds": [*sixteen, *wide, *lossy, *laws["alaw"], *laws["mulaw"]],
        **laws,
    }


def write_g711(path: Path, law: str, codes: bytes) -> Path:
    """A WAV file of G.711."""
    tag, rate = {"alaw": 6, "mulaw": 7}[law], 8_000
    parts = [(b"fmt ", np.array([tag, 1, rate, 0, rate, 0, 1, 8], "<u2").tobytes()), (b"data", codes)]
    body = b"".join(name + len(data).to_bytes(4, "little") + data + b"\0" * (len(data) % 2) for name, data in parts)
    path.write_bytes(b"RIFF" + (4 + len(body)).to_bytes(4, "little") + b"WAVE" + body)
    return path


def rows(batch: Batch) -> list[torch.Tensor]:
    waveforms = batch.waveforms
    if isinstance(waveforms, torch.Tensor) and waveforms.is_nested:
        return list(waveforms.unbind())
    return list(waveforms)


async def collect(clips: Any, session: Session, **options: Any) -> list[Batch]:
    async with session.batches(clips, batch_size=4, **options) as batches:
        return [batch async for batch in batches]


async def assert_alike(
    clips: Any, session: Session, there: dict[str, Any], tolerance: float = 0, **options: Any
) -> None:
    here = await collect(clips, session, **options)
    others = await collect(clips, session, device="cpu", **there, **options)
    assert len(here) == len(others)
    for one, other in zip(here, others, strict=True):
        assert one.lengths.equal(other.lengths)
        assert (one.sample_rate, one.clips, one.start_seconds) == (other.sample_rate, other.clips, other.start_seconds)
        for row, twin in zip(rows(one), rows(other), strict=True):
            assert (row.shape, row.dtype) == (twin.shape, twin.dtype)
            if tolerance:
                assert (row.double() - twin.double()).abs().max() <= tolerance
            else:
                assert row.equal(twin)


@pytest.mark.parametrize("collate", ["padded", "jagged", "list"])
@pytest.mark.parametrize("kind", ["16 bits", "floats", "alaw", "mulaw", "all kinds"])
async def test_a_device_gets_to_the_bit_what_the_cpu_makes(
    sources: dict[str, list[Any]], session: Session, kind: str, collate: Any
) -> None:
    for dtype in (torch.float32, *HALVES, torch.float64, torch.int16, torch.int32):
        await assert_alike(sources[kind], session, {}, collate=collate, dtype=dtype)
    await assert_alike(sources[kind], session, {}, collate=collate, crop_seconds=0.1, crop_short="repeat")
    await assert_alike(sources[kind], session, {"resample_on": "device"}, collate=collate, sample_rate=8_000)


async def test_halves_are_rounded_floats(sources: dict[str, list[Any]], session: Session) -> None:
    for kind in ("16 bits", "floats", "mulaw"):
        floats = await collect(sources[kind], session, device="cpu")
        for dtype in HALVES:
            halves = await collect(sources[kind], session, device="cpu", dtype=dtype)
            for one, other in zip(floats, halves, strict=True):
                assert one.waveforms.to(dtype).equal(other.waveforms)  # type: ignore[union-attr]


@pytest.mark.parametrize(("kind", "num_bytes"), [("16 bits", 2), ("alaw", 1), ("mulaw", 1), ("floats", 4)])
async def test_samples_cross_as_small_as_they_are_stored(
    sources: dict[str, list[Any]], session: Session, crossed: list[int], kind: str, num_bytes: int
) -> None:
    clips = [Clip(source, stop_seconds=0.075) for source in sources[kind]]
    batches = await collect(clips, session, device="cpu", collate="list")
    assert len(crossed) == len(batches)
    lengths = [int(batch.lengths.sum()) for batch in batches]
    for size, num_samples in zip(sorted(crossed), sorted(lengths), strict=True):  # several threads send them
        assert num_samples * num_bytes <= size <= num_samples * num_bytes + 5 * 512


async def test_mixing_makes_floats_of_integers_and_picking_does_not(
    media: MediaLibrary, session: Session, crossed: list[int]
) -> None:
    stereo = media.make("flac", channels=2, num_samples=4_000, sample_rate=8_000)
    await assert_alike([stereo.path], session, {}, channels=[1, 0, 1])
    await assert_alike([stereo.path], session, {}, num_channels=1)
    picked, mixed = crossed
    assert 3 * 4_000 * 2 <= picked < 3 * 4_000 * 2 + 2_048
    assert 4_000 * 4 <= mixed < 4_000 * 4 + 2_048


@pytest.mark.parametrize("law", ["alaw", "mulaw"])
async def test_g711_is_expanded_as_ffmpeg_does(session: Session, law: str) -> None:
    codes = bytes(range(256))
    decoder = av.CodecContext.create(f"pcm_{law}", "r")
    decoder.sample_rate, decoder.layout = 8_000, "mono"  # type: ignore[attr-defined]
    [frame] = decoder.decode(av.Packet(codes))  # type: ignore[attr-defined]
    audio = await session.load(codes, format=RawPCM(law, 8_000), device="cpu", dtype=torch.int16)
    assert audio.waveform.numpy().tolist() == frame.to_ndarray().tolist()
    audio = await session.load(codes, format=RawPCM(law, 8_000), device="cpu")
    assert (audio.waveform * 32_768).numpy().tolist() == frame.to_ndarray().tolist()


@pytest.mark.parametrize("collate", ["padded", "jagged", "list"])
async def test_speech_is_resampled_there_as_here(session: Session, collate: Any) -> None:
    there, common = {"resample_on": "device"}, {"sample_rate": 16_000, "num_channels": 1, "collate": collate}
    await assert_alike(SPEECH, session, there, TOLERANCE, **common)
    for short in ("keep", "repeat", "pad"):
        await assert_alike(SPEECH, session, there, TOLERANCE, crop_seconds=7.0, crop_short=short, **common)


async def test_ranges_integers_and_short_clips_are_resampled_there_as_here(
    media: MediaLibrary, sources: dict[str, list[Any]], session: Session
) -> None:
    there = {"resample_on": "device"}
    ranges = [Clip(source, start, start + 0.5) for source in SPEECH for start in (0.01, 1.2345, 4.9)]
    await assert_alike(ranges, session, there, TOLERANCE, sample_rate=22_050, num_channels=1, pad_to_multiple=100)
    short = [media.make("wav", num_samples=n, sample_rate=44_100).path for n in (1, 50, 181, 600)]
    await assert_alike([Clip(short[0], 7.0), *short], session, there, TOLERANCE, sample_rate=16_000)
    await assert_alike(sources["all kinds"], session, there, TOLERANCE, sample_rate=16_000)
    await assert_alike(sources["alaw"], session, there, TOLERANCE, sample_rate=11_025)
    await assert_alike(SPEECH[:2], session, there, 1, sample_rate=16_000, num_channels=1, dtype=torch.int16)
    # More phases than swresample keeps filters for: the CPU does it.
    await assert_alike(SPEECH[:2], session, there, sample_rate=16_001, num_channels=1)


async def test_limits_hold_for_what_is_resampled_there(session: Session, tmp_path: Path) -> None:
    options = {"device": "cpu", "resample_on": "device", "sample_rate": 16_000}
    audio = await session.load(DATA / "jfk.mp3", start_seconds=2, stop_seconds=3, max_seconds=1, **options)
    assert audio.num_samples == 16_000
    unknown = tmp_path / "unknown.mp3"  # an MP3 that does not tell its length
    unknown.write_bytes((DATA / "jfk.mp3").read_bytes()[4_000:60_000])
    length = (await session.load(unknown, on_damage="conceal", **options)).duration_seconds
    for source in (DATA / "jfk.mp3", unknown):
        with pytest.raises(aioaudio.LimitError):
            await session.load(source, max_seconds=length - 0.001, on_damage="conceal", **options)


@pytest.mark.parametrize("name", ["ljspeech.flac", "ljspeech.wav"])
async def test_a_damaged_file_carries_what_decoded_on_the_cpu(session: Session, name: str) -> None:
    half = (DATA / name).read_bytes()[:40_000]
    audio = []
    for options in ({}, {"device": "cpu", "resample_on": "device"}):
        with pytest.raises(aioaudio.DamagedAudioError) as raised:
            await session.load(half, sample_rate=16_000, **options)  # type: ignore[arg-type]
        audio.append(raised.value.audio)
    assert audio[0] is not None
    assert audio[1] is not None
    assert (audio[0].waveform - audio[1].waveform).abs().max() <= TOLERANCE
    assert audio[0].sample_rate == audio[1].sample_rate == 16_000


async def test_load_and_decode_take_a_device_with_and_without_out(session: Session) -> None:
    wanted = (await session.load(DATA / "ljspeech.wav")).waveform
    encoded = await session.fetch(DATA / "ljspeech.wav")
    out = torch.empty_like(wanted)
    for audio in (
        await session.load(DATA / "ljspeech.wav", device="cpu"),
        await session.decode(encoded, device=torch.device("cpu")),
        await session.load(DATA / "ljspeech.wav", device="cpu", out=out),
    ):
        assert audio.waveform.equal(wanted)
        assert audio.waveform.is_contiguous()
        assert audio.source
    assert audio.waveform is out
    with pytest.raises(ValueError, match="shape"):
        await session.load(DATA / "ljspeech.wav", device="cpu", out=torch.empty(1, 7))
    assert aioaudio.sync.load(DATA / "ljspeech.wav", device="cpu").waveform.equal(wanted)


async def test_many_clips_come_to_a_device_with_their_clips_and_failures(session: Session, broken: Path) -> None:
    clips = [Clip(DATA / "jfk.flac", 1, 2, fields={"text": "x"}), broken, DATA / "ljspeech.wav"]
    async with session.load_many(clips, device="cpu", on_error="return") as results:
        first, second, third = [result async for result in results]
    assert isinstance(first, aioaudio.Audio)
    assert isinstance(second, aioaudio.Failure)
    assert isinstance(third, aioaudio.Audio)
    assert first.clip is not None
    assert (first.clip.fields["text"], first.start_seconds) == ("x", 1.0)
    assert first.waveform.equal((await session.load(clips[0])).waveform)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"device": 1.5}, TypeError, "device must be"),
        ({"device": "gramophone"}, ValueError, "device must be"),
        ({"device": "cpu", "streams": 0}, ValueError, "streams must be from 1"),
        ({"device": "cpu", "streams": "2"}, TypeError, "streams must be an integer"),
        ({"resample_on": "device"}, ValueError, "needs device"),
        ({"device": "cpu", "resample_on": "gpu"}, ValueError, "'cpu' or 'device'"),
    ],
)
async def test_wrong_options_fail_at_once(options: dict[str, Any], error: type[Exception], words: str) -> None:
    makers: list[Callable[..., object]] = [lambda **o: aioaudio.batches([], batch_size=1, **o)]
    makers.append(lambda **o: aioaudio.load_many([], **o))
    for make in makers:
        with pytest.raises(error, match=words):
            make(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
async def test_a_missing_cuda_is_named(session: Session) -> None:
    with pytest.raises(ValueError, match="needs CUDA"):
        session.batches([], batch_size=1, device="cuda")
    with pytest.raises(ValueError, match="needs CUDA"):
        await session.load(DATA / "jfk.mp3", device="cuda:1")


async def test_out_must_be_on_the_device(session: Session) -> None:
    with pytest.raises(ValueError, match="strided tensor on meta"):
        await session.load(DATA / "ljspeech.wav", device="meta", out=torch.empty(1, 5))
    with pytest.raises(ValueError, match="strided tensor on the CPU"):
        await session.load(DATA / "ljspeech.wav", device="cpu", out=torch.empty(1, 5, device="meta"))


async def test_another_device_has_a_plain_transfer(session: Session) -> None:
    [batch] = await collect(SPEECH[:3], session, device="meta", num_channels=1, sample_rate=16_000)
    assert isinstance(batch.waveforms, torch.Tensor)
    assert (batch.waveforms.device.type, batch.lengths.device.type) == ("meta", "meta")
    assert batch.waveforms.shape == (3, 1, 176_000)


async def test_bytes_on_a_device_count_as_ahead(session: Session, crossed: list[int]) -> None:
    clip = DATA / "ljspeech.wav"  # of 16 bits: it crosses as half of what it becomes
    num_bytes = 4 * (await session.load(clip)).num_samples
    options = {"batch_size": 1, "prefetch": 100, "prefetch_bytes": 5 * num_bytes, "device": "cpu"}
    async with session.batches([clip] * 100, **options) as some:
        # At first, before any size is known, more are begun; those are taken here.
        for _ in range(60):
            await anext(some)
            count = -1
            while count != len(crossed):  # until it stands still
                count = len(crossed)
                for _ in range(3):
                    await until(lambda: not any(session.workers.statistics()))
                    await asyncio.sleep(0.001)
        assert 3 <= len(crossed) - 60 <= 5
