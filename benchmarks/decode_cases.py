"""The cases of `decode.py`: the clips, who loads them, and how."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import torch
import turns
from harness import Case, Contender
from media import MediaLibrary
from peers import Load, Source, find_peers

import aioaudio

__all__ = [
    "AHEAD",
    "ALONE",
    "BUSY",
    "CLIPS",
    "CONTROL",
    "KERNEL_OF_1",
    "KERNEL_OF_8",
    "KINDS",
    "MIDDLE",
    "NOBODY",
    "ONE_SECOND",
    "OURS",
    "QUICK",
    "RATES",
    "SHORT",
    "Bench",
    "Clip",
    "Effort",
    "busy_name",
    "loads_name",
    "short_name",
    "threads_name",
    "with_threads",
]

CODECS = ("wav", "flac", "mp3", "vorbis", "opus", "m4a")
RATES = {"as in the file": None, "16 kHz mono": 16_000}
KINDS = ("path", "bytes")
OURS, AHEAD, ALONE = "aioaudio", "aioaudio ahead", "aioaudio, one by one"
KERNEL_OF_8, KERNEL_OF_1 = "kernel, groups of 8", "kernel, alone"
NOBODY = "nobody"
CONTROL = "loads/control"

# Of one turn, whose waveforms are all kept.
MAX_BYTES = 512 << 20

# Lossy decoders differ a little, and resamplers more.
MAX_DIFFERENCE = 0.02


@dataclass(frozen=True)
class Clip:
    codec: str
    seconds: float
    sample_rate: int = 44_100
    num_channels: int = 2

    def __str__(self) -> str:
        length = f"{self.seconds:g} s" if self.seconds >= 1 else f"{1e3 * self.seconds:g} ms"
        return f"{self.codec} {length}"


CLIPS = [Clip(codec, seconds, 48_000 if codec == "opus" else 44_100) for codec in CODECS for seconds in (1, 10, 60)]
MIDDLE = [clip for clip in CLIPS if clip.seconds == 10]
BUSY = [clip for clip in CLIPS if clip.seconds <= 10]
ONE_SECOND = Clip("wav", 1, 16_000, 1)
SHORT = [Clip("wav", 0.01), Clip("flac", 0.01), ONE_SECOND]


@dataclass(frozen=True)
class Effort:
    """How long turns take. Those of `loads` are as many loads as aioaudio does in `turn_seconds`, within bounds."""

    turn_seconds: float = 0.25
    min_loads: int = 8
    max_loads: int = 512
    busy_seconds: float = 0.75
    num_short: int = 2000
    num_counted: int = 32


QUICK = Effort(turn_seconds=0.02, min_loads=2, max_loads=32, busy_seconds=0.25, num_short=100, num_counted=8)


class Bench:
    """The clips, the contenders, and the cases that bring them together."""

    def __init__(self, folder: Path, effort: Effort) -> None:
        self.media = MediaLibrary(folder)
        self.effort = effort
        self.peers, self.absent = find_peers()
        self.oddities: dict[str, dict[str, None]] = {}
        self.sessions = {n: aioaudio.Session(decode_threads=n) for n in (1, 2)}

    def close(self) -> None:
        for session in self.sessions.values():
            aioaudio.run(session.aclose())

    def cases(self) -> Iterator[Case]:
        yield Case(CONTROL, self.control)
        for clip, rate, kind in product(CLIPS, RATES, KINDS):
            if kind == "bytes" and clip.seconds > 10:
                continue  # what differs is the opening
            yield Case(loads_name(clip, rate, kind), partial(self.loads, clip, rate, kind))
        for clip, kind in product(BUSY, KINDS):
            yield Case(busy_name(clip, kind), partial(self.busy, clip, kind))
        for clip, kind in product(SHORT, KINDS):
            yield Case(short_name(clip, kind), partial(self.short, clip, kind))
        for clip in MIDDLE:
            yield Case(threads_name(clip), partial(self.threads, clip))

    def control(self) -> dict[str, Contender]:
        """What two threads can do on this machine at all: hashes, which need no memory and no GIL."""
        data, num_hashes = bytes(1 << 20), round(1000 * self.effort.turn_seconds)

        def digest(_: Source, __: int | None) -> torch.Tensor:
            hashlib.sha256(data).digest()
            return torch.empty(0)

        return {with_threads(CONTROL, n): partial(turns.in_threads, digest, [""] * num_hashes, None, n) for n in (1, 2)}

    def loads(self, clip: Clip, rate: str, kind: str) -> dict[str, Contender]:
        source, sample_rate = self.source(clip, kind), RATES[rate]
        sources = [source] * self.num_loads(clip, source, sample_rate)
        peers = self.able_peers(clip, kind, sample_rate)
        contenders: dict[str, Contender] = {}
        for n, session in self.sessions.items():
            contenders[with_threads(OURS, n)] = partial(turns.gather, session, sources, sample_rate)
            for title, load in peers.items():
                contenders[with_threads(title, n)] = partial(turns.in_threads, load, sources, sample_rate, n)
        return contenders

    def busy(self, clip: Clip, kind: str) -> dict[str, Contender]:
        source, sample_rate, session = self.source(clip, kind), RATES["16 kHz mono"], self.sessions[1]
        seconds = self.effort.busy_seconds
        ahead = [source] * round(1.5 * seconds / self.seconds_of(source, sample_rate))
        pump = partial(turns.pump, session, source, sample_rate)
        contenders: dict[str, Contender] = {
            NOBODY: partial(turns.beside_python, None, seconds),
            OURS: partial(turns.beside_python, pump, seconds),
            AHEAD: partial(turns.queued_ahead, session, ahead, sample_rate, seconds),
        }
        for title, load in self.able_peers(clip, kind, sample_rate).items():
            peer_pump = partial(turns.peer_pump, load, source, sample_rate)
            contenders[title] = partial(turns.beside_python, peer_pump, seconds)
        return contenders

    def short(self, clip: Clip, kind: str) -> dict[str, Contender]:
        sources, session = [self.source(clip, kind)] * self.effort.num_short, self.sessions[2]
        contenders: dict[str, Contender] = {
            OURS: partial(turns.gather, session, sources, None),
            KERNEL_OF_8: partial(turns.kernel, sources, 8),
            ALONE: partial(turns.one_by_one, session, sources, None),
            KERNEL_OF_1: partial(turns.kernel, sources, 1),
        }
        for title, load in self.able_peers(clip, kind, None).items():
            contenders[title] = partial(turns.in_threads, load, sources[::4], None, 1)
        return contenders

    def threads(self, clip: Clip) -> dict[str, Contender]:
        sample_rate = RATES["16 kHz mono"]
        sources = [self.source(clip, "path")] * self.effort.num_counted
        work = {OURS: partial(turns.gather, self.sessions[2], sources, sample_rate)}
        for title, load in self.able_peers(clip, "path", sample_rate).items():
            work[title] = partial(turns.in_threads, load, sources, sample_rate, 2)
        return {title: partial(turns.count_os_threads, turn) for title, turn in work.items()}

    def source(self, clip: Clip, kind: str) -> Source:
        path = self.media.make(
            "aac" if clip.codec == "m4a" else clip.codec,
            num_samples=round(clip.seconds * clip.sample_rate),
            sample_rate=clip.sample_rate,
            channels=clip.num_channels,
        ).path
        return str(path) if kind == "path" else path.read_bytes()

    def num_loads(self, clip: Clip, source: Source, sample_rate: int | None) -> int:
        """How many loads make up a turn."""
        fitting = round(self.effort.turn_seconds / self.seconds_of(source, sample_rate))
        result_bytes = 4 * clip.seconds * (sample_rate or clip.sample_rate * clip.num_channels)
        return max(self.effort.min_loads, min(fitting, self.effort.max_loads, int(MAX_BYTES / result_bytes)))

    def seconds_of(self, source: Source, sample_rate: int | None) -> float:
        """What one load takes about, in seconds on the clock."""
        turns.gather(self.sessions[1], [source] * 2, sample_rate)
        return 1e-6 * turns.gather(self.sessions[1], [source] * 8, sample_rate)["wall_us"]

    def able_peers(self, clip: Clip, kind: str, sample_rate: int | None) -> dict[str, Load]:
        """The peers that can load this clip, by title; whoever fails or loads something else is noted."""
        source = self.source(clip, kind)
        num_channels = 1 if sample_rate else None
        ours = aioaudio.sync.load(source, sample_rate=sample_rate, num_channels=num_channels).waveform
        able = {}
        for peer, load in self.peers.items():
            if not peer.serves(clip.codec, sample_rate):
                continue
            what = f"{clip} at {sample_rate} Hz" if sample_rate else f"{clip}"
            try:
                theirs = load(source, sample_rate)
            except Exception as error:  # of whatever kind the peer raises
                self.oddities.setdefault(f"{clip.codec} is not loaded ({type(error).__name__})", {})[peer.title] = None
                continue
            able[peer.title] = load
            if oddity := difference(theirs, ours):
                self.oddities.setdefault(f"{what}: {oddity}", {})[peer.title] = None
        return able

    def notes(self) -> list[str]:
        """Where peers do not load what aioaudio loads."""
        return [f"{', '.join(titles)}: {oddity}" for oddity, titles in self.oddities.items()]


def difference(theirs: torch.Tensor, ours: torch.Tensor) -> str | None:
    """In which way two waveforms are not the same but for their loudness, None if they are.

    FFmpeg mixes float to mono by a sum that is √2 louder than the mean.
    """
    if theirs.shape != ours.shape:
        return f"{theirs.shape[0]} × {theirs.shape[1]} samples, aioaudio {ours.shape[0]} × {ours.shape[1]}"
    gain = float((theirs * ours).sum() / theirs.square().sum())
    largest = float((gain * theirs - ours).abs().max())
    return f"samples differ by up to {largest:.2g}" if largest > MAX_DIFFERENCE else None


def with_threads(title: str, num_threads: int) -> str:
    return f"{title} × {num_threads}"


def loads_name(clip: Clip, rate: str, kind: str) -> str:
    return f"loads/{clip}/{rate}/{kind}"


def busy_name(clip: Clip, kind: str) -> str:
    return f"busy/{clip}/{kind}"


def short_name(clip: Clip, kind: str) -> str:
    return f"short/{clip}/{kind}"


def threads_name(clip: Clip) -> str:
    return f"threads/{clip}"
