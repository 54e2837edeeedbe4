"""The length of MP4 tracks: to the sample, where FFmpeg's is to the millisecond."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media import MediaLibrary

import aioaudio
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


@pytest.mark.parametrize("kind", ["aac", "alac"])
@pytest.mark.parametrize("late", [1, 40_000, 200_000])
async def test_a_track_that_begins_late_has_all_its_samples(kind: str, late: int, media: MediaLibrary) -> None:
    """An empty edit puts it behind the beginning of the film; sound is counted from its own first sample."""
    data = media.make(kind, seconds=1.5, sample_rate=44_100).path.read_bytes()
    whole = await aioaudio.load(data)
    moved = begun_late(data, late)
    info, audio = await aioaudio.info(moved), await aioaudio.load(moved)
    assert info.num_samples == audio.num_samples == whole.num_samples == 66_150
    assert info.duration_seconds == whole.duration_seconds
    assert audio.damage == ()
    if kind == "alac":
        assert audio.waveform.equal(whole.waveform)


def begun_late(data: bytes, milliseconds: int) -> bytes:
    """An MP4 file, its index behind its samples, with an empty edit before the only one of its only track."""
    if b"elst" in data:
        return with_edit(data, milliseconds)
    at = data.index(b"mdia") - 4
    edit = struct.pack(">I4sI4sIIIii", 36, b"edts", 28, b"elst", 0, 1, 1_500, 0, 0x10000)
    return with_edit(grown(data[:at] + edit + data[at:], (b"moov", b"trak"), len(edit)), milliseconds)


def with_edit(data: bytes, milliseconds: int) -> bytes:
    at = data.index(b"elst")
    (count,) = struct.unpack_from(">I", data, at + 8)
    empty = struct.pack(">Iii", milliseconds, -1, 0x10000)
    data = data[: at + 8] + struct.pack(">I", count + 1) + empty + data[at + 12 :]
    return grown(data, (b"moov", b"trak", b"edts", b"elst"), len(empty))


def grown(data: bytes, kinds: tuple[bytes, ...], num_bytes: int) -> bytes:
    """The file with the boxes of these kinds said to be larger."""
    changed = bytearray(data)
    for kind in kinds:
        at = data.index(kind, data.index(b"moov")) - 4
        changed[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + num_bytes).to_bytes(4, "big")
    return bytes(changed)


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
