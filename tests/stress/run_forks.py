"""Forks again and again while its threads decode; parent and children load, and each checks what it gets.

run_forks.py FOLDER NUM_FORKS
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

from clips import FORMS, KnownClip, load_all, load_and_check, read_clips

import aioaudio


class Loaders:
    """Threads that load without end: two with event loops of their own, one without."""

    def __init__(self, clips: list[KnownClip]) -> None:
        self._clips = clips
        self._end = threading.Event()
        self._errors: list[BaseException] = []
        self.begun = threading.Semaphore(0)
        run: tuple[Callable[[], None], ...] = (
            lambda: asyncio.run(self._gather_again_and_again()),
            lambda: aioaudio.run(self._gather_again_and_again()),
            self._load_again_and_again,
        )
        self._threads = [threading.Thread(target=self._guarded, args=(target,)) for target in run]
        for thread in self._threads:
            thread.start()

    def _guarded(self, target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:
            self._errors.append(error)
            self.begun.release()

    async def _gather_again_and_again(self) -> None:
        rng = random.Random(0)
        while not self._end.is_set():
            await asyncio.gather(*(load_and_check(rng.choice(self._clips), rng.choice(FORMS)) for _ in range(20)))
            self.begun.release()

    def _load_again_and_again(self) -> None:
        rng = random.Random(1)
        while not self._end.is_set():
            clip = rng.choice(self._clips)
            clip.check(aioaudio.sync.load(clip.path))
            self.begun.release()

    def finish(self) -> None:
        """Wait for the threads; raises what one of them has met."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]


def run_child(clips: list[KnownClip], index: int) -> None:
    """The child of a fork: in turn with a loop, without one, and with a loop and a close."""
    match index % 3:
        case 0:
            asyncio.run(load_all(clips))
        case 1:
            for clip in clips:
                clip.check(aioaudio.sync.load(clip.path))
        case _:
            aioaudio.run(load_all(clips))
            aioaudio.run(aioaudio.aclose())
    gc.collect()


def main(folder: Path, num_forks: int) -> None:
    clips = read_clips(folder)
    loaders = Loaders(clips)
    rng = random.Random(2)
    for index in range(num_forks):
        for _ in range(rng.randint(1, 4)):
            loaders.begun.acquire()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                run_child(clips, index)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if status:
            os._exit(1)  # the child has said why
    loaders.finish()


if __name__ == "__main__":
    # Said by Python 3.12 and later: the child of a process with threads may meet a lock that nobody opens.
    warnings.simplefilter("ignore", DeprecationWarning)
    main(Path(sys.argv[1]), int(sys.argv[2]))
