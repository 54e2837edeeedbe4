"""Programs that end in any way, at random moments, with loads in flight: their exit codes, and what they say."""

from __future__ import annotations

import itertools
import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from children import assert_said, run_program
from clips import KnownClip

# For each way to end: the exit code, and the last line on standard error.
WAYS = {
    "returns": (0, ""),
    "raises": (1, "ZeroDivisionError: the end"),
    "exits_in_a_task": (3, ""),
    "closes": (0, ""),
    "interrupted": (-2, "KeyboardInterrupt"),
    "terminated": (-15, ""),
    "sync_interrupted": (-2, "KeyboardInterrupt"),
    "sync_in_threads": (0, ""),
}


@pytest.fixture(scope="module")
def folders(
    clips: list[KnownClip], clip_folder: Path, long_clips: list[KnownClip], long_clip_folder: Path
) -> tuple[Path, Path]:
    return clip_folder, long_clip_folder


@pytest.mark.timeout(1800)
def test_programs_end_well_at_random_moments(
    folders: tuple[Path, Path], soak: Callable[[int], int], measured: Callable[[str], None]
) -> None:
    rng = random.Random(0)
    kinds = itertools.cycle(itertools.product(WAYS, ("asyncio", "uvloop")))
    exits = [(*next(kinds), rng.randrange(1 << 30)) for _ in range(soak(200))]
    lines = "".join(f"{way} {loop} {seed}\n" for way, loop, seed in exits)
    finished = run_program("run_exits.py", *folders, stdin=lines, patience=soak(1700))
    assert (finished.code, finished.stderr) == (0, "")
    reports = [json.loads(line) for line in finished.stdout.splitlines()]
    for (way, loop, seed), report in zip(exits, reports, strict=True):
        code, last_line = WAYS[way]
        assert report["code"] == code, (way, loop, seed, report)
        assert_said(report["stderr"], last_line)
    for phase in ("group", "joining", "finalizing"):
        seconds = sorted(report[phase] for report in reports)
        measured(f"an exit's {phase}: {statistics.median(seconds):.3f} s at the median, {seconds[-1]:.3f} s at most")
