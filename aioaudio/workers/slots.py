"""A bound on what has been fetched and not yet decoded."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque

from aioaudio.errors import ClosedError

__all__ = ["Slots"]


class _Waiter:
    __slots__ = ("future", "granted", "left", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.granted: deque[None] = deque()  # holds the slot while it is passed over
        self.left = False

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Slots:
    """At most `count` holders at once, served in the order in which they asked, from any number of event loops.

    A slot is a context manager: `async with slots: ...`. Entering raises ClosedError once `close()` was called.

    There is no lock: a coroutine that is garbage collected gives its slot back from a finalizer, which may run in
    the middle of anything, this code included. Instead a slot is always in one place (free, granted to one waiter, or
    in the hand of the code that passes it on) and moves by operations that are atomic in CPython.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free: deque[None] = deque([None] * count)
        self._waiters: OrderedDict[_Waiter, None] = OrderedDict()
        self._closed = False

    @property
    def num_used(self) -> int:
        """Slots that are held, or on their way to a waiter."""
        return self.count - len(self._free)

    @property
    def num_waiting(self) -> int:
        """Tasks that wait for a slot."""
        return len(self._waiters)

    async def __aenter__(self) -> None:
        if self._closed:
            raise ClosedError("used after aclose()")
        if not self._take():  # while somebody waits, there is none free
            await self._wait()

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def close(self) -> None:
        """Raise ClosedError in all who wait."""
        self._closed = True
        with contextlib.suppress(KeyError):
            while True:
                waiter, _ = self._waiters.popitem(last=False)
                with contextlib.suppress(RuntimeError):  # its loop is closed
                    waiter.loop.call_soon_threadsafe(waiter.wake)

    async def _wait(self) -> None:
        waiter = _Waiter()
        self._waiters[waiter] = None
        # What happened between the look and the entry has not seen this waiter.
        if self._closed:
            self.close()
        elif self._take():
            self._pass_on()
        try:
            await waiter.future
        except BaseException:
            waiter.left = True
            self._waiters.pop(waiter, None)
            if _pop(waiter.granted):
                self._pass_on()
            raise
        if not waiter.granted:
            raise ClosedError("used after aclose()")

    def _take(self) -> bool:
        return _pop(self._free)

    def _pass_on(self) -> None:
        """Give the slot in hand to whoever has waited longest, else lay it with the free ones."""
        while True:
            try:
                waiter, _ = self._waiters.popitem(last=False)
            except KeyError:
                self._free.append(None)
                if self._waiters and self._take():  # one came just before it was free
                    continue
                return
            waiter.granted.append(None)
            try:
                waiter.loop.call_soon_threadsafe(waiter.wake)
            except RuntimeError:  # its loop is closed
                waiter.left = True
            # A waiter that left meanwhile passes the slot on if it has seen it; whoever takes it, takes it alone.
            if not (waiter.left and _pop(waiter.granted)):
                return


def _pop(slots: deque[None]) -> bool:
    try:
        slots.pop()
    except IndexError:
        return False
    return True
