"""Where the clips come from: the caller's iterable, which may block, or an async one of the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from aioaudio.audio import Clip
from aioaudio.batch.order import Entry, Order, Progress, StreamOrder, is_indexable, select, select_stream

__all__ = ["Feed", "open_feed"]

T = TypeVar("T")

# How long clips are collected before those at hand are given: an input that is slow holds up nobody.
_PATIENCE_SECONDS = 0.02


class InputWorkers(Protocol):
    """Threads for what may block for as long as it likes."""

    def iterate(self, function: Callable[..., T], *args: Any) -> Coroutine[Any, Any, T]:
        """The result of a blocking call."""
        ...


class Feed(Protocol):
    """The clips of one epoch that are still to come."""

    async def take(self, count: int) -> list[Entry]:
        """At least one of the next entries and at most `count`; none at the end. Raises what the input raises.

        Gives what has come rather than wait for more.
        """
        ...

    def close(self) -> None:
        """End the input, soon. Never waits."""
        ...


def open_feed(
    clips: Any,
    as_clip: Callable[[Any], Clip],
    order: Order,
    progress: Progress,
    workers: InputWorkers,
    home: asyncio.AbstractEventLoop | None,
) -> Feed:
    """The clips of the epoch of `progress`; an async iterable is iterated on `home`, None for the running loop."""
    if isinstance(clips, AsyncIterable):
        return _AsyncFeed(clips, as_clip, StreamOrder(order, progress), home or asyncio.get_running_loop())
    if is_indexable(clips):
        return _BlockingFeed(lambda: select(clips, order, progress), as_clip, workers)
    return _BlockingFeed(lambda: select_stream(iter(clips), order, progress), as_clip, workers)


class _BlockingFeed:
    """Iterates in input threads, in one of them at a time; what it has is given also while the iterable blocks."""

    def __init__(
        self, begin: Callable[[], Iterator[Entry]], as_clip: Callable[[Any], Clip], workers: InputWorkers
    ) -> None:
        self._begin, self._as_clip, self._workers = begin, as_clip, workers
        self._loop = asyncio.get_running_loop()
        self._entries: Iterator[Entry] | None = None
        self._ready: deque[Entry] = deque()
        self._came = asyncio.Event()
        self._is_awaited = False
        self._filling: asyncio.Task[None] | None = None
        self._ended = False

    async def take(self, count: int) -> list[Entry]:
        while True:
            if self._filling is None and len(self._ready) < count and not self._ended:
                self._filling = asyncio.create_task(self._workers.iterate(self._fill, count - len(self._ready)))
            if self._filling is not None:
                await asyncio.wait([self._filling], timeout=_PATIENCE_SECONDS)
                await self._wait(self._filling)
                if self._filling.done() and not (self._ready and self._filling.exception()):
                    filled, self._filling = self._filling, None
                    filled.result()  # what the input raises comes behind what it gave
            if self._ready or (self._ended and self._filling is None):
                return [self._ready.popleft() for _ in range(min(count, len(self._ready)))]

    def close(self) -> None:
        # A generator of the caller's ends as the last reference to it goes, in the thread that is in it, if one is.
        self._ended = True
        self._entries = None
        if self._filling is not None:
            self._filling.cancel()

    async def _wait(self, filling: asyncio.Task[None]) -> None:
        """Until there is an entry, or the thread is done."""
        while not (self._ready or filling.done()):
            self._came.clear()
            self._is_awaited = True
            if self._ready:
                return
            came = asyncio.create_task(self._came.wait())
            try:
                await asyncio.wait([came, filling], return_when=asyncio.FIRST_COMPLETED)
            finally:
                came.cancel()

    def _fill(self, count: int) -> None:
        """Collect the next entries, in an input thread."""
        entries = self._entries = self._entries or self._begin()
        for entry in entries:
            self._ready.append(Entry(entry.ordinal, entry.position, self._as_clip(entry.clip)))
            if self._is_awaited:
                self._is_awaited = False
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._came.set)
            count -= 1
            if not count or self._ended:
                return
        self._ended = True


class _AsyncFeed:
    """Iterates on the caller's event loop, only when asked to."""

    def __init__(
        self,
        clips: AsyncIterable[Any],
        as_clip: Callable[[Any], Clip],
        stream: StreamOrder,
        home: asyncio.AbstractEventLoop,
    ) -> None:
        self._clips, self._as_clip, self._stream, self._home = clips, as_clip, stream, home
        self._iterator: AsyncIterator[Any] | None = None
        self._next: asyncio.Task[Any] | None = None
        self._ready: deque[Entry] = deque()
        self._error: Exception | None = None
        self._ended = False

    async def take(self, count: int) -> list[Entry]:
        if not self._ready and not self._ended:
            pull = self._pull(count)
            if self._home is asyncio.get_running_loop():
                await pull
            else:
                await asyncio.wrap_future(_submit(pull, self._home))
        if not self._ready and self._error is not None:
            raise self._error
        return [self._ready.popleft() for _ in range(min(count, len(self._ready)))]

    def close(self) -> None:
        self._ended = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._home.call_soon_threadsafe(self._begin_to_close)

    # On the caller's loop

    def _begin_to_close(self) -> None:
        closing = self._home.create_task(self._close())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)

    async def _close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
        if isinstance(self._iterator, AsyncGenerator):
            await self._iterator.aclose()

    async def _pull(self, count: int) -> None:
        """Collect the next entries: the first, however long it takes, and those that come soon after."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while len(self._ready) < count and not self._ended:
            if self._next is None:
                self._iterator = self._iterator or aiter(self._clips)
                self._next = asyncio.ensure_future(anext(self._iterator))
            patience = max(0.0, until - time.monotonic()) if self._ready else None
            done, _ = await asyncio.wait([self._next], timeout=patience)
            if not done:
                return
            self._receive(self._next)
            self._next = None

    def _receive(self, done: asyncio.Task[Any]) -> None:
        try:
            self._ready.extend(self._stream.push(self._as_clip(done.result())))
        except StopAsyncIteration:
            self._ended = True
            self._ready.extend(self._stream.finish())
        except BaseException as error:
            self._ended = True
            self._error = error if isinstance(error, Exception) else RuntimeError(f"the input raised {error!r}")


# Tasks that nobody else refers to.
_closing: set[asyncio.Task[None]] = set()


def _submit(pull: Coroutine[Any, Any, None], home: asyncio.AbstractEventLoop) -> Future[None]:
    try:
        return asyncio.run_coroutine_threadsafe(pull, home)
    except RuntimeError:  # the loop is closed
        pull.close()
        raise
