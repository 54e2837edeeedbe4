"""What is gained by loading ahead with `submit`, with one decode thread and one thread of PyTorch's.

Clips are submitted, then something is computed that takes as long as loading them, then the samples of all clips are
used. If one hid the other wholly, this would take as long as the longer of the two, each measured alone in the same
round.

torch     The computation is PyTorch's, which lets go of the GIL.
python    The computation is Python's own, which does not; no target is set.
failures  As many loads that fail, used and unused, have gone before.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from harness import Case, Contender, Grid, Rounds, Target, Turn, parse_arguments, run_program
from media import MediaLibrary

import aioaudio

KINDS = ("wav", "flac", "mp3")
LOADS, COMPUTATION, OVERLAPPED = "loads", "computation", "submit, compute, use"

MAX_RATIO = 1.25


@dataclass(frozen=True)
class Effort:
    """How many clips are loaded, and how long they are."""

    num_clips: int = 16
    clip_seconds: float = 10


QUICK = Effort(num_clips=8, clip_seconds=1)


class Torch:
    """Steps of a computation that lets go of the GIL."""

    def __init__(self) -> None:
        self._matrix = torch.rand(256, 256)

    def __call__(self) -> None:
        torch.linalg.multi_dot([self._matrix] * 3)


def python() -> None:
    """A step of a computation that holds the GIL."""
    sum(i * i for i in range(10_000))


class Overlap:
    """Loads and a computation of the same length, alone and at once."""

    def __init__(self, session: aioaudio.Session, sources: Sequence[Path], step: Callable[[], None]) -> None:
        self._session, self._sources, self._step = session, sources, step
        seconds = min(self._loads()["seconds"] for _ in range(3))
        self._num_steps = 1
        while (took := self._compute()["seconds"]) < seconds / 4:
            self._num_steps *= 2
        self._num_steps = max(1, round(self._num_steps * seconds / took))

    def contenders(self) -> Mapping[str, Contender]:
        return {LOADS: self._loads, COMPUTATION: self._compute, OVERLAPPED: self._overlapped}

    def _loads(self) -> Turn:
        return self._timed(computes=False, loads=True)

    def _compute(self) -> Turn:
        return self._timed(computes=True, loads=False)

    def _overlapped(self) -> Turn:
        return self._timed(computes=True, loads=True)

    def _timed(self, *, computes: bool, loads: bool) -> Turn:
        began = time.perf_counter()
        lazies = [self._session.submit(path, sample_rate=16_000) for path in self._sources] if loads else []
        for _ in range(self._num_steps if computes else 0):
            self._step()
        for lazy in lazies:
            lazy[0, 0].item()
        return {"seconds": time.perf_counter() - began}


class AfterFailures(Overlap):
    """The same, after loads that failed."""

    def _timed(self, *, computes: bool, loads: bool) -> Turn:
        broken = [self._session.submit(b"RIFF no audio" * i) for i in range(len(self._sources))]
        for lazy in broken:
            with contextlib.suppress(aioaudio.AudioError):
                lazy.sum()
        for _ in self._sources:
            self._session.submit("/missing.wav").cancel()
        return super()._timed(computes=computes, loads=loads)


def make_cases(session: aioaudio.Session, media: MediaLibrary, effort: Effort) -> list[Case]:
    def case(name: str, make: type[Overlap], kind: str, step: Callable[[], None]) -> Case:
        def prepare() -> Mapping[str, Contender]:
            path = media.make(kind, seconds=effort.clip_seconds, sample_rate=48_000, channels=2).path
            return make(session, [path] * effort.num_clips, step).contenders()

        return Case(f"{kind}, {name}", prepare)

    cases = [case("torch", Overlap, kind, Torch()) for kind in KINDS]
    cases += [case("python", Overlap, kind, python) for kind in KINDS]
    return [*cases, *(case("failures", AfterFailures, kind, Torch()) for kind in KINDS)]


def summarize(results: Mapping[str, Rounds]) -> tuple[list[Grid], list[Target]]:
    grid = Grid("Loads and a computation, one decode thread", "ms", remark_title="ratio")
    targets = []
    for name, rounds in results.items():
        alone = zip(rounds.values(LOADS, "seconds"), rounds.values(COMPUTATION, "seconds"), strict=True)
        overlapped = rounds.values(OVERLAPPED, "seconds")
        ratios = [both / max(one, other) for both, (one, other) in zip(overlapped, alone, strict=True)]
        target = Target(name, ratios, MAX_RATIO, unit="of the longer")
        grid.rows[name] = {who: 1e3 * rounds.median(who, "seconds") for who in (LOADS, COMPUTATION, OVERLAPPED)}
        grid.remarks[name] = f"{target.median:.2f}"
        if "python" not in name:  # where two threads want the GIL, one cannot hide the other
            targets.append(target)
    return ([grid] if grid.rows else []), targets


def main() -> None:
    arguments = parse_arguments(__doc__, "lazy")
    contenders = {"aioaudio": version("aioaudio"), "torch": torch.__version__}
    torch.set_num_threads(1)
    session = aioaudio.Session(decode_threads=1)
    with tempfile.TemporaryDirectory() as folder:
        cases = make_cases(session, MediaLibrary(Path(folder)), QUICK if arguments.quick else Effort())
        run_program(arguments, cases, contenders, summarize)
    asyncio.run(session.aclose())


if __name__ == "__main__":
    main()
