"""How other libraries load a file: each in the way that its own documentation gives, in one call that blocks.

All return float32 `(num_channels, num_samples)`, contiguous: as in the file, or mono at a sample rate. A peer that is
not installed, or does not start on this machine, is absent.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

__all__ = ["PEERS", "Load", "Peer", "Source", "find", "find_peers", "versions_of"]

#: A path, or the bytes of a file.
Source = str | bytes
#: The waveform of a source: as in the file with None, else mono at this sample rate in Hz.
Load = Callable[[Source, int | None], torch.Tensor]


@dataclass(frozen=True)
class Peer:
    """`make` imports the library. `codecs` are those that are asked of it, None for all; `title` is its column."""

    title: str
    package: str
    make: Callable[[], Load]
    resamples: bool = True
    uses_ffmpeg: bool = True
    codecs: frozenset[str] | None = None

    def serves(self, codec: str, sample_rate: int | None) -> bool:
        return (self.codecs is None or codec in self.codecs) and (self.resamples or sample_rate is None)


def _pyav() -> Load:
    av: Any = importlib.import_module("av")

    def load(source: Source, sample_rate: int | None) -> torch.Tensor:
        with av.open(source if isinstance(source, str) else io.BytesIO(source)) as container:
            stream = container.streams.audio[0]
            layout = "mono" if sample_rate else stream.layout
            resampler = av.AudioResampler("fltp", layout, sample_rate or stream.rate)
            frames = [out for frame in container.decode(stream) for out in resampler.resample(frame)]
            frames += resampler.resample(None)
        return torch.from_numpy(np.concatenate([frame.to_ndarray() for frame in frames], axis=1))

    return load


def _soundfile() -> Load:
    soundfile: Any = importlib.import_module("soundfile")

    def load(source: Source, _: int | None) -> torch.Tensor:
        file = source if isinstance(source, str) else io.BytesIO(source)
        samples, _ = soundfile.read(file, dtype="float32", always_2d=True)
        return torch.from_numpy(np.ascontiguousarray(samples.T))

    return load


def _spdl() -> Load:
    spdl: Any = importlib.import_module("spdl.io")
    as_it_is = spdl.get_audio_filter_desc(sample_fmt="fltp")

    def load(source: Source, sample_rate: int | None) -> torch.Tensor:
        mono = spdl.get_audio_filter_desc(sample_rate=sample_rate, num_channels=1, sample_fmt="fltp")
        waveform: torch.Tensor = spdl.to_torch(spdl.load_audio(source, filter_desc=mono if sample_rate else as_it_is))
        return waveform

    return load


def _spdl_wav() -> Load:
    spdl: Any = importlib.import_module("spdl.io")

    def load(source: Source, _: int | None) -> torch.Tensor:
        frames = np.asarray(spdl.load_wav(Path(source).read_bytes() if isinstance(source, str) else source))
        samples = np.empty(frames.shape[::-1], np.float32)
        np.multiply(frames.T, 2.0**-15, out=samples, casting="unsafe")  # 16-bit integers as they lie in the file
        return torch.from_numpy(samples)

    return load


def _torchcodec() -> Load:
    decoders: Any = importlib.import_module("torchcodec.decoders")

    def load(source: Source, sample_rate: int | None) -> torch.Tensor:
        options = {"sample_rate": sample_rate, "num_channels": 1} if sample_rate else {}
        waveform: torch.Tensor = decoders.AudioDecoder(source, **options).get_all_samples().data
        return waveform

    return load


PEERS = (
    Peer("PyAV frames", "av", _pyav),
    Peer("soundfile", "soundfile", _soundfile, resamples=False, uses_ffmpeg=False),
    Peer("SPDL", "spdl_io", _spdl),
    Peer("SPDL load_wav", "spdl_io", _spdl_wav, resamples=False, uses_ffmpeg=False, codecs=frozenset({"wav"})),
    Peer("torchcodec", "torchcodec", _torchcodec),
)


def find_peers() -> tuple[dict[Peer, Load], dict[str, str]]:
    """The peers that are here, and why the others, by title, are not."""
    return find(PEERS)


class Maker(Protocol):
    """What has a title, and makes something out of libraries that may be missing."""

    @property
    def title(self) -> str: ...

    @property
    def make(self) -> Callable[[], Any]: ...


M = TypeVar("M", bound=Maker)


def find(makers: Iterable[M]) -> tuple[dict[M, Any], dict[str, str]]:
    """What those make that can, and why the others, by title, cannot."""
    found, absent = {}, {}
    for maker in makers:
        try:
            found[maker] = maker.make()
        except (ImportError, OSError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            absent[maker.title] = re.sub(r"/\S*/", "", reason)  # the names of files, not where they lie here
    return found, absent


def versions_of(peers: Iterable[Peer]) -> dict[str, str]:
    """The versions of aioaudio and of the packages of `peers`, by title."""
    packages = {"aioaudio": "aioaudio", **{peer.title: peer.package for peer in peers}}
    return {title: importlib.metadata.version(package) for title, package in packages.items()}
