"""Ends processes in many ways, at random moments, with loads in flight.

Prints a line of JSON for each: its exit code, what it has said, and the seconds from when the end was asked for until
the groups at hand were done, from there until all threads were joined, and from there to the end of the process.

    run_exits.py FOLDER LONG_FOLDER       on stdin, for each exit: its way, "asyncio" or "uvloop", and a seed

Each process is a fork of this one, which has imported everything and started nothing. It runs as a main program does,
and goes through all of the interpreter's end.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from clips import FORMS, KnownClip, OnlyReads, read_clips

import aioaudio

MAX_DELAY = 0.15  # seconds from the first loads to the end
MAX_BYTES = 1 << 26  # of a file that never ends


class Clock:
    """Moments in a process that its parent sees, in seconds: when the end was asked for, when a decode thread last came
    out of a group, and when all threads were joined."""

    ASKED, LET_GO, JOINED = range(3)

    def __init__(self) -> None:
        self._times = mmap.mmap(-1, 24)

    def write(self, index: int) -> None:
        struct.pack_into("d", self._times, 8 * index, time.monotonic())

    def read(self) -> tuple[float, ...]:
        return struct.unpack("3d", self._times)


class Unending(OnlyReads):
    """A file-like object that never comes to its end."""

    def read(self, size: int) -> bytes:
        return bytes(size)


def interrupt() -> None:
    # To the main thread: where another one is given a signal, a lock that the main thread waits for is not left.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Program:
    """One process that ends."""

    def __init__(self, clips: list[KnownClip], long_clips: list[KnownClip], clock: Clock, seed: int) -> None:
        self.clips, self.long_clips, self.clock, self.rng = clips, long_clips, clock, random.Random(seed)
        self.time_groups()

    def time_groups(self) -> None:
        decode = importlib.import_module("aioaudio.decode")
        for name in ("decode_group", "read_infos"):
            kernel = getattr(decode, name)

            def timed(jobs: Any, stops: Any, kernel: Callable[..., Any] = kernel) -> Any:
                results = kernel(jobs, stops)
                self.clock.write(Clock.LET_GO)
                return results

            setattr(decode, name, timed)

    def flood(self, session: Any = aioaudio) -> list[asyncio.Future[Any]]:
        """Loads without end: in every form, some of them long, some of files that never end."""

        async def load_again_and_again(clips: list[KnownClip], load: Callable[..., Awaitable[aioaudio.Audio]]) -> None:
            while True:
                clip = self.rng.choice(clips)
                clip.check(await load(clip.source(self.rng.choice(FORMS))))

        async def read_again_and_again(load: Callable[..., Awaitable[aioaudio.Audio]]) -> None:
            while True:
                with contextlib.suppress(aioaudio.LimitError):
                    await load(Unending(b""), max_bytes=MAX_BYTES)

        loads = [asyncio.ensure_future(load_again_and_again(self.clips, session.load)) for _ in range(100)]
        loads += [asyncio.ensure_future(load_again_and_again(self.long_clips, session.load)) for _ in range(4)]
        loads += [asyncio.ensure_future(read_again_and_again(session.load)) for _ in range(2)]
        loads += [asyncio.ensure_future(session.info(self.clips[0].path)) for _ in range(100)]
        return loads

    def end_at_a_random_moment(self, end: Callable[[], None]) -> None:
        """Call `end` from another thread within `MAX_DELAY`."""

        def ask() -> None:
            self.clock.write(Clock.ASKED)
            end()

        threading.Timer(self.rng.uniform(0, MAX_DELAY), ask).start()

    async def until_a_random_moment(self) -> None:
        loop, moment = asyncio.get_running_loop(), asyncio.Event()
        self.end_at_a_random_moment(lambda: loop.call_soon_threadsafe(moment.set))
        await moment.wait()

    async def returns(self) -> None:
        self.flood()
        await self.until_a_random_moment()

    async def raises(self) -> None:
        self.flood()
        await self.until_a_random_moment()
        raise ZeroDivisionError("the end")

    async def exits_in_a_task(self) -> None:
        async def exit_at_a_random_moment() -> None:
            await self.until_a_random_moment()
            sys.exit(3)

        await asyncio.gather(exit_at_a_random_moment(), *self.flood(), return_exceptions=True)

    async def closes(self) -> None:
        async with aioaudio.Session(decode_threads=2) as session:
            loads = self.flood(session)
            await self.until_a_random_moment()
        for result in await asyncio.gather(*loads, return_exceptions=True):
            assert isinstance(result, aioaudio.ClosedError | aioaudio.AudioInfo), result

    async def interrupted(self) -> None:
        self.end_at_a_random_moment(interrupt)
        await asyncio.gather(*self.flood())

    async def terminated(self) -> None:
        self.end_at_a_random_moment(terminate)
        await asyncio.gather(*self.flood())

    def sync_interrupted(self) -> None:
        self.end_at_a_random_moment(interrupt)
        while True:
            aioaudio.sync.load(self.rng.choice(self.clips + self.long_clips).path)

    def sync_in_threads(self) -> None:
        """The main thread ends while others, which are no daemons, go on loading."""
        ended = threading.Event()

        def load() -> None:
            with contextlib.suppress(aioaudio.ClosedError):
                while True:
                    clip = self.rng.choice(self.clips + self.long_clips)
                    clip.check(aioaudio.sync.load(clip.path))

        for _ in range(3):
            threading.Thread(target=load).start()
        self.end_at_a_random_moment(ended.set)
        ended.wait()

    def run(self, way: str, loop: str) -> None:
        atexit.register(self.clock.write, Clock.JOINED)  # the interpreter joins its threads before it calls this
        main = getattr(self, way)
        if not asyncio.iscoroutinefunction(main):
            main()
        elif loop == "uvloop":
            aioaudio.run(main())
        else:
            asyncio.run(main())


def wait_for(pid: int, clock: Clock, stderr: Any) -> dict[str, Any]:
    _, status = os.waitpid(pid, 0)
    ended = time.monotonic()
    asked, let_go, joined = clock.read()
    stderr.seek(0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "stderr": stderr.read().decode(),
        "group": max(0, let_go - asked),
        "joining": (joined or ended) - max(asked, let_go),  # a signal may leave nothing to join
        "finalizing": ended - (joined or ended),
    }


def serve(folder: Path, long_folder: Path) -> Callable[[], None] | None:
    """Fork once for each line; in the child, give what it has to run."""
    clips, long_clips = read_clips(folder), read_clips(long_folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell has started in the background
    gc.freeze()  # or else each child takes a second to collect what PyTorch has imported
    for line in sys.stdin:
        way, loop, seed = line.split()
        with tempfile.TemporaryFile() as stderr:
            clock = Clock()
            pid = os.fork()
            if pid == 0:
                os.dup2(stderr.fileno(), 2)
                program = Program(clips, long_clips, clock, int(seed))
                return lambda: program.run(way, loop)
            print(json.dumps(wait_for(pid, clock, stderr)), flush=True)
    return None


if __name__ == "__main__":
    if run := serve(Path(sys.argv[1]), Path(sys.argv[2])):
        run()
