"""The loads of one pass through the clips, in the order of the input or as they complete."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Self, TypeVar

from aioaudio.batch.order import Progress
from aioaudio.workers import is_cancelled

__all__ = ["Segment"]

T = TypeVar("T")


class Segment(Generic[T]):
    """Loads that run, added by one task and awaited by another."""

    def __init__(self, progress: Progress, *, in_order: bool) -> None:
        self.progress = progress
        self.is_abandoned = False
        self._in_order = in_order
        self._ready: deque[asyncio.Task[T]] = deque()
        self._running: set[asyncio.Task[T]] = set()
        self._changed = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None

    def add(self, load: asyncio.Task[T]) -> None:
        """A load has begun."""
        self._running.add(load)
        load.add_done_callback(self._done)
        if self._in_order:
            self._ready.append(load)
            self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        """No more loads begin; `error` is raised behind the last of them."""
        self._ended, self._error = True, error
        self._changed.set()

    def abandon(self) -> list[T]:
        """End it: what runs is cancelled, and nobody gets what there is but the caller."""
        self.is_abandoned = True
        for load in self._running:
            load.cancel()
        # In order, one that runs is among the ready, unless somebody awaits it and so has it.
        left = self._ready if self._in_order else self._running.union(self._ready)
        ended = [load.result() for load in left if load.done() and not load.cancelled() and load.exception() is None]
        self._ready.clear()
        self._changed.set()
        return ended

    def loads(self) -> list[asyncio.Task[T]]:
        """The loads whose results nobody has had."""
        return list(self._running.union(self._ready))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """What the next load gives. Raises what it raises."""
        while self.is_abandoned or not self._ready:
            if self.is_abandoned and not self._running:
                raise StopAsyncIteration
            if self._ended and not self._running:
                raise self._error or StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        load = self._ready.popleft()
        try:
            return await load
        except asyncio.CancelledError:
            if not load.cancelled() or is_cancelled():
                raise
            return await anext(self)  # this was given up meanwhile

    def _done(self, load: asyncio.Task[T]) -> None:
        self._running.discard(load)
        if not self._in_order:
            self._ready.append(load)
        self._changed.set()
