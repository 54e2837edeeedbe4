"""The work of one stream, on the I/O thread: one order after another, and a chunk ahead of whoever consumes it."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

from aioaudio import decode as _decode
from aioaudio.audio import Audio, AudioInfo, sample_at, samples_in
from aioaudio.decode import LiveDecoder, StreamDecoder
from aioaudio.encoded import Encoded, LocalFile, NotRegularFile, OpenBytes, Readable
from aioaudio.errors import AudioError, ClosedError, DamagedAudioError
from aioaudio.fetch import ArrivingBlocks, BlockingFile, Memory, Resolved, at_hand, fetch, is_cached, warm_up
from aioaudio.loading import describe
from aioaudio.options import LoadOptions
from aioaudio.stream.feed import Feed
from aioaudio.workers import OwnThread, Stop, Workers, is_cancelled

__all__ = ["Serving", "Stretch"]

T = TypeVar("T")

# Larger files are read where they are decoded: to read all of them first would take longer than any wait for a disk.
_WARM_BYTES = 64 << 20

# What is decoded ahead: as much as was asked for last, and at most this.
_AHEAD_SECONDS = 2.0


class Stretch(NamedTuple):
    """Samples of a stream, and the place of the first of them; `goes_on` if something follows, however few they are."""

    audio: Audio
    start: int
    goes_on: bool = False


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
        self._stopped = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        # Of a source that arrives:
        self.is_live = False
        self._feed: Feed | None = None
        self._own: OwnThread | None = None
        self._thread = contextlib.AsyncExitStack()

    async def place(self, seconds: float) -> tuple[int, int]:
        """The rate of the stream in Hz, and the sample at a place. Raises io.UnsupportedOperation for one that has been
        passed by a source that arrives."""
        decoder = await self._do(self._opened)
        position = sample_at(seconds, self._rate)
        if position < decoder.earliest:
            raise io.UnsupportedOperation("what has arrived is not kept: a source that arrives is only sought forward")
        return self._rate, position

    async def info(self) -> AudioInfo:
        """What is known of the source."""
        return await self._do(self._described)

    async def read_seconds(self, start: int | None, seconds: float) -> Stretch:
        """A chunk of so many seconds from sample `start` on, None for where the options say."""
        return await self._do(partial(self._read, start, lambda rate: samples_in(seconds, rate)))

    async def read(self, start: int | None, num_samples: int) -> Stretch:
        """`num_samples` from sample `start` on."""
        return await self._do(partial(self._read, start, lambda _: num_samples))

    def stop(self) -> None:
        """Have the work end, soon."""
        self._stopped.set()

    async def close(self) -> None:
        """End the work, and wait for its end."""
        self.stop()
        if self._life is not None:
            await asyncio.shield(self._life)

    def _is_closing(self) -> bool:
        return self._stopped.is_set()

    async def _live(self) -> None:
        """Begin with the first order, and let go of everything in the end, which may be that of the I/O thread."""
        try:
            await self._stopped.wait()
        finally:
            self._stopped.set()
            for task in (*self._working, *self._ahead):
                task.cancel()
            if self._feed is not None:
                self._feed.abort()
            async with self._lock:
                await self._thread.aclose()
                if self._decoder is not None:
                    self._decoder.close()
                if self._feed is not None:
                    await self._feed.aclose()

    # One order after another

    async def _do(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await `work` in its turn. Raises ClosedError where `close` ends it."""
        if self._is_closing():
            raise ClosedError("the reader is closed")
        if self._life is None:
            self._life = asyncio.create_task(self._live())
            _lives.add(self._life)
            self._life.add_done_callback(_lives.discard)
        for ahead in self._ahead:
            ahead.cancel()
        task = asyncio.create_task(self._in_turn(work))
        self._working.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._is_closing() and not is_cancelled():
                raise ClosedError("the reader was closed") from None
            raise
        finally:
            self._working.discard(task)

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._lock:
            return await work()

    async def _order(self, decoder: StreamDecoder, work: Callable[[Stop], T], *, priority: int = 0) -> T:
        """Do `work` with the decoder, in a decode thread or its own; it ends only when the thread has let go."""
        order = _decode.Order(decoder, work)
        result: T
        if self._own is not None:
            result = await self._own.call(_decode.work_on_streams, order)
        else:
            result = await self._workers.decode(
                _decode.work_on_streams, order, timeout=self._timeout, priority=priority, uninterruptible=True
            )
        return result

    async def _read(self, start: int | None, count: Callable[[int], int]) -> Stretch:
        decoder = await self._opened()
        start, num_samples = self._origin if start is None else start, count(self._rate)
        if self._own is not None:
            return await self._read_arriving(decoder, start, num_samples)
        audio = await self._order(decoder, partial(decoder.read, start, num_samples))
        if not self._is_closing():
            self._go_ahead(decoder, start + num_samples + min(num_samples, round(_AHEAD_SECONDS * self._rate)))
        return Stretch(audio, start)

    async def _read_arriving(self, decoder: StreamDecoder, start: int, num_samples: int) -> Stretch:
        """What has come, also where it ended by an error: that is raised when there is nothing before it."""
        assert self._feed is not None
        try:
            audio = await self._order(decoder, partial(decoder.read, start, num_samples))
        except AudioError as error:
            if self._feed.error is None:
                raise
            if not isinstance(error, DamagedAudioError) or error.audio is None or not error.audio.num_samples:
                raise self._feed.error from error
            if error.audio.num_samples == num_samples:
                raise  # what is wrong there is not that the source has ended
            audio = error.audio
        is_broken = self._feed.error is not None and audio.num_samples < num_samples
        if self._feed.error is not None and not audio.num_samples:
            raise self._feed.error
        return Stretch(audio, start, goes_on=is_broken)

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
        if isinstance(decoder, LiveDecoder) and decoder.info is not None:
            return decoder.info
        options = LoadOptions(track=self._options.track, format=self._options.format)
        return await describe(self._workers, decoder.job.file, options, exact=False, timeout=self._timeout)

    async def _opened(self) -> StreamDecoder:
        if not self._rate:
            self._rate, self._origin = await self._open()
        assert self._decoder is not None
        return self._decoder

    async def _open(self) -> tuple[int, int]:
        source = self._source
        if self._feed is None and isinstance(source, LocalFile):
            with contextlib.suppress(NotRegularFile):
                return await self._open_file(source)
        if isinstance(source, Encoded | Memory) or (isinstance(source, BlockingFile) and at_hand(source) is not None):
            return await self._open_bytes(await fetch(source, self._workers, max_bytes=self._options.max_bytes))
        return await self._open_arriving(source)

    async def _open_arriving(self, source: ArrivingBlocks) -> tuple[int, int]:
        self.is_live = True
        if self._feed is None:
            self._feed = Feed(source, self._workers, self._options, self._timeout, self._home)
            self._own = await self._thread.enter_async_context(
                self._workers.own_thread("aioaudio-live", self._feed.abort)
            )
        feed = self._feed
        kind = await asyncio.wrap_future(feed.kind)
        if isinstance(kind, Encoded):
            self._own = None
            return await self._open_bytes(kind)
        if self._decoder is None:
            self._decoder = LiveDecoder(feed.pipe, source.name, kind, self._options)
        try:
            return await self._order(self._decoder, self._decoder.open)
        except AudioError as error:
            if feed.error is not None:
                raise feed.error from error
            raise

    async def _open_file(self, file: LocalFile) -> tuple[int, int]:
        with contextlib.suppress(_Cold):
            return await self._open_bytes(file, _refuse_cold)
        await warm_up(file, self._workers, timeout=self._timeout)
        return await self._open_bytes(file)

    async def _open_bytes(self, file: Readable, admit: Callable[[OpenBytes], None] | None = None) -> tuple[int, int]:
        decoder = StreamDecoder(_decode.DecodeJob(file, self._options, admit))
        try:
            opened = await self._order(decoder, decoder.open)
        except BaseException:
            decoder.close()
            raise
        self._decoder = decoder
        return opened


# A loop itself holds no task that waits for another.
_lives: set[asyncio.Task[None]] = set()


def _refuse_cold(file: OpenBytes) -> None:
    if file.size <= _WARM_BYTES and not is_cached(file):
        raise _Cold
