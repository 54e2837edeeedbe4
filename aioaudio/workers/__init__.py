"""The only place that starts threads: read and decode workers and the I/O thread.

Nothing here knows of audio; functions and kernels are handed in. No thread runs before there is work for it, and none
is a daemon. At the end of the interpreter the threads finish what they are at, with their stop flags set, and no more.
In the child of a fork every `Workers` begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from aioaudio.errors import ClosedError
from aioaudio.workers.cpus import available_cpus, default_decode_threads
from aioaudio.workers.io import IOThread
from aioaudio.workers.job import Kernel, Stop, is_cancelled
from aioaudio.workers.own import OwnThread
from aioaudio.workers.pool import MAX_GROUP, Pool, Thread
from aioaudio.workers.slots import Slots

if TYPE_CHECKING:
    from aioaudio.fetch import HTTPOptions

__all__ = [
    "MAX_GROUP",
    "IOThread",
    "Kernel",
    "OwnThread",
    "Statistics",
    "Stop",
    "Thread",
    "Workers",
    "available_cpus",
    "default_decode_threads",
    "default_workers",
    "is_cancelled",
]

T = TypeVar("T")
R = TypeVar("R")

# Reads wait, they do not compute: enough of them at once to keep a disk or a file server busy.
_READ_THREADS = 16

# A caller's own iterable may wait for as long as it likes, so each that does has a thread: this many are far too many.
_INPUT_THREADS = 256


class Statistics(NamedTuple):
    """What `Workers` are doing: jobs that wait and jobs that run, slots (held, and tasks that wait for one), and inputs
    that are being iterated."""

    read_queued: int
    read_running: int
    decode_queued: int
    decode_running: int
    slots_used: int
    slots_waiting: int
    inputs_running: int


class _Crew:
    """What a `Workers` has in one process: its threads and their queues."""

    def __init__(self, read_threads: int, decode_threads: int) -> None:
        self.read = Pool("aioaudio-read", read_threads)
        self.decode = Pool("aioaudio-decode", decode_threads)
        self.input = Pool("aioaudio-input", _INPUT_THREADS)
        # As many as are decoded at once, and as many again as are read at once, or are decoded next.
        self.slots = Slots(decode_threads * MAX_GROUP + max(read_threads, decode_threads * MAX_GROUP))
        self.io: IOThread | None = None
        self.own: set[OwnThread] = set()

    @property
    def started(self) -> bool:
        return self.read.started or self.decode.started or self.input.started or self.io is not None or bool(self.own)

    def close(self) -> list[Thread]:
        """Stop everything; gives the threads that are about to end."""
        self.slots.close()
        threads = self.read.close() + self.decode.close() + self.input.close()
        for own in self.own.copy():
            threads += own.close()
        if self.io is not None:
            self.io.close()
            threads.append(self.io.thread)
        return threads

    def __del__(self) -> None:
        self.read.retire()
        self.decode.retire()
        self.input.retire()
        for own in self.own.copy():
            own.retire()
        if self.io is not None:
            self.io.retire()


class Workers:
    """Read and decode threads and an I/O thread, for any number of event loops in any threads.

    `read_threads` (default 16) read, `decode_threads` (default `default_decode_threads()`) decode. Constructing starts
    none of them; `aclose()` ends them. What is called after it raises ClosedError, as do the calls that it interrupts.
    Workers that are dropped without it let their threads end, and nobody waits for that. `http` is for whoever uses the
    network on the I/O thread; nothing here looks at it.
    """

    def __init__(
        self,
        *,
        read_threads: int | None = None,
        decode_threads: int | None = None,
        http: HTTPOptions | None = None,
    ) -> None:
        for name, value in (("read_threads", read_threads), ("decode_threads", decode_threads)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self.http = http
        self._options = read_threads, decode_threads
        self._closed = False
        self._lock = threading.Lock()
        self._crew: _Crew | None = None
        _every[id(self)] = self

    @property
    def read_threads(self) -> int:
        """Reads that run at once, at most."""
        return self._open_crew().read.num_threads

    @property
    def decode_threads(self) -> int:
        """Decode jobs or groups of them that run at once, at most."""
        return self._open_crew().decode.num_threads

    @property
    def started(self) -> bool:
        """Whether threads were started, in this process."""
        return self._crew is not None and self._crew.started

    @property
    def closed(self) -> bool:
        """Whether `aclose()` was called."""
        return self._closed

    def statistics(self) -> Statistics:
        """What is going on now."""
        crew = self._open_crew()
        return Statistics(
            read_queued=crew.read.num_queued,
            read_running=crew.read.num_running,
            decode_queued=crew.decode.num_queued,
            decode_running=crew.decode.num_running,
            slots_used=crew.slots.num_used,
            slots_waiting=crew.slots.num_waiting,
            inputs_running=crew.input.num_queued + crew.input.num_running,
        )

    def read(self, function: Callable[..., R], *args: Any, priority: int = 0) -> Coroutine[Any, Any, R]:
        """The result of one blocking call in a read thread; `priority` is as in `decode`.

        On cancellation a call that has not begun never does; one that runs goes on, and its result is dropped.
        """
        return self._open_crew().read.call(_call_one, (function, args), alone=True, priority=priority)

    def iterate(self, function: Callable[..., R], *args: Any) -> Coroutine[Any, Any, R]:
        """`read` for code that may block for as long as it likes: in a thread that nobody else waits for."""
        return self._open_crew().input.call(_call_one, (function, args), alone=True)

    def decode(
        self,
        kernel: Kernel[T, R],
        task: T,
        *,
        weight: int = 0,
        alone: bool = False,
        timeout: float | None = None,
        priority: int = 0,
        uninterruptible: bool = False,
    ) -> Coroutine[Any, Any, R]:
        """The result for `task` of `kernel(tasks, stops)`, called in a decode thread with a group of tasks.

        The kernel gives one result for each task, in their order; one that is an exception is raised here, and what
        the kernel itself raises is raised for each task. A thread that becomes free takes the oldest job and its
        share of the jobs that wait for the same kernel, ceil(waiting / idle threads), at most MAX_GROUP, or fewer where
        the process may open so few descriptors that the threads would use them up. Weights are bytes: a group of
        several has 64 MiB at most. `alone` jobs are a group each. Jobs of `priority` 0 (direct) go
        before those of priority 1 (read-ahead). `timeout` seconds after the thread took the job, its
        `Stop.deadline` has come; to heed it is the kernel's business.

        On cancellation a job that has not begun never does. For one that runs, `Stop.is_set` turns true, and the
        await ends at once; with `uninterruptible` it ends when the thread has let go, however often it is cancelled,
        and then raises the first cancellation. The others in its group get their results in any case.
        """
        return self._open_crew().decode.call(
            kernel,
            task,
            weight=weight,
            alone=alone,
            timeout=timeout,
            priority=priority,
            uninterruptible=uninterruptible,
        )

    def slot(self, *, priority: int = 0) -> AbstractAsyncContextManager[None]:
        """A place for one source between fetching and decoding: `async with workers.slot(): ...`.

        There are decode_threads × MAX_GROUP of them, and as many again, or read_threads where that is more, for all
        event loops together. They are given in the order in which they are asked for, but to read-ahead (priority 1)
        only when nobody else waits. Whoever holds one must not ask for another. A task in a loop that no longer runs
        keeps its slot until the task is collected.
        """
        return self._open_crew().slots.slot(priority)

    @contextlib.asynccontextmanager
    async def own_thread(self, name: str, free: Callable[[], None]) -> AsyncIterator[OwnThread]:
        """A thread for work that waits for the world, and so must not take a decode thread from others.

        `free` is documented in OwnThread; leaving the context calls it, and waits for the thread.
        """
        crew = self._open_crew()
        own = OwnThread(name, free)
        crew.own.add(own)
        try:
            if self._closed:
                raise ClosedError("used after aclose()")
            yield own
        finally:
            for thread in own.close():
                await asyncio.wrap_future(thread.ended)
                _join_ended(thread)
            crew.own.discard(own)

    def io(self) -> IOThread:
        """The I/O thread, started at the first call; `io().run(coroutine)` runs there.

        After a fork it is another one, so what is bound to its loop (such as an HTTP client) must be made anew, too.
        """
        crew = self._open_crew()
        if crew.io is None:
            with self._lock:
                if crew.io is None and not self._closed:
                    crew.io = IOThread()
        if crew.io is None:
            raise ClosedError("used after aclose()")
        return crew.io

    def close(self) -> list[Thread]:
        """What `aclose()` does, without waiting: gives the threads that are about to end."""
        with self._lock:
            self._closed = True
            crew = self._crew
        return crew.close() if crew is not None else []

    async def aclose(self) -> None:
        """Raise ClosedError in all who wait, set the stop flags of what runs, and wait for the threads.

        May be called again, also when the first call was cancelled, and from any event loop but the I/O thread's.
        """
        for thread in self.close():
            await asyncio.wrap_future(thread.ended)
            _join_ended(thread)

    def _open_crew(self) -> _Crew:
        if self._closed:
            raise ClosedError("used after aclose()")
        return self._crew or self._make_crew()

    def _make_crew(self) -> _Crew:
        # Only when it is needed: a DataLoader worker knows that it is one only some time after it was forked.
        read_threads, decode_threads = self._options
        with self._lock:
            if self._closed or _exiting:
                raise ClosedError("used after aclose()")
            if self._crew is None:
                self._crew = _Crew(read_threads or _READ_THREADS, decode_threads or default_decode_threads())
            return self._crew

    def _begin_anew(self) -> None:
        """Forget the threads, in the child of a fork, where there are none of them."""
        if self._crew is not None:
            _left_by_parent.append(self._crew)
        self._lock = threading.Lock()
        self._crew = None


def default_workers() -> Workers:
    """The workers of whoever brings none: one set per process, made anew once it was closed."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = Workers()
        return _default


def _call_one(tasks: list[tuple[Callable[..., R], tuple[Any, ...]]], _: Sequence[Stop]) -> list[R]:
    [(function, args)] = tasks
    return [function(*args)]


def _join_ended(thread: Thread) -> None:
    """Join a thread that has only its last instructions left, as asyncio does with its executor's."""
    thread.join()


def _after_fork_in_child() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    for reference in _every.valuerefs():
        workers = reference()
        if workers is not None:
            workers._begin_anew()


def _at_exit() -> None:
    global _exiting
    _exiting = True
    for reference in _every.valuerefs():
        workers = reference()
        if workers is not None:
            workers.close()


_every: weakref.WeakValueDictionary[int, Workers] = weakref.WeakValueDictionary()
_exiting = False
_default: Workers | None = None
_default_lock = threading.Lock()

# Kept, since with them would go the parent's tasks, and their cleaning up is the parent's business.
_left_by_parent: list[_Crew] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

# Called before the interpreter joins its threads, whereas atexit calls after it, which is never if a thread waits for
# the call. It is how concurrent.futures ends its own threads, and the only way that needs no thread to watch.
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]
