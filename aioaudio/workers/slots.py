"""A bound on what has been fetched and not yet decoded."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque

from aioaudio.errors import ClosedError

__all__ = ["Slot", "Slots"]


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
    """At most `count` holders at once, from any number of event loops.

    A slot is a context manager: `async with slots.slot(priority): ...`. Those of priority 0 are served before those of
    priority 1, and each in the order in which they asked. Entering raises ClosedError once `close()` was called.

    There is no lock: a coroutine that is garbage collected gives its slot back from a finalizer, which may run in
    the middle of anything, this code included. Instead a slot is always in one place (free, granted to one waiter, or
    in the hand of the code that passes it on) and moves by operations that are atomic in CPython.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free: deque[None] = deque([None] * count)
        # By priority.
        self._waiters: tuple[OrderedDict[_Waiter, None], ...] = (OrderedDict(), OrderedDict())
        self._closed = False

    @property
    def num_used(self) -> int:
        """Slots that are held, or on their way to a waiter."""
        return self.count - len(self._free)

    @property
    def num_waiting(self) -> int:
        """Tasks that wait for a slot."""
        return sum(map(len, self._waiters))

    def slot(self, priority: int = 0) -> Slot:
        """A slot for one holder after the other."""
        return Slot(self, priority)

    def close(self) -> None:
        """Raise ClosedError in all who wait."""
        self._closed = True
        while waiter := self._next_waiter():
            with contextlib.suppress(RuntimeError):  # its loop is closed
                waiter.loop.call_soon_threadsafe(waiter.wake)

    async def take(self, priority: int) -> None:
        """Wait for a slot."""
        if self._closed:
            raise ClosedError("used after aclose()")
        if not self._take():  # while somebody waits, there is none free
            await self._wait(self._waiters[priority])

    def give_back(self) -> None:
        """Let go of a slot: it goes to whoever comes next, else to the free ones."""
        while True:
            waiter = self._next_waiter()
            if waiter is None:
                self._free.append(None)
                if self.num_waiting and self._take():  # one came just before it was free
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

    async def _wait(self, waiters: OrderedDict[_Waiter, None]) -> None:
        waiter = _Waiter()
        waiters[waiter] = None
        # What happened between the look and the entry has not seen this waiter.
        if self._closed:
            self.close()
        elif self._take():
            self.give_back()
        try:
            await waiter.future
        except BaseException:
            waiter.left = True
            waiters.pop(waiter, None)
            if _pop(waiter.granted):
                self.give_back()
            raise
        if not waiter.granted:
            raise ClosedError("used after aclose()")

    def _next_waiter(self) -> _Waiter | None:
        for waiters in self._waiters:
            with contextlib.suppress(KeyError):
                return waiters.popitem(last=False)[0]
        return None

    def _take(self) -> bool:
        return _pop(self._free)


class Slot:
    """`async with` it: wait for a slot, hold it, and give it back."""

    __slots__ = ("_priority", "_slots")

    def __init__(self, slots: Slots, priority: int) -> None:
        self._slots, self._priority = slots, priority

    async def __aenter__(self) -> None:
        await self._slots.take(self._priority)

    async def __aexit__(self, *_: object) -> None:
        self._slots.give_back()


def _pop(slots: deque[None]) -> bool:
    try:
        slots.pop()
    except IndexError:
        return False
    return True
