"""The test media hold what they say, by the word of decoders that are not aioaudio's."""

from __future__ import annotations

import av
import numpy as np
import pytest
import soundfile
from media import DATA, KINDS, MediaLibrary

LOSSLESS = [(name, fmt) for name, kind in KINDS.items() if kind.lossless for fmt in kind.encoders]


def decode_frames(path: object, track: int = 0) -> np.ndarray:
    """Float64 samples by PyAV's frame loop."""
    scales = {"u8": 128.0, "s16": 2.0**15, "s32": 2.0**31, "flt": 1.0, "dbl": 1.0}
    blocks = []
    with av.open(str(path)) as container:
        for frame in container.decode(audio=track):
            values = frame.to_ndarray().astype(np.float64)
            if not frame.format.is_planar:
                values = values.reshape(-1, frame.layout.nb_channels).T
            name = frame.format.name.removesuffix("p")
            blocks.append((values - 128.0 if name == "u8" else values) / scales[name])
    return np.concatenate(blocks, axis=1)


@pytest.mark.parametrize(("kind", "sample_format"), LOSSLESS)
def test_lossless_media_decode_to_their_samples(media: MediaLibrary, kind: str, sample_format: str) -> None:
    made = media.make(kind, channels=2, sample_format=sample_format, seconds=0.5)
    assert np.array_equal(decode_frames(made.path), made.samples.numpy())


@pytest.mark.parametrize("kind", ["wav", "rf64", "w64", "aiff", "au", "caf", "flac"])
def test_libsndfile_agrees(media: MediaLibrary, kind: str) -> None:
    made = media.make(kind, channels=3, seconds=0.5, sample_rate=44_100)
    samples, sample_rate = soundfile.read(made.path, always_2d=True)
    assert sample_rate == made.sample_rate
    assert np.array_equal(samples.T, made.samples.numpy())


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.lossless])
def test_lossy_media_sound_like_their_samples(media: MediaLibrary, kind: str) -> None:
    made = media.make(kind, seconds=1.0)
    decoded = decode_frames(made.path)[0, : made.num_samples]
    at = np.argmax(np.correlate(decoded, made.samples[0, 4000:40_000].numpy(), "valid")) - 4000
    assert at == 0 if made.exact_length else 0 <= at < 2000  # a decoder keeps the delay that no header tells


def test_the_same_arguments_give_the_same_media(media: MediaLibrary) -> None:
    assert media.make("wav", seconds=0.5) is media.make("wav", num_samples=24_000)
    assert media.make("wav", seconds=0.5) is not media.make("wav", seconds=0.5, seed=1)


def test_tracks_are_each_in_their_place(media: MediaLibrary) -> None:
    tracks = media.make_tracks(("eng", "fra"), seconds=0.5)
    assert [track.language for track in tracks] == ["eng", "fra"]
    for index, track in enumerate(tracks):
        assert np.array_equal(decode_frames(track.path, index), track.samples.numpy())


def test_integers_are_the_encoded_values(media: MediaLibrary) -> None:
    made = media.make("wav", seconds=0.5)
    expected, _ = soundfile.read(made.path, dtype="int16", always_2d=True)
    assert np.array_equal(made.integers().numpy(), expected.T)


def test_clips_are_small_and_each_is_documented() -> None:
    clips = [path for path in DATA.iterdir() if path.suffix != ".md"]
    readme = (DATA / "README.md").read_text("utf-8")
    assert len(clips) >= 6
    assert sum(path.stat().st_size for path in clips) < 1_500_000
    assert all(f"`{clip.name}`" in readme for clip in clips)
