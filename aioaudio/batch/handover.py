"""From the I/O thread to whoever consumes: on an event loop, or in a thread that may block."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Generic, TypeVar

from aioaudio.arriving import Ended

__all__ = ["HandOver"]

T = TypeVar("T")


class HandOver(Generic[T]):
    """A queue with one producer and any number of consumers, which somebody else bounds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._ended = False
        self._waiting: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Offer an item; nobody gets it after `end`."""
        with self._lock:
            if not self._ended:
                self._items.append(item)
        self._wake_all()

    def end(self, error: BaseException | None = None) -> None:
        """No more items come; who takes what there is gets them, then `error` once, and then the end."""
        with self._lock:
            if not self._ended:
                self._ended, self._error = True, error
        self._wake_all()

    def clear(self) -> None:
        """Let go of what nobody took."""
        with self._lock:
            self._items.clear()
            self._error = None

    async def take(self) -> T:
        """The next item. Raises the error, and Ended at the end."""
        while True:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                if self._ended:
                    raise self._take_end()
                loop = asyncio.get_running_loop()
                ready: asyncio.Future[None] = loop.create_future()
                self._waiting.append(lambda loop=loop, ready=ready: _wake_on(loop, ready))  # type: ignore[misc]
            await ready

    def take_blocking(self) -> T:
        """`take` for a thread that may block."""
        while True:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                if self._ended:
                    raise self._take_end()
                ready: Future[None] = Future()
                self._waiting.append(lambda ready=ready: _wake(ready))  # type: ignore[misc]
            ready.result()

    def _wake_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def _take_end(self) -> BaseException:
        """What there is to raise at the end."""
        error, self._error = self._error, None
        return error or Ended()


def _wake_on(loop: asyncio.AbstractEventLoop, ready: asyncio.Future[None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(_settle, ready)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _wake(ready: Future[None]) -> None:
    with contextlib.suppress(InvalidStateError):
        ready.set_result(None)
