"""Loads broken files in every way and checks what comes of it. Run by test_mutations.py in a process of its own.

    python tests/hostile/fuzz.py FIRST STOP FOLDER    the mutations [FIRST, STOP); each that fails is kept in FOLDER
    python tests/hostile/fuzz.py replay FILE...       files that were kept

Prints `begin NUMBER` before each, `problem ...` for what must not be, and `done` at the end.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from media import DATA
from mutations import Mutation, mutate, originals

import aioaudio

MAX_SECONDS = 30.0
MAX_MIB = 256
PATIENCE_SECONDS = 60

LOADS: dict[str, dict[str, Any]] = {
    "whole": {},
    "range": {"start_seconds": 0.1, "stop_seconds": 0.3},
    "tail": {"start_seconds": 0.25, "sample_rate": 8_000},
    "resampled": {"sample_rate": 16_000, "num_channels": 1},
    "verified": {"verify": True},
    "concealed": {"on_damage": "conceal"},
    "concealed and resampled": {"on_damage": "conceal", "sample_rate": 44_100},
}


class Checker:
    """Loads each file in a group with an intact neighbour."""

    def __init__(self, session: aioaudio.Session, neighbour: Path, intact: aioaudio.Audio) -> None:
        self.session, self.neighbour, self.intact = session, neighbour, intact

    async def problems(self, source: bytes | Path) -> list[str]:
        """What must not be, in words."""
        before = _reset_peak()
        begin = time.monotonic()
        results = await asyncio.gather(
            *(self.session.load(source, max_seconds=MAX_SECONDS, **options) for options in LOADS.values()),
            self.session.info(source),
            self.session.info(source, exact=True),
            self.session.load(self.neighbour),
            return_exceptions=True,
        )
        found = []
        took, rose = time.monotonic() - begin, _peak_mib() - before
        if took > PATIENCE_SECONDS:
            found.append(f"took {took:.0f} s")
        if rose > MAX_MIB:
            found.append(f"memory rose by {rose:.0f} MiB")
        *loads, info, counted, beside = results
        found += [f"{name}: {wrong}" for name, result in zip(LOADS, loads, strict=True) for wrong in _wrong(result)]
        found += [f"info: {wrong}" for result in (info, counted) for wrong in _wrong(result)]
        by_name = dict(zip(LOADS, loads, strict=True))
        whole, concealed = by_name["whole"], by_name["concealed"]
        if isinstance(whole, aioaudio.DamagedAudioError):
            whole = whole.audio
        if isinstance(whole, aioaudio.Audio) and not _same(whole, concealed):
            found.append(f"concealed differs from whole: {concealed!r}, {whole!r}")
        if not _same(self.intact, beside):
            found.append(f"the intact neighbour came out as {beside!r}")
        return found


def _wrong(result: object) -> Iterator[str]:
    if isinstance(result, BaseException):
        unexpected = aioaudio.AudioTimeout | aioaudio.SourceError | aioaudio.ClosedError
        if not isinstance(result, aioaudio.AudioError) or isinstance(result, unexpected):
            yield repr(result)
        elif not str(result) or result.source is None:
            yield f"{result!r} does not name its source"
    elif isinstance(result, aioaudio.Audio):
        waveform = result.waveform
        if waveform.dim() != 2 or not waveform.is_contiguous() or waveform.shape[0] < 1 or result.sample_rate < 1:
            yield f"{result!r}"
        if result.duration_seconds > MAX_SECONDS + 0.001:
            yield f"longer than max_seconds: {result!r}"


def _same(expected: aioaudio.Audio, result: object) -> bool:
    return (
        isinstance(result, aioaudio.Audio)
        and result.sample_rate == expected.sample_rate
        # Not equal(): a broken file may well hold NaN.
        and result.waveform.shape == expected.waveform.shape
        and bool(result.waveform.nan_to_num().equal(expected.waveform.nan_to_num()))
    )


def _reset_peak() -> float:
    """Begin anew to measure the peak of resident memory, where Linux can; what is resident now, in MiB."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return float("inf")
    return _peak_mib()


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


async def run(mutations: Iterable[Mutation], folder: Path) -> None:
    """Check each, by path and as bytes in turns; keep those with a problem in `folder`."""
    neighbour = DATA / "jfk.flac"
    async with aioaudio.Session(decode_threads=2) as session:
        checker = Checker(session, neighbour, await session.load(neighbour))
        for mutation in mutations:
            print(f"begin {mutation.number}", flush=True)
            path = folder / f"mutation-{mutation.number}{mutation.suffix}"
            path.write_bytes(mutation.data)
            problems = await checker.problems(path if mutation.number % 2 else mutation.data)
            if not problems:
                path.unlink()
            for problem in problems:
                print(f"problem {mutation.story}: {problem}; replay {path}", flush=True)
    print("done", flush=True)


def main(arguments: list[str]) -> None:
    faulthandler.enable()
    folder = Path(tempfile.mkdtemp())
    if arguments[0] == "replay":
        kept = [Path(argument) for argument in arguments[1:]]
        mutations = [
            Mutation(2 * i + turn, str(path), path.suffix, path.read_bytes())
            for i, path in enumerate(kept)
            for turn in (0, 1)
        ]
        asyncio.run(run(mutations, folder))
        return
    files = originals(folder)
    first, stop = int(arguments[0]), int(arguments[1])
    asyncio.run(run((mutate(number, files) for number in range(first, stop)), Path(arguments[2])))


if __name__ == "__main__":
    main(sys.argv[1:])
