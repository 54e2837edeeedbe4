"""Audio I/O for PyTorch programs that use asyncio: never blocks an event loop.

    import aioaudio

    waveform, sample_rate = await aioaudio.load("talk.mp3", sample_rate=16_000, num_channels=1)
    talks = await asyncio.gather(*(aioaudio.load(path) for path in paths))

The functions are the methods of a default `Session`; `aioaudio.sync` has the same for code without an event loop.
"""

from aioaudio import sync
from aioaudio.api import aclose, batches, decode, fetch, info, load, load_many, open, run, submit
from aioaudio.audio import Audio, AudioInfo, Batch, Clip, Damage, Failure, StreamEvent, Track
from aioaudio.batch import BlockingResults, Results, StageStatistics
from aioaudio.dataset import AudioIterableDataset
from aioaudio.encoded import Encoded
from aioaudio.errors import (
    AudioError,
    AudioTimeout,
    ClosedError,
    CorruptAudioError,
    DamagedAudioError,
    FetchError,
    LimitError,
    SourceDenied,
    SourceError,
    SourceNotFound,
    UnsupportedAudioError,
)
from aioaudio.fetch import URL, HTTPOptions
from aioaudio.lazy import LazyAudio
from aioaudio.options import RawPCM
from aioaudio.report import doctor
from aioaudio.session import Session
from aioaudio.stream import AudioReader, BlockingAudioReader

__all__ = [
    "URL",
    "Audio",
    "AudioError",
    "AudioInfo",
    "AudioIterableDataset",
    "AudioReader",
    "AudioTimeout",
    "Batch",
    "BlockingAudioReader",
    "BlockingResults",
    "Clip",
    "ClosedError",
    "CorruptAudioError",
    "Damage",
    "DamagedAudioError",
    "Encoded",
    "Failure",
    "FetchError",
    "HTTPOptions",
    "LazyAudio",
    "LimitError",
    "RawPCM",
    "Results",
    "Session",
    "SourceDenied",
    "SourceError",
    "SourceNotFound",
    "StageStatistics",
    "StreamEvent",
    "Track",
    "UnsupportedAudioError",
    "aclose",
    "batches",
    "decode",
    "doctor",
    "fetch",
    "info",
    "load",
    "load_many",
    "open",
    "run",
    "submit",
    "sync",
]
