"""The ways in which contenders take a turn.

Peers take it with the least that Python can do around them: threads that take sources from a deque. aioaudio takes it
with all that it brings: an event loop, a task for each load, its own threads. Everybody keeps the waveforms of a turn
until it is over, as a gather does, except beside a busy thread, where everybody drops them at once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import torch
from harness import Stopwatch, Turn
from peers import Load, Source

import aioaudio
from aioaudio.decode import DecodeJob, decode_group
from aioaudio.encoded import Encoded, LocalFile
from aioaudio.options import LoadOptions
from aioaudio.workers import MAX_GROUP, Stop

__all__ = ["beside_python", "count_os_threads", "gather", "in_threads", "kernel", "one_by_one", "pump", "queued_ahead"]

# Loads in flight at once beside a busy thread: two full groups at hand, and two that wait.
_IN_FLIGHT = 4 * MAX_GROUP

_POLL_SECONDS = 0.0005


async def load(session: aioaudio.Session, source: Source, sample_rate: int | None) -> torch.Tensor:
    """Load as the peers do: float32, as in the file, or mono at a sample rate."""
    audio = await session.load(source, sample_rate=sample_rate, num_channels=1 if sample_rate else None)
    return audio.waveform


def gather(session: aioaudio.Session, sources: Sequence[Source], sample_rate: int | None) -> Turn:
    """aioaudio: all at once."""

    async def main() -> Turn:
        with Stopwatch() as watch:
            waveforms = await asyncio.gather(*(load(session, source, sample_rate) for source in sources))
        return watch.turn(len(waveforms))

    return aioaudio.run(main())


def one_by_one(session: aioaudio.Session, sources: Sequence[Source], sample_rate: int | None) -> Turn:
    """aioaudio: one await at a time."""

    async def main() -> Turn:
        with Stopwatch() as watch:
            waveforms = [await load(session, source, sample_rate) for source in sources]
        return watch.turn(len(waveforms))

    return aioaudio.run(main())


def kernel(sources: Sequence[Source], group_size: int) -> Turn:
    """aioaudio's kernel in a plain loop in this thread: what a load costs without event loop, hand-over and threads."""
    options = LoadOptions()
    files = [LocalFile(source) if isinstance(source, str) else Encoded(source) for source in sources]
    jobs = [DecodeJob(file, options) for file in files]
    groups = [jobs[at : at + group_size] for at in range(0, len(jobs), group_size)]
    stops = [Stop() for _ in range(group_size)]
    with Stopwatch() as watch:
        results = [decode_group(group, stops[: len(group)]) for group in groups]
    return watch.turn(sum(map(len, results)))


def in_threads(load: Load, sources: Sequence[Source], sample_rate: int | None, num_threads: int) -> Turn:
    """A peer: `num_threads` threads that do nothing but load."""
    waiting = deque(sources)
    waveforms = []

    def work() -> None:
        while True:
            try:
                source = waiting.popleft()
            except IndexError:
                return
            waveforms.append(load(source, sample_rate))

    threads = [threading.Thread(target=work) for _ in range(num_threads)]
    with Stopwatch() as watch:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return watch.turn(len(waveforms))


class Progress:
    """The loads that one thread has done, for another to look at. `stop` asks it to end."""

    def __init__(self) -> None:
        self.num_done = 0
        self.stop = False


def peer_pump(load: Load, source: Source, sample_rate: int | None, progress: Progress) -> None:
    """A peer: load again and again."""
    while not progress.stop:
        load(source, sample_rate)
        progress.num_done += 1


def pump(session: aioaudio.Session, source: Source, sample_rate: int | None, progress: Progress) -> None:
    """aioaudio: an event loop of this thread's own that keeps a number of loads in flight."""

    async def again_and_again() -> None:
        while not progress.stop:
            await load(session, source, sample_rate)
            progress.num_done += 1

    async def main() -> None:
        await asyncio.gather(*(again_and_again() for _ in range(_IN_FLIGHT)))

    aioaudio.run(main())


def beside_python(work: Callable[[Progress], None] | None, seconds: float) -> Turn:
    """Loads a second by `work` in a thread of its own, while this thread runs Python without pause.

    `python` is how far this thread came: turns of its loop a second. With None it is alone.
    """
    progress = Progress()
    if work is None:
        return _spin(None, seconds)
    thread = threading.Thread(target=work, args=(progress,))
    thread.start()
    while progress.num_done == 0:
        time.sleep(0.001)  # until all is warm
    turn = _spin(lambda: progress.num_done, seconds)
    progress.stop = True
    thread.join()
    return turn


def queued_ahead(session: aioaudio.Session, sources: Sequence[Source], sample_rate: int | None, seconds: float) -> Turn:
    """aioaudio: the busy thread is the event loop's own. All loads begin first, then it blocks the loop."""

    def num_done() -> int:
        now = session.workers.statistics()
        return len(sources) - now.decode_queued - now.decode_running

    async def main() -> Turn:
        tasks = [asyncio.create_task(load(session, source, sample_rate)) for source in sources]
        await asyncio.sleep(0)
        turn = _spin(num_done, seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return turn

    return aioaudio.run(main())


def _spin(num_done: Callable[[], int] | None, seconds: float) -> Turn:
    """Run Python for so long, and on until the next load is done, since they come in groups; but at most four times."""
    turns, before = 0, num_done() if num_done else 0
    last, latest, elapsed = before, 0.0, 0.0
    began = time.perf_counter()
    while elapsed < seconds or (num_done and latest < elapsed < 4 * seconds):
        for _ in range(10_000):
            turns += 1
        elapsed = time.perf_counter() - began
        if num_done and (now := num_done()) != last:
            last, latest = now, elapsed
    return {"per_second": (last - before) / (latest or elapsed), "python": turns / elapsed}


def count_os_threads(work: Callable[[], object]) -> Turn:
    """The most threads at once, during `work`, that Python has not started, beyond those from before."""
    before = last = _foreign_threads()
    most = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal most, last
        while not ended.wait(_POLL_SECONDS):
            now = _foreign_threads() - before
            most = max(most, len(now & last))  # one of Python's is foreign for a moment, while it starts or ends
            last = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    ended.set()
    watcher.join()
    return {"threads": most}


def _foreign_threads() -> set[int]:
    tasks = set(map(int, os.listdir("/proc/self/task")))
    return tasks - {thread.native_id for thread in threading.enumerate() if thread.native_id is not None}
