"""What a process holds while it loads, and after: memory, threads, descriptors, files in flight."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import json
import os
import resource
import statistics
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from children import run_program
from clips import KnownClip, OnlyReads

import aioaudio
from aioaudio.encoded import LocalFile
from aioaudio.workers import MAX_GROUP, default_workers

MIB = 2**20


def run_leaks(folder: Path, *arguments: int, patience: float = 100) -> dict[str, Any]:
    finished = run_program("run_leaks.py", folder, *arguments, patience=patience)
    assert (finished.code, finished.stderr) == (0, "")
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def growth(windows: list[dict[str, int]], what: str, loads_in_a_window: int) -> float:
    """Bytes per 1,000 loads: between the medians of the first and the last half of the windows."""
    values = [window[what] for window in windows]
    half = len(values) // 2
    early, late = statistics.median(values[:half]), statistics.median(values[-half:])
    return (late - early) / (len(values) - half) / loads_in_a_window * 1000


@pytest.mark.timeout(900)
def test_loads_of_which_a_third_fail_leave_nothing(
    clips: list[KnownClip], clip_folder: Path, soak: Callable[[int], int], measured: Callable[[str], None]
) -> None:
    num_loads = soak(10_000)
    report = run_leaks(clip_folder, 13, num_loads // 10, patience=soak(800))
    before, windows, after = report["before"], report["windows"][3:], report["after"]  # three windows to warm up
    resident, needed = (growth(windows, what, num_loads // 10) for what in ("resident", "needed"))
    measured(
        f"{num_loads} loads: {needed / 1e3:+.0f} kB of memory per 1,000, {resident / 1e3:+.0f} kB "
        "before the allocator has given back what is free"
    )
    assert needed < MIB
    assert [window["threads"] for window in windows] == [windows[0]["threads"]] * len(windows)
    assert [window["descriptors"] for window in windows] == [before["descriptors"]] * len(windows)
    assert after["threads"] == before["threads"]
    assert after["descriptors"] == before["descriptors"]


@pytest.mark.parametrize("num_threads", [2, 16])
def test_few_descriptors_are_enough(clips: list[KnownClip], clip_folder: Path, num_threads: int) -> None:
    report = run_leaks(clip_folder, 1, 1000, 64, num_threads)
    assert report["after"]["descriptors"] == report["before"]["descriptors"]


async def test_no_descriptor_left_is_not_taken_for_the_fault_of_the_file(clips: list[KnownClip]) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with aioaudio.Session(decode_threads=1) as session:
        clips[0].check(await session.load(clips[0].path))
        free = os.dup(0)
        os.close(free)
        # One more, which the library opens the file with; FFmpeg then finds none.
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, before[1]))
        try:
            for clip in clips:
                if clip.path.suffix not in (".wav", ".caf"):
                    with pytest.raises(aioaudio.FetchError) as caught:
                        await session.load(clip.path)
                    assert caught.value.errno == errno.EMFILE
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


class InFlight:
    """Counts what has been opened or begun to be read, and not been decoded yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.total = 0

    def begin(self) -> None:
        with self._lock:
            self._now += 1
            self.total += 1
            self.most = max(self.most, self._now)

    def end(self, count: int = 1) -> None:
        with self._lock:
            self._now -= count


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> InFlight:
    """Local files that are open at once."""
    in_flight, open_file = InFlight(), LocalFile.open

    @contextlib.contextmanager
    def counted(file: LocalFile) -> Iterator[Any]:
        with open_file(file) as opened:
            in_flight.begin()
            try:
                yield opened
            finally:
                in_flight.end()

    monkeypatch.setattr(LocalFile, "open", counted)
    return in_flight


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> InFlight:
    """Sources of the class `Counted` between their first read and the end of their decoding."""
    in_flight = InFlight()
    decode = importlib.import_module("aioaudio.decode")
    decode_group = decode.decode_group

    def counted(jobs: Any, stops: Any) -> Any:
        results = decode_group(jobs, stops)
        in_flight.end(len(jobs))
        return results

    monkeypatch.setattr(decode, "decode_group", counted)
    return in_flight


class Counted(OnlyReads):
    def __init__(self, data: bytes, in_flight: InFlight) -> None:
        super().__init__(data)
        self._in_flight: InFlight | None = in_flight

    def read(self, size: int) -> bytes:
        if self._in_flight is not None:
            self._in_flight.begin()
            self._in_flight = None
        return super().read(size)


async def gather_and_check(clips: list[KnownClip], source_of: Callable[[KnownClip], Any], num_loads: int) -> None:
    """One gather of `num_loads` loads: mostly WAV, for speed, and FLAC and MP3, which FFmpeg opens."""
    by_suffix = {clip.path.suffix: clip for clip in clips}
    order = [by_suffix[suffix] for suffix in (".wav", ".wav", ".wav", ".flac", ".wav", ".wav", ".wav", ".mp3")]

    async def load(clip: KnownClip) -> None:
        clip.check(await aioaudio.load(source_of(clip)))

    asyncio.get_running_loop().set_debug(False)
    await asyncio.gather(*(load(order[i % len(order)]) for i in range(num_loads)))


@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_a_huge_gather_of_paths_has_few_files_open(
    clips: list[KnownClip], opened: InFlight, soak: Callable[[int], int], measured: Callable[[str], None]
) -> None:
    bound = 2 * default_workers().decode_threads * MAX_GROUP
    await gather_and_check(clips, lambda clip: clip.path, soak(100_000))
    assert opened.total >= soak(100_000)
    assert 1 < opened.most <= bound
    measured(f"a gather of {opened.total} paths: {opened.most} files open at once, at most")


@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_huge_gather_of_files_to_be_read_holds_few_of_them(
    clips: list[KnownClip], read: InFlight, soak: Callable[[int], int], measured: Callable[[str], None]
) -> None:
    bound = 2 * default_workers().decode_threads * MAX_GROUP
    await gather_and_check(clips, lambda clip: Counted(clip.data, read), soak(100_000))
    assert read.total == soak(100_000)
    assert 1 < read.most <= bound
    measured(f"a gather of {read.total} files to be read: {read.most} in flight at once, at most")
