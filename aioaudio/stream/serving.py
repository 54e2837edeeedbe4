"""The work of one stream, on the I/O thread: one order after another, and a chunk ahead of whoever consumes it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

from aioaudio import decode as _decode
from aioaudio.audio import Audio, AudioInfo
from aioaudio.decode import StreamDecoder
from aioaudio.encoded import LocalFile, NotRegularFile, OpenBytes, Readable
from aioaudio.errors import ClosedError
from aioaudio.fetch import Resolved, fetch, is_cached, warm_up
from aioaudio.loading import describe
from aioaudio.options import LoadOptions
from aioaudio.workers import Stop, Workers

__all__ = ["Piece", "Serving"]

T = TypeVar("T")

# Larger files are read where they are decoded: to read all of them first would take longer than any wait for a disk.
_WARM_BYTES = 64 << 20

# What is decoded ahead, at most: samples of all channels are not counted, since a chunk of them was asked for before.
_AHEAD_SECONDS = 2.0


class Piece(NamedTuple):
    """Samples of a stream, and the place of the first of them."""

    audio: Audio
    start: int


class _Cold(Exception):
    """The file is not in the page cache."""


class Serving:
    """A stream at work. All of it runs on the I/O loop; `close` ends it."""

    def __init__(
        self,
        workers: Workers,
        source: Resolved,
        options: LoadOptions,
        timeout: float | None,
        home: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._workers, self._source, self._options, self._timeout = workers, source, options, timeout
        self._home = home
        self._lock = asyncio.Lock()
        self._decoder: StreamDecoder | None = None
        self._rate = self._origin = 0
        self._working: set[asyncio.Task[Any]] = set()
        self._ahead: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    async def sample_rate(self) -> int:
        """Rate of the stream in Hz."""
        await self._do(self._opened)
        return self._rate

    async def info(self) -> AudioInfo:
        """What is known of the source."""
        return await self._do(self._described)

    async def read_seconds(self, start: int | None, seconds: float) -> Piece:
        """A chunk of so many seconds from sample `start` on, None for where the options say."""
        return await self._do(partial(self._read, start, lambda rate: max(1, math.floor(seconds * rate + 0.5))))

    async def read(self, start: int | None, num_samples: int) -> Piece:
        """`num_samples` from sample `start` on."""
        return await self._do(partial(self._read, start, lambda _: num_samples))

    def stop(self) -> None:
        """Have the work end, soon."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())

    async def close(self) -> None:
        """End the work, and wait for its end."""
        self.stop()
        assert self._closing is not None
        await asyncio.shield(self._closing)

    def _is_closing(self) -> bool:
        return self._closing is not None

    async def _close(self) -> None:
        for task in (*self._working, *self._ahead):
            task.cancel()
        async with self._lock:
            if self._decoder is not None:
                self._decoder.close()

    # One order after another

    async def _do(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await `work` in its turn. Raises ClosedError where `close` ends it."""
        if self._is_closing():
            raise ClosedError("the reader is closed")
        for ahead in self._ahead:
            ahead.cancel()
        task = asyncio.create_task(self._in_turn(work))
        self._working.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if self._is_closing() and this is not None and not this.cancelling():
                raise ClosedError("the reader was closed") from None
            raise
        finally:
            self._working.discard(task)

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._lock:
            return await work()

    async def _order(self, decoder: StreamDecoder, work: Callable[[Stop], T], *, priority: int = 0) -> T:
        """Do `work` with the decoder in a decode thread; it ends only when the thread has let go."""
        order = _decode.Order(decoder, work)
        result: T = await self._workers.decode(
            _decode.work_on_streams, order, timeout=self._timeout, priority=priority, uninterruptible=True
        )
        return result

    async def _read(self, start: int | None, count: Callable[[int], int]) -> Piece:
        decoder = await self._opened()
        start, num_samples = self._origin if start is None else start, count(self._rate)
        audio = await self._order(decoder, partial(decoder.read, start, num_samples))
        if not self._is_closing():
            self._go_ahead(decoder, start + num_samples + min(num_samples, round(_AHEAD_SECONDS * self._rate)))
        return Piece(audio, start)

    def _go_ahead(self, decoder: StreamDecoder, until: int) -> None:
        task = asyncio.create_task(self._in_turn(partial(self._decode_ahead, decoder, until)))
        self._ahead.add(task)
        task.add_done_callback(self._ahead.discard)

    async def _decode_ahead(self, decoder: StreamDecoder, until: int) -> None:
        # Whatever goes wrong goes wrong again for whoever asks for these samples.
        with contextlib.suppress(Exception):
            await self._order(decoder, partial(decoder.decode_ahead, until), priority=1)

    # From a source to a decoder

    async def _described(self) -> AudioInfo:
        decoder = await self._opened()
        options = LoadOptions(track=self._options.track, format=self._options.format)
        return await describe(self._workers, decoder.job.file, options, exact=False, timeout=self._timeout)

    async def _opened(self) -> StreamDecoder:
        if self._decoder is None:
            decoder, (self._rate, self._origin) = await self._open()
            self._decoder = decoder
        return self._decoder

    async def _open(self) -> tuple[StreamDecoder, tuple[int, int]]:
        source = self._source
        if isinstance(source, LocalFile):
            with contextlib.suppress(NotRegularFile):
                return await self._open_file(source)
        file = await fetch(
            source, self._workers, max_bytes=self._options.max_bytes, timeout=self._timeout, home=self._home
        )
        return await self._open_bytes(file)

    async def _open_file(self, file: LocalFile) -> tuple[StreamDecoder, tuple[int, int]]:
        with contextlib.suppress(_Cold):
            return await self._open_bytes(file, _refuse_cold)
        await warm_up(file, self._workers, timeout=self._timeout)
        return await self._open_bytes(file)

    async def _open_bytes(
        self, file: Readable, admit: Callable[[OpenBytes], None] | None = None
    ) -> tuple[StreamDecoder, tuple[int, int]]:
        decoder = StreamDecoder(_decode.DecodeJob(file, self._options, admit))
        try:
            return decoder, await self._order(decoder, decoder.open)
        except BaseException:
            decoder.close()
            raise


def _refuse_cold(file: OpenBytes) -> None:
    if file.size <= _WARM_BYTES and not is_cached(file):
        raise _Cold
