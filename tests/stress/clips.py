"""Clips with their right samples, and loads that must fail: for the tests, and for the programs that they start."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from media import MediaLibrary

import aioaudio

__all__ = ["FORMS", "KnownClip", "OnlyReads", "failing_loads", "load_all", "load_and_check", "make_clips", "read_clips"]

# All engines: plain PCM (wav, caf), the frame loop (tta, mp2), the filter graph (the others).
KINDS = ("wav", "caf", "flac", "mp3", "vorbis", "opus", "aac", "wavpack", "tta", "mp2")

FORMS = ("path", "bytes", "bytearray", "file", "iterator")


class OnlyReads:
    """A file-like object that is read in a read thread, by calls of this."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(size)


async def in_chunks(data: bytes, chunk_bytes: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), chunk_bytes):
        yield data[start : start + chunk_bytes]


@dataclass(frozen=True, eq=False)
class KnownClip:
    """A file, its bytes, and the samples `(num_channels, num_samples)` that a load of it gives."""

    path: Path
    data: bytes
    samples: torch.Tensor

    def source(self, form: str) -> Any:
        """The clip as a source of one of `FORMS`."""
        match form:
            case "path":
                return self.path
            case "bytes":
                return self.data
            case "bytearray":
                return bytearray(self.data)
            case "file":
                return OnlyReads(self.data)
            case _:
                return in_chunks(self.data)

    def check(self, audio: aioaudio.Audio) -> None:
        """Fail unless `audio` is this clip, to the bit."""
        assert torch.equal(audio.waveform, self.samples), f"{self.path.name} has come out wrong"


async def load_and_check(clip: KnownClip, form: str = "path") -> None:
    """Load `clip` from a source of one of `FORMS`; fail unless it comes out right."""
    clip.check(await aioaudio.load(clip.source(form)))


async def load_all(clips: Sequence[KnownClip]) -> None:
    """Load all clips in all forms at once, and check them."""
    await asyncio.gather(*(load_and_check(clip, form) for clip in clips for form in FORMS))


def make_clips(folder: Path, media: MediaLibrary, seconds: float, kinds: Sequence[str] = KINDS) -> list[KnownClip]:
    """Clips of all `kinds`, written to `folder` with the samples that loads alone give; lossless ones are the truth."""
    for kind in kinds:
        made = media.make(kind, seconds=seconds, sample_rate=16_000)
        samples = aioaudio.sync.load(made.path).waveform
        assert samples.shape[1] >= made.num_samples
        assert not made.lossless or torch.equal(samples, made.samples.float())
        path = folder / f"{kind}{made.path.suffix}"
        path.write_bytes(made.path.read_bytes())
        np.save(f"{path}.npy", samples.numpy())
    return read_clips(folder)


def read_clips(folder: Path) -> list[KnownClip]:
    """What `make_clips` has written to `folder`."""
    paths = sorted(path for path in folder.iterdir() if path.suffix != ".npy")
    return [KnownClip(path, path.read_bytes(), torch.from_numpy(np.load(f"{path}.npy"))) for path in paths]


_SCRIPT = b"ffconcat version 1.0\nfile a.wav\n"


class _Fails:
    def read(self, size: int) -> bytes:
        raise OSError(5, "Input/output error")


def failing_loads(clips: Sequence[KnownClip], rng: random.Random) -> list[tuple[type[Exception], Any, dict[str, Any]]]:
    """Loads that fail in every way that there is: the error, the source, and the options."""
    clip = rng.choice(clips)
    flac = next(clip for clip in clips if clip.path.suffix == ".flac")
    return [
        (aioaudio.SourceNotFound, clip.path.with_name("missing.wav"), {}),
        (aioaudio.FetchError, clip.path.parent, {}),
        (aioaudio.FetchError, _Fails(), {}),
        (aioaudio.CorruptAudioError, b"", {}),
        (aioaudio.AudioError, rng.randbytes(1000), {}),  # may look like any container, refused ones included
        (aioaudio.DamagedAudioError, flac.data[: len(flac.data) * 9 // 10], {}),
        (aioaudio.UnsupportedAudioError, _SCRIPT, {}),
        (aioaudio.LimitError, clip.path, {"max_seconds": 0.01}),
        (aioaudio.LimitError, clip.source("iterator"), {"max_bytes": 100}),
        (aioaudio.AudioTimeout, clip.source("file"), {"timeout": 1e-9}),
        (ValueError, clip.path, {"channels": [7]}),
    ]
