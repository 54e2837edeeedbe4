"""How libraries feed a model from a list of files: each in the way that its own documentation gives.

All hand out batches of 16 clips in the order of the list: mono float32 at 16 kHz, padded with zeros behind each clip.
Two threads decode, or two worker processes; everything else is as the library has it by default. A peer that is not
installed, or does not start on this machine, is absent.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from peers import find
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import aioaudio

__all__ = ["BATCH_SIZE", "FEEDERS", "OURS", "OURS_SYNC", "SAMPLE_RATE", "Feed", "Feeder", "find_feeders", "versions_of"]

SAMPLE_RATE = 16_000
BATCH_SIZE = 16
NUM_WORKERS = 2

OURS, OURS_SYNC = "aioaudio", "aioaudio.sync"

#: What the consumer does with a batch: its samples, time last, and its lengths in samples.
Consume = Callable[[torch.Tensor, torch.Tensor], None]
#: Feed a consumer with the files at these paths.
Feed = Callable[[Sequence[str], Consume], None]
#: The samples of a file, (num_samples,).
LoadMono = Callable[[str], torch.Tensor]


@dataclass(frozen=True)
class Feeder:
    """`make` imports the `packages`; `title` is its column. `has_workers` where it is a DataLoader with processes."""

    title: str
    packages: tuple[str, ...]
    make: Callable[[], Feed]
    has_workers: bool = False


def _aioaudio() -> Feed:
    def feed(paths: Sequence[str], consume: Consume) -> None:
        async def main() -> None:
            async with (
                aioaudio.Session(decode_threads=NUM_WORKERS) as session,
                session.batches(paths, batch_size=BATCH_SIZE, sample_rate=SAMPLE_RATE, num_channels=1) as batches,
            ):
                async for batch in batches:
                    consume(batch.waveforms, batch.lengths)

        aioaudio.run(main())

    return feed


def _aioaudio_sync() -> Feed:
    def feed(paths: Sequence[str], consume: Consume) -> None:
        # As aioaudio.sync.batches, but in a session whose number of threads is given.
        session = aioaudio.Session(decode_threads=NUM_WORKERS)
        results = session.batches(paths, batch_size=BATCH_SIZE, sample_rate=SAMPLE_RATE, num_channels=1)
        with results.blocking() as batches:
            for batch in batches:
                consume(batch.waveforms, batch.lengths)
        aioaudio.run(session.aclose())

    return feed


def _spdl() -> Feed:
    io: Any = importlib.import_module("spdl.io")
    pipeline: Any = importlib.import_module("spdl.pipeline")

    def load(path: str) -> torch.Tensor:
        mono = io.get_audio_filter_desc(sample_rate=SAMPLE_RATE, num_channels=1, sample_fmt="fltp")
        waveform: torch.Tensor = io.to_torch(io.load_audio(path, filter_desc=mono))
        return waveform[0]

    def feed(paths: Sequence[str], consume: Consume) -> None:
        built = (
            pipeline.PipelineBuilder()
            .add_source(paths)
            .pipe(load, concurrency=NUM_WORKERS, output_order="input")
            .aggregate(BATCH_SIZE)
            .pipe(_pad)
            .add_sink()
            .build(num_threads=NUM_WORKERS)
        )
        with built.auto_stop():
            for batch in built:
                consume(*batch)

    return feed


def _soundfile() -> Feed:
    for package in ("soundfile", "soxr"):
        importlib.import_module(package)
    return _data_loader(_load_by_soundfile)


def _torchcodec() -> Feed:
    importlib.import_module("torchcodec.decoders")
    return _data_loader(_load_by_torchcodec)


# What a worker process calls has to be at the top of a module, to be pickled where processes are not forked.


def _load_by_soundfile(path: str) -> torch.Tensor:
    soundfile: Any = importlib.import_module("soundfile")
    soxr: Any = importlib.import_module("soxr")
    samples, sample_rate = soundfile.read(path, dtype="float32")
    mono = samples if samples.ndim == 1 else samples.mean(axis=1)
    return torch.from_numpy(mono if sample_rate == SAMPLE_RATE else soxr.resample(mono, sample_rate, SAMPLE_RATE))


def _load_by_torchcodec(path: str) -> torch.Tensor:
    decoders: Any = importlib.import_module("torchcodec.decoders")
    decoder = decoders.AudioDecoder(path, sample_rate=SAMPLE_RATE, num_channels=1)
    waveform: torch.Tensor = decoder.get_all_samples().data
    return waveform[0]


class _Files(Dataset[torch.Tensor]):
    def __init__(self, paths: Sequence[str], load: LoadMono) -> None:
        self._paths, self._load = paths, load

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._load(self._paths[index])


def _data_loader(load: LoadMono) -> Feed:
    def feed(paths: Sequence[str], consume: Consume) -> None:
        dataset = _Files(paths, load)
        for batch in DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, collate_fn=_pad):
            consume(*batch)

    return feed


def _pad(clips: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return pad_sequence(list(clips), batch_first=True), torch.tensor([len(clip) for clip in clips])


FEEDERS = (
    Feeder(OURS, ("aioaudio",), _aioaudio),
    Feeder(OURS_SYNC, ("aioaudio",), _aioaudio_sync),
    Feeder("SPDL pipeline", ("spdl_core", "spdl_io"), _spdl),
    Feeder("DataLoader + soundfile", ("torch", "soundfile", "soxr"), _soundfile, has_workers=True),
    Feeder("DataLoader + torchcodec", ("torch", "torchcodec"), _torchcodec, has_workers=True),
)


def find_feeders() -> tuple[list[Feeder], dict[str, str]]:
    """The feeders that are here, and why the others, by title, are not."""
    found, absent = find(FEEDERS)
    return list(found), absent


def versions_of(feeders: Iterable[Feeder]) -> dict[str, str]:
    """The versions of what `feeders` are made of, by title."""
    return {feeder.title: _versions(feeder.packages) for feeder in feeders}


def _versions(packages: Sequence[str]) -> str:
    if len(packages) == 1:
        return version(packages[0])
    return "(" + ", ".join(f"{package} {version(package)}" for package in packages) + ")"
