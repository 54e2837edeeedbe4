"""The length of MP4 tracks: to the sample, where FFmpeg's is to the millisecond."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media import MediaLibrary

from aioaudio.decode.headers.mp4 import track_seconds
from aioaudio.encoded import Encoded


def lengths_of(data: bytes) -> list[float | None]:
    with Encoded(data).open() as file:
        return [None if seconds is None else float(seconds) for seconds in track_seconds(file)]


@pytest.mark.parametrize("kind", ["aac", "alac"])
@pytest.mark.parametrize("num_samples", [1, 1000, 1025, 44_100, 100_003])
def test_length_is_what_was_encoded(kind: str, num_samples: int, media: MediaLibrary) -> None:
    made = media.make(kind, num_samples=num_samples, sample_rate=44_100)
    (seconds,) = lengths_of(made.path.read_bytes())
    if seconds is not None:  # ALAC has no delay, so no edit need be there
        assert round(seconds * 44_100) == num_samples


def test_every_sound_track_has_its_length(shared: Path) -> None:
    data = (shared / "audio" / "torchcodec" / "nasa_13013.mp4").read_bytes()
    assert lengths_of(data) == [104_448 / 8_000, 208_896 / 16_000]


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_files_are_read_or_left(data: st.DataObject, media: MediaLibrary) -> None:
    whole = bytearray(media.make("aac", seconds=0.5).path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    for seconds in lengths_of(bytes(whole[: data.draw(st.integers(0, len(whole)))])):
        assert seconds is None or seconds > 0
