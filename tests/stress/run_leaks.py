"""Loads clips of every format in every form, a third of the loads failing, and prints what the process holds as JSON.

run_leaks.py FOLDER NUM_WINDOWS LOADS_IN_A_WINDOW [MAX_DESCRIPTORS DECODE_THREADS]
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import random
import resource
import sys
import threading
from pathlib import Path
from typing import Any

from clips import FORMS, KnownClip, OnlyReads, failing_loads, read_clips

import aioaudio

PATIENCE = 30  # seconds


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def holdings() -> dict[str, int]:
    """What the process holds now. `needed` is resident memory once the allocator has given back what is free."""
    gc.collect()
    resident = resident_bytes()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return {
        "resident": resident,
        "needed": resident_bytes(),
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
    }


class Together(OnlyReads):
    """Read only once as many as there are read threads are being read."""

    def __init__(self, data: bytes, barrier: threading.Barrier) -> None:
        super().__init__(data)
        self._barrier = barrier
        self._waits = True

    def read(self, size: int) -> bytes:
        if self._waits:
            self._barrier.wait(PATIENCE)
            self._waits = False
        return super().read(size)


class Loads:
    """Loads of `clips` by a session, each of which has to go as it should."""

    def __init__(self, session: aioaudio.Session, clips: list[KnownClip]) -> None:
        self._session, self._clips, self._rng = session, clips, random.Random(0)

    async def start_all_threads(self) -> None:
        barrier = threading.Barrier(self._session.workers.read_threads)
        data = self._clips[0].data
        await asyncio.gather(*(self._session.load(Together(data, barrier)) for _ in range(barrier.parties)))

    async def run(self, count: int, largest: int) -> None:
        """`count` loads, of which every third fails, in gathers of random sizes up to `largest`."""
        begun = 0
        while begun < count:
            end = min(count, begun + self._rng.randint(1, largest))
            await asyncio.gather(*(self._fail(i // 3) if i % 3 == 0 else self._load() for i in range(begun, end)))
            begun = end

    async def _load(self) -> None:
        clip = self._rng.choice(self._clips)
        clip.check(await self._session.load(clip.source(self._rng.choice(FORMS))))

    async def _fail(self, index: int) -> None:
        cases = failing_loads(self._clips, self._rng)
        error_type, source, options = cases[index % len(cases)]
        try:
            await self._session.load(source, **options)
        except error_type:
            return
        raise AssertionError(f"no {error_type.__name__} was raised")


async def main(
    folder: Path, num_windows: int, count: int, max_descriptors: int | None = None, decode_threads: int | None = None
) -> dict[str, Any]:
    clips, largest = read_clips(folder), 64
    before = holdings()
    if max_descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max_descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        largest = count
    windows = []
    async with aioaudio.Session(decode_threads=decode_threads) as session:
        loads = Loads(session, clips)
        await loads.start_all_threads()
        for _ in range(num_windows):
            await loads.run(count, largest)
            windows.append(holdings())
    return {"before": before, "windows": windows, "after": holdings()}


if __name__ == "__main__":
    print(json.dumps(aioaudio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))))
