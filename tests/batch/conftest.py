from __future__ import annotations

from pathlib import Path

import pytest
from media import Media, MediaLibrary


@pytest.fixture(scope="session")
def clips(media: MediaLibrary) -> list[Media]:
    """Twenty-four short clips in two formats, each with a length of its own."""
    return [
        media.make(("wav", "flac")[i % 2], num_samples=800 + 397 * (i * 7 % 24), sample_rate=8_000, seed=i)
        for i in range(24)
    ]


@pytest.fixture(scope="session")
def paths(clips: list[Media]) -> list[Path]:
    return [clip.path for clip in clips]


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is no audio."""
    path = tmp_path_factory.mktemp("broken") / "broken.wav"
    path.write_bytes(b"this is no audio" * 10)
    return path
