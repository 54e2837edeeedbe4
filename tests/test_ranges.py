"""A range is exactly the slice of the whole that its seconds round to, in every format, by path and as bytes."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from media import Media, MediaLibrary

import aioaudio

pytestmark = [pytest.mark.asyncio(loop_factories=["asyncio"]), pytest.mark.timeout(600)]


class Case(NamedTuple):
    """How a file is made, and how far a range may differ from the slice: None asks only for length and position."""

    make: dict[str, Any]
    tolerance: float | None = 0.0


WAVS = {
    f"wav-{sample_format}-{channels}ch": Case(dict(kind="wav", sample_format=sample_format, channels=channels))
    for sample_format, channels in (("u8", 1), ("s16", 2), ("s24", 3), ("s32", 6), ("f32", 8), ("f64", 16))
}
MP3S = {
    "mp3-cbr": Case(dict(kind="mp3", sample_rate=44_100, channels=2, bit_rate=128_000)),
    "mp3-vbr": Case(dict(kind="mp3", sample_rate=44_100, quality=4)),
    "mp3-cbr-untagged": Case(dict(kind="mp3", sample_rate=44_100, bit_rate=64_000, tag=False)),
    "mp3-vbr-untagged": Case(dict(kind="mp3", sample_rate=44_100, quality=4, tag=False)),
    "mp3-8kbps": Case(dict(kind="mp3", sample_rate=16_000, bit_rate=8_000)),
    "mp3-16kbps": Case(dict(kind="mp3", sample_rate=22_050, bit_rate=16_000)),
    "mp3-32kbps": Case(dict(kind="mp3", sample_rate=24_000, bit_rate=32_000)),
}
CASES = {
    **WAVS,
    "aiff": Case(dict(kind="aiff", sample_rate=44_100)),
    "flac": Case(dict(kind="flac", sample_rate=44_100, channels=2)),
    "flac-24": Case(dict(kind="flac", sample_format="s24", sample_rate=96_000)),
    "alac": Case(dict(kind="alac", sample_rate=44_100, channels=2)),
    "wavpack": Case(dict(kind="wavpack", sample_rate=44_100, channels=2)),
    "vorbis": Case(dict(kind="vorbis", sample_rate=44_100, channels=2)),
    **MP3S,
    "opus": Case(dict(kind="opus", channels=2), 1e-4),
    "opus-24kbps": Case(dict(kind="opus", bit_rate=24_000), 1e-4),
    "opus-webm": Case(dict(kind="opus-webm"), 1e-4),
    "opus-mka": Case(dict(kind="opus-mka", channels=2), 1e-4),
    # AAC's decoder fills noise bands at random.
    "aac": Case(dict(kind="aac", sample_rate=44_100), None),
}

# Long enough that some ranges are reached by a seek.
SECONDS = 24.0

WAYS = {
    "as-is": {},
    "16k-mono": dict(sample_rate=16_000, num_channels=1),
    "48k": dict(sample_rate=48_000),
}


def random_ranges(rng: random.Random, count: int, seconds: float, rate: int) -> list[tuple[float, float | None]]:
    """`count` ranges, and the edges: empty, one sample, the last sample, open, past the end."""
    ranges: list[tuple[float, float | None]] = []
    for _ in range(count):
        start, stop = sorted((rng.uniform(0, seconds), rng.uniform(0, seconds)))
        ranges.append((start, stop))
    return [
        *ranges,
        (0.0, 0.0),
        (seconds / 3, seconds / 3),
        (0.0, 1 / rate),
        (seconds / 2, seconds / 2 + 1 / rate),
        (seconds - 1 / rate, seconds),
        (seconds - 0.01, None),
        (seconds - 0.5, seconds + 1),
        (seconds + 1, seconds + 2),
    ]


def expected_slice(whole: aioaudio.Audio, start: float, stop: float | None) -> torch.Tensor:
    rate = whole.sample_rate
    first = math.floor(start * rate + 0.5)
    last = None if stop is None else math.floor(stop * rate + 0.5)
    return whole.waveform[:, first:last]


def check(name: str, got: torch.Tensor, expected: torch.Tensor, tolerance: float | None) -> None:
    assert got.shape == expected.shape, name
    if not got.numel():
        return
    if tolerance is None:
        # The same audio at the same place: the noise is a small share of its energy.
        error, energy = (got - expected).square().sum(), expected.square().sum()
        assert error <= 0.1 * energy + 1e-3, name
    else:
        assert (got - expected).abs().max() <= tolerance, name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
async def test_range_equals_slice_of_whole(
    case: str, way: str, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    made = media.make(seconds=SECONDS, **{"sample_rate": 48_000, **CASES[case].make})
    options, tolerance = WAYS[way], CASES[case].tolerance
    data = made.path.read_bytes()
    whole = await aioaudio.load(made.path, **options)
    resampled = whole.sample_rate != made.sample_rate
    if tolerance is not None and resampled:
        tolerance = max(tolerance, 1e-5)
    elif tolerance is not None and way != "as-is":
        tolerance = max(tolerance, 1e-6)  # sums of channels may be rounded in another order
    rng = random.Random(f"{case} {way}")
    ranges = random_ranges(rng, soak(200), whole.duration_seconds, whole.sample_rate)
    loads = (
        aioaudio.load(source, start_seconds=start, stop_seconds=stop, **options)
        for start, stop in ranges
        for source in (made.path, data)
    )
    parts = iter(await asyncio.gather(*loads))
    for start, stop in ranges:
        for part, kind in ((next(parts), "path"), (next(parts), "bytes")):
            check(f"{case} {kind} [{start}, {stop})", part.waveform, expected_slice(whole, start, stop), tolerance)
            assert part.start_seconds == pytest.approx(start, abs=0.51 / whole.sample_rate)


@pytest.mark.parametrize("kind", ["wav", "aiff", "flac", "mp3", "vorbis", "opus", "aac", "wavpack"])
async def test_whole_has_the_length_and_place_of_what_was_encoded(kind: str, media: MediaLibrary) -> None:
    made = media.make(kind, seconds=3.3, sample_rate=48_000, signal="tones")
    audio = await aioaudio.load(made.path, dtype=torch.float64)
    assert audio.num_samples == made.num_samples
    error = (audio.waveform - made.samples).square().mean() / made.samples.square().mean()
    assert error <= (0 if made.lossless else 0.05)


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "vorbis", "opus", "aac"])
async def test_a_resampled_clip_keeps_its_length_however_short(
    kind: str, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    rng = random.Random(kind)
    lengths = [1, 2, 50, 99, 500, *(rng.randrange(1, 500) for _ in range(soak(100)))]
    made = [media.make(kind, num_samples=length, sample_rate=48_000, signal="noise") for length in lengths]
    wholes = await asyncio.gather(*(aioaudio.load(clip.path) for clip in made))
    for rate in (16_000, 44_100, 96_000):
        loads = (aioaudio.load(clip.path, sample_rate=rate) for clip in made)
        for clip, whole, audio in zip(made, wholes, await asyncio.gather(*loads), strict=True):
            # FFmpeg's muxer cannot write the padding of an MP3 that is shorter than a few samples.
            num_samples = whole.num_samples if kind == "mp3" else clip.num_samples
            assert audio.num_samples == -(-num_samples * rate // 48_000)


async def test_a_negative_or_reversed_range_is_a_value_error(media: MediaLibrary) -> None:
    made: Media = media.make("wav")
    for start, stop in ((-1.0, None), (0.0, -1.0), (2.0, 1.0), (math.nan, None), (0.0, math.inf)):
        with pytest.raises(ValueError, match="seconds"):
            await aioaudio.load(made.path, start_seconds=start, stop_seconds=stop)
