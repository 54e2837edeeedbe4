"""What loads do to the event loop that awaits them, and to each other.

gap       A timer ticks on the event loop every millisecond. Its longest gap between two ticks while 200 loads run, all
          in one gather (speech as WAV, FLAC, MP3, Vorbis, Opus and M4A, stereo at 48 kHz), beside its longest gap on a
          loop that does nothing else for as long. For each form of source, and resampled to 16 kHz mono.
together  How long a gather of as many clips as there are decode threads takes, beside the load of one of them.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import Case, Contender, Grid, Rounds, Target, Turn, parse_arguments, run_program
from media import MediaLibrary

import aioaudio
from aioaudio.workers import default_decode_threads

TICK_SECONDS = 0.001
NUM_LOADS = 200
KINDS = ("wav", "flac", "mp3", "vorbis", "opus", "aac")
LONG_KINDS = ("wav", "flac", "mp3")

MAX_GAP_MS = 20
MAX_RATIO = 1.1

IDLE, LOADING = "idle loop", f"{NUM_LOADS} loads"
ONE, TOGETHER = "one clip", f"{default_decode_threads()} clips"


@dataclass(frozen=True)
class Effort:
    """How long clips are, in seconds: those of the large gather, and those that are loaded together."""

    clip_seconds: float = 5
    long_seconds: float = 120


QUICK = Effort(clip_seconds=0.5, long_seconds=5)

Loads = Callable[[], Sequence[Awaitable[object]]]


class Ticks:
    """The longest gap, in seconds, between two ticks of a timer on the running event loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._last = time.perf_counter()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._note()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _note(self) -> None:
        now = time.perf_counter()
        self.longest, self._last = max(self.longest, now - self._last), now

    def stop(self) -> None:
        self._timer.cancel()
        self._note()


class GapCase:
    """The loop's longest gap while `loads` run, and while the loop is idle for as long."""

    def __init__(self, loads: Loads) -> None:
        self._loads = loads
        self._seconds = 1.0

    def contenders(self) -> Mapping[str, Contender]:
        return {LOADING: self._while_loading, IDLE: self._while_idle}

    def _while_loading(self) -> Turn:
        async def load() -> None:
            await asyncio.gather(*self._loads())

        turn = self._longest_gap(load)
        self._seconds = turn["seconds"]
        return turn

    def _while_idle(self) -> Turn:
        return self._longest_gap(lambda: asyncio.sleep(self._seconds))

    def _longest_gap(self, work: Callable[[], Awaitable[None]]) -> Turn:
        async def main() -> Turn:
            ticks, began = Ticks(), time.perf_counter()
            await work()
            ticks.stop()
            return {"gap_ms": 1e3 * ticks.longest, "seconds": time.perf_counter() - began}

        return aioaudio.run(main())


def gap_cases(media: MediaLibrary, effort: Effort) -> list[Case]:
    made = [media.make(kind, seconds=effort.clip_seconds, sample_rate=48_000, channels=2) for kind in KINDS]
    paths = [made[i % len(made)].path for i in range(NUM_LOADS)]
    bytes_of = {path: path.read_bytes() for path in set(paths)}
    forms: dict[str, Callable[[Path], Awaitable[object]]] = {
        "paths": aioaudio.load,
        "paths, to 16 kHz mono": lambda path: aioaudio.load(path, sample_rate=16_000, num_channels=1),
        "bytes": lambda path: aioaudio.load(bytes_of[path]),
        "file objects": lambda path: aioaudio.load(io.BufferedReader(io.BytesIO(bytes_of[path]))),
    }

    def case(name: str, load: Callable[[Path], Awaitable[object]]) -> Case:
        return Case(f"gap, {name}", lambda: GapCase(lambda: [load(path) for path in paths]).contenders())

    return [case(name, load) for name, load in forms.items()]


def together_cases(media: MediaLibrary, effort: Effort) -> list[Case]:
    def case(kind: str) -> Case:
        path = media.make(kind, seconds=effort.long_seconds, sample_rate=48_000, channels=2).path
        return Case(
            f"together, {kind}",
            lambda: {ONE: lambda: gather(path, 1), TOGETHER: lambda: gather(path, default_decode_threads())},
        )

    return [case(kind) for kind in LONG_KINDS]


def gather(path: Path, num_clips: int) -> Turn:
    async def main() -> Turn:
        began = time.perf_counter()
        await asyncio.gather(*(aioaudio.load(path) for _ in range(num_clips)))
        return {"wall_ms": 1e3 * (time.perf_counter() - began)}

    return aioaudio.run(main())


def summarize(results: Mapping[str, Rounds]) -> tuple[list[Grid], list[Target]]:
    gaps = Grid("Longest gap of the event loop", "ms")
    together = Grid("A gather of as many clips as threads", "ms", remark_title="ratio")
    targets = []
    for name, rounds in results.items():
        if LOADING in rounds:
            gaps.rows[name] = {contender: rounds.median(contender, "gap_ms") for contender in (IDLE, LOADING)}
            targets.append(Target(name, rounds.values(LOADING, "gap_ms"), MAX_GAP_MS, unit="ms"))
        else:
            together.rows[name] = {contender: rounds.median(contender, "wall_ms") for contender in (ONE, TOGETHER)}
            target = Target(name, rounds.ratios(TOGETHER, ONE, "wall_ms"), MAX_RATIO, unit="of one")
            together.remarks[name] = f"{target.median:.2f}"
            targets.append(target)
    return [grid for grid in (gaps, together) if grid.rows], targets


def main() -> None:
    arguments = parse_arguments(__doc__, "responsiveness")
    effort = QUICK if arguments.quick else Effort()
    with tempfile.TemporaryDirectory() as folder:
        media = MediaLibrary(Path(folder))
        cases = gap_cases(media, effort) + together_cases(media, effort)
        run_program(arguments, cases, {"aioaudio": version("aioaudio")}, summarize)


if __name__ == "__main__":
    main()
