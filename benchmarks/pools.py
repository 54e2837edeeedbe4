"""How many threads should read, and how many decode: the two pools, varied.

slow source   Batches of 16 from file objects whose bytes come after 50 ms, as from a distant server: each read waits.
              With enough read threads the waiting is hidden, and clips come as fast as they are decoded, which is what
              "in memory" measures: the same bytes, at hand.
cold files    Batches from files that were pushed out of the page cache before the turn, once each; "in memory" are the
              same files, left there. Where the disk is fast, or has a cache of its own, little is to be seen.

The clips are LibriSpeech's FLAC of `../shared/audio`, or, where that is missing, those of `tests/data`.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from harness import Case, Contender, Grid, Rounds, Target, Turn, parse_arguments, run_program
from pipeline import clips_of

import aioaudio

Sources = Callable[[], Sequence[Any]]

WAIT_SECONDS = 0.05
DECODE_THREADS = (1, 2)
READ_THREADS = (4, 16, 32, 64)
BATCH_SIZE = 16
PREFETCH = 8

AT_HAND = "in memory"
ENOUGH = "32 read threads"
MIN_RATIO = 0.95


@dataclass(frozen=True)
class Effort:
    num_clips: int = 512
    max_files: int = 1000


QUICK = Effort(num_clips=16, max_files=4)


class SlowFile(io.RawIOBase):
    """The bytes of a file, of which the first come late."""

    def __init__(self, data: bytes) -> None:
        self._file, self._is_waiting = io.BytesIO(data), True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._is_waiting:
            self._is_waiting = False
            time.sleep(WAIT_SECONDS)
        return self._file.readinto(buffer)


def rate(sources: Sources, *, read_threads: int, decode_threads: int) -> Turn:
    """How fast `sources` become batches."""

    async def main() -> Turn:
        clips = sources()
        async with aioaudio.Session(read_threads=read_threads, decode_threads=decode_threads) as session:
            began = time.perf_counter()
            async with session.batches(clips, batch_size=BATCH_SIZE, prefetch=PREFETCH) as batches:
                count = sum([len(batch.lengths) async for batch in batches])
            return {"per_second": count / (time.perf_counter() - began)}

    return aioaudio.run(main())


def cases(effort: Effort) -> Iterator[Case]:
    files = clips_of("flac")[1][: effort.max_files]
    data = [Path(file).read_bytes() for file in islice(cycle(files), effort.num_clips)]

    def cold_files() -> list[str]:
        for file in files:
            push_out(file)
        return files

    for threads in DECODE_THREADS:
        slow = partial(contenders, lambda: [SlowFile(one) for one in data], lambda: data, threads)
        yield Case(f"slow source, decode threads: {threads}", slow)
    for threads in DECODE_THREADS:
        yield Case(f"cold files, decode threads: {threads}", partial(contenders, cold_files, lambda: files, threads))


def contenders(slow: Sources, at_hand: Sources, decode_threads: int) -> Mapping[str, Contender]:
    """Pools of several sizes on slow sources, and the same clips at hand."""
    made: dict[str, Contender] = {
        f"{count} read threads": partial(rate, slow, read_threads=count, decode_threads=decode_threads)
        for count in READ_THREADS
    }
    made[AT_HAND] = partial(rate, at_hand, read_threads=1, decode_threads=decode_threads)
    return made


def push_out(path: str) -> None:
    """Have the system forget what it holds of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def summarize(results: Mapping[str, Rounds]) -> tuple[list[Grid], list[Target]]:
    grid = Grid("Clips a second", "1/s", remark_title=f"{ENOUGH} ÷ {AT_HAND}")
    targets = []
    for name, rounds in results.items():
        grid.rows[name] = {contender: rounds.median(contender, "per_second") for contender in rounds.turns}
        target = Target(name, rounds.ratios(ENOUGH, AT_HAND, "per_second"), MIN_RATIO, least=True, unit=f"of {AT_HAND}")
        grid.remarks[name] = f"{target.median:.2f}"
        targets.append(target)
    return [grid], targets


def main() -> None:
    arguments = parse_arguments(__doc__, "pools")
    effort = QUICK if arguments.quick else Effort()
    run_program(arguments, cases(effort), {"aioaudio": version("aioaudio")}, summarize)


if __name__ == "__main__":
    main()
