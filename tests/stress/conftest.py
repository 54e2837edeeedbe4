"""What the stress tests load."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from clips import KnownClip, make_clips
from media import MediaLibrary

_measured: list[str] = []


@pytest.fixture
def measured() -> Callable[[str], None]:
    """Takes a line on what was measured and is not asserted, since it depends on the machine: printed when soaking."""
    return _measured.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _measured and os.environ.get("AIOAUDIO_SOAK") == "1":
        terminalreporter.section("measured, not asserted")
        for line in _measured:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `clips` lie, for programs."""
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="session")
def clips(clip_folder: Path, media: MediaLibrary) -> list[KnownClip]:
    """A clip of 0.2 s of each kind."""
    return make_clips(clip_folder, media, seconds=0.2)


@pytest.fixture(scope="session")
def long_clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `long_clips` lie, for programs."""
    return tmp_path_factory.mktemp("long")


@pytest.fixture(scope="session")
def long_clips(long_clip_folder: Path, media: MediaLibrary) -> list[KnownClip]:
    """Clips of two minutes, for each engine: many blocks to be stopped between."""
    return make_clips(long_clip_folder, media, seconds=120, kinds=("wav", "flac", "mp3", "mp2"))
