"""Thousands of broken files: nothing but audio errors, no crash, no hang, memory within bounds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutations import mutate, originals

import aioaudio

PROGRAM = Path(__file__).parent / "fuzz.py"
NUM_PROCESSES = 2
PATIENCE_SECONDS = 0.5  # for each mutation; most take a fiftieth of it


def test_broken_files_do_no_harm(soak: Callable[[int], int], tmp_path: Path) -> None:
    count = soak(5_000)
    bounds = [count * i // NUM_PROCESSES for i in range(NUM_PROCESSES + 1)]
    running = []
    for first, stop in pairwise(bounds):
        log = tmp_path / f"{first}.log"
        with log.open("w") as file:
            arguments = [str(first), str(stop), str(tmp_path)]
            process = subprocess.Popen([sys.executable, str(PROGRAM), *arguments], stdout=file, stderr=file)
        running.append((process, log))
    failures = []
    for process, log in running:
        try:
            code: int | None = process.wait(60 + PATIENCE_SECONDS * count)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        failures += report(code, log.read_text(errors="replace").splitlines())
    assert not failures, "\n".join(failures)


def report(code: int | None, lines: list[str]) -> list[str]:
    """What went wrong in a child, by its exit code (None: it hung) and what it printed."""
    problems = [line for line in lines if line.startswith("problem ")]
    if code == 0 and lines[-1] == "done":
        return problems
    begun = [line.removeprefix("begin ") for line in lines if line.startswith("begin ")]
    ending = "hung" if code is None else f"ended with {code}"
    return [*problems, f"{ending} in mutation {begun[-1] if begun else 'none'}", *lines[-30:]]


def test_a_child_that_ends_badly_is_reported() -> None:
    assert report(0, ["begin 7", "done"]) == []
    assert report(0, ["begin 7", "problem x", "done"]) == ["problem x"]
    assert report(-11, ["begin 7", "begin 8"])[0] == "ended with -11 in mutation 8"
    assert report(None, ["begin 7"])[0] == "hung in mutation 7"
    assert report(0, ["begin 7"]) != []


def test_a_number_gives_the_same_mutation_again(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    one, two = map(originals, folders)
    assert one == two
    for number in range(200):
        assert mutate(number, one) == mutate(number, two)
    changed = [mutate(number, one).data != one[number % len(one)][1] for number in range(200)]
    assert sum(changed) > 190


async def test_the_intact_files_are_intact(tmp_path: Path) -> None:
    for suffix, data in originals(tmp_path):
        audio = await aioaudio.load(data)
        assert audio.duration_seconds > 0.39, suffix
        assert audio.damage == (), suffix
