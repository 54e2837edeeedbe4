"""The place where a reader is, and what it asks the I/O thread for.

The place moves only when samples have been handed over: what was asked for by somebody who has been cancelled meanwhile
is asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from aioaudio.arriving import Ended
from aioaudio.audio import Audio, AudioInfo, Clip, samples_in
from aioaudio.errors import ClosedError
from aioaudio.stream.serving import Serving, Stretch
from aioaudio.workers import IOThread, Workers

__all__ = ["Reading"]

T = TypeVar("T")


class Reading:
    """What a reader holds of the work; the work holds nothing of it."""

    def __init__(
        self,
        workers: Callable[[], Workers],
        serve: Callable[[Workers, asyncio.AbstractEventLoop | None], Serving],
        start_seconds: float,
        chunk_seconds: float,
        hop_seconds: float,
        clip: Clip | None,
    ) -> None:
        self._workers, self._serve, self._clip = workers, serve, clip
        self._start_seconds, self._chunk_seconds, self._hop_seconds = start_seconds, chunk_seconds, hop_seconds
        self._turn = asyncio.Lock()
        self._io: IOThread
        self._serving: Serving | None = None
        self._has_begun = self._closed = False
        self._is_ending = False
        self._rate = 0  # until it is known
        self._position: int | None = None  # of the next samples; None is where the options say
        self._given = 0  # up to where chunks were given
        self._at_end = False  # no chunk comes any more

    # Its life

    @property
    def is_open(self) -> bool:
        """Whether work may be going on."""
        return self._serving is not None and not self._is_ending

    def check_not_begun(self) -> None:
        """Raise RuntimeError once anything was asked for."""
        if self._has_begun or self._closed:
            raise RuntimeError("samples have been asked for already")

    def start(self, home: asyncio.AbstractEventLoop | None) -> None:
        """Begin, if that has not been done; `home` is the caller's loop, if it has one."""
        if self._serving is None and not self._closed:
            workers = self._workers()
            self._io = workers.io()
            self._serving = self._serve(workers, home)
            self._is_ending = False
            self._has_begun = True

    def stop(self) -> None:
        """Have the work end, soon. Never waits, and takes no lock: a finalizer may call it."""
        self._closed = True
        if self._serving is not None:
            self._end(self._serving)

    async def close(self) -> None:
        """End the work for good, and wait for its end."""
        self._closed = True
        await self.let_go()

    def close_blocking(self) -> None:
        """`close` in a thread that may block."""
        self._closed = True
        self.let_go_blocking()

    async def let_go(self) -> None:
        """End the work, which may be begun anew, and wait for its end."""
        serving = self._serving
        if serving is not None:
            self._end(serving)
            with contextlib.suppress(ClosedError):  # the session is closed, and the work with it
                await self._on_io(serving.close())
            self._serving = None

    def let_go_blocking(self) -> None:
        """`let_go` in a thread that may block."""
        serving = self._serving
        if serving is not None:
            self._end(serving)
            with contextlib.suppress(ClosedError):
                self._wait(serving.close())
            self._serving = None

    def _end(self, serving: Serving) -> None:
        """Ask for the end, which comes also where nobody waits for it."""
        self._is_ending = True
        self._closed = self._closed or serving.is_live  # there is no going back
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the work with it
            self._io.loop.call_soon_threadsafe(serving.stop)

    # What is asked of it

    async def take(self) -> Audio:
        """The next chunk. Raises Ended at the end."""
        async with self._turn:
            return self._chunk(await self._on_io(self._next_chunk()))

    def take_blocking(self) -> Audio:
        """`take` in a thread that may block."""
        return self._chunk(self._wait(self._next_chunk()))

    async def read(self, num_samples: int) -> Audio:
        """The next `num_samples`, fewer at the end."""
        async with self._turn:
            return self._samples(await self._on_io(self._open().read(self._position, num_samples)))

    def read_blocking(self, num_samples: int) -> Audio:
        """`read` in a thread that may block."""
        return self._samples(self._wait(self._open().read(self._position, num_samples)))

    async def seek(self, seconds: float) -> None:
        """Go to a place."""
        async with self._turn:
            self._go_to(*await self._on_io(self._open().place(seconds)))

    def seek_blocking(self, seconds: float) -> None:
        """`seek` in a thread that may block."""
        self._go_to(*self._wait(self._open().place(seconds)))

    async def info(self) -> AudioInfo:
        """What is known of the source."""
        return await self._on_io(self._open().info())

    def info_blocking(self) -> AudioInfo:
        """`info` in a thread that may block."""
        return self._wait(self._open().info())

    def tell(self) -> float:
        """The place, in seconds."""
        return self._start_seconds if self._position is None else self._position / self._rate

    # The place

    def _next_chunk(self) -> Coroutine[Any, Any, Stretch]:
        if self._closed or self._at_end or self._serving is None:
            raise Ended
        return self._serving.read_seconds(self._position, self._chunk_seconds)

    def _chunk(self, stretch: Stretch) -> Audio:
        audio = self._audio(stretch)
        end = stretch.start + audio.num_samples
        self._at_end = not stretch.goes_on and audio.num_samples < samples_in(self._chunk_seconds, self._rate)
        if end <= self._given and not audio.damage:  # nothing that has not been given
            self._at_end = True
            raise Ended
        self._given = end
        self._position = stretch.start + samples_in(self._hop_seconds, self._rate)
        return audio

    def _samples(self, stretch: Stretch) -> Audio:
        audio = self._audio(stretch)
        self._position = self._given = stretch.start + audio.num_samples
        return audio

    def _audio(self, stretch: Stretch) -> Audio:
        self._rate = stretch.audio.sample_rate
        self._given = max(self._given, stretch.start if self._position is None else 0)
        return stretch.audio if self._clip is None else replace(stretch.audio, clip=self._clip)

    def _go_to(self, sample_rate: int, position: int) -> None:
        self._rate, self._at_end = sample_rate, False
        self._position = self._given = position

    def _open(self) -> Serving:
        if self._serving is None:
            raise ClosedError("the reader is closed")
        return self._serving

    # Between threads

    async def _on_io(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._io.run(work))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._io.run(work)
        try:
            return future.result()
        finally:
            future.cancel()  # an interrupt ends the wait: end the work, too
