"""Threads that take waiting jobs in fair groups.

A kernel is a plain function `kernel(tasks, stops) -> results` that does the work of several jobs in one call. A thread
that becomes free takes its share of the jobs that wait for the same kernel, so that a job alone never waits for
company, two jobs are done by two threads, and thousands are done in full groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from types import FrameType, TracebackType
from typing import Any, TypeAlias, TypeVar, cast

from aioaudio.errors import ClosedError

__all__ = ["MAX_GROUP", "Kernel", "Pool", "Stop", "Thread"]

T = TypeVar("T")
R = TypeVar("R")

#: Jobs that a thread takes at once, at most; larger groups gain nothing in FFmpeg.
MAX_GROUP = 8

# Emptying the frame of one of these would end it.
_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

# Sum of the weights of a group of several jobs, in bytes: what one thread holds in memory.
_MAX_WEIGHT = 64 << 20


class Stop:
    """What a kernel sees of whoever waits for a job.

    `is_set` turns true once nobody waits any more: the kernel should return soon, and what it returns for this job is
    dropped. `deadline`, in seconds of `time.monotonic()`, is when the job's timeout ends, None without a timeout.
    """

    __slots__ = ("deadline", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self.deadline: float | None = None

    def set(self) -> None:
        """Ask the kernel to stop."""
        self.is_set = True


Kernel: TypeAlias = Callable[[list[T], Sequence[Stop]], Iterable[R | BaseException]]
_Lane: TypeAlias = tuple[Kernel[Any, Any], bool]


class _Job(Stop):
    """A queued call; the kernel sees it as its Stop. `future` is None once nobody waits."""

    __slots__ = ("future", "lane", "loop", "number", "priority", "task", "timeout", "weight")

    def __init__(self, lane: _Lane, task: Any, weight: int, timeout: float | None, priority: int) -> None:
        super().__init__()
        self.lane = lane
        self.task = task
        self.weight = weight
        self.timeout = timeout
        self.priority = priority
        self.number = 0
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] | None = self.loop.create_future()


class Thread(threading.Thread):
    """A thread whose end can be awaited: the future `ended` has a result when only its last instructions are left."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        # A daemon thread inside C code aborts the process when the interpreter goes away beneath it.
        super().__init__(target=target, name=name, daemon=False)
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()  # so that whoever waits for it cannot cancel it

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.ended.set_result(None)


class Pool:
    """Up to `num_threads` threads, started as jobs come, and the queue before them."""

    def __init__(self, name: str, num_threads: int) -> None:
        self.name = name
        self.num_threads = num_threads
        self.closed = False
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        # By priority, then by kernel; jobs that go alone stand in a lane of their own. No lane is empty.
        self._lanes: tuple[dict[_Lane, OrderedDict[_Job, None]], ...] = ({}, {})
        self._running: dict[int, list[_Job]] = {}
        self._sleeping: list[threading.Lock] = []
        self._threads: list[Thread] = []

    @property
    def started(self) -> bool:
        """Whether there are threads."""
        return bool(self._threads)

    @property
    def num_queued(self) -> int:
        """Jobs that wait for a thread."""
        with self._lock:
            return self._num_waiting()

    @property
    def num_running(self) -> int:
        """Jobs that threads are working on."""
        with self._lock:
            return sum(map(len, self._running.values()))

    async def call(
        self,
        kernel: Kernel[T, R],
        task: T,
        *,
        weight: int = 0,
        alone: bool = False,
        timeout: float | None = None,
        priority: int = 0,
        uninterruptible: bool = False,
    ) -> R:
        """The kernel's result for `task`; documented in `Workers.decode`."""
        job = _Job((kernel, alone), task, weight, timeout, priority)
        future = cast("asyncio.Future[R]", job.future)
        try:
            self._submit(job)
            if uninterruptible:
                await self._until_released(job, future)
            return await future
        except asyncio.CancelledError:
            self._withdraw(job)
            raise
        finally:
            # Reached by a collected coroutine, too, in the middle of anything: so no lock is taken here.
            job.set()
            job.future = None
            del job, future  # an error would refer to this frame, and the frame to the error

    def close(self) -> list[Thread]:
        """Raise ClosedError in all who wait, set the stop flags, and let the threads end; gives those threads."""
        with self._lock:
            self.retire()
            jobs = [job for lanes in self._lanes for lane in lanes.values() for job in lane]
            for lanes in self._lanes:
                lanes.clear()
            for job in itertools.chain(jobs, *self._running.values()):
                job.set()
            threads = self._threads.copy()
        _deliver(jobs, [None] * len(jobs))
        return threads

    def retire(self) -> None:
        """Let idle threads end, and the others after what they are at. Takes no lock: a finalizer may call it."""
        self.closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._sleeping.pop().release()

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self.closed:
                raise ClosedError("used after aclose()")
            # Threads that look at the queue before they sleep: those that work on nothing and are awake.
            looking = len(self._threads) - len(self._running) - len(self._sleeping)
            wakes = self._num_waiting() >= looking
            if wakes and not self._sleeping and len(self._threads) < self.num_threads:
                self._start_thread()
            job.number = next(self._numbers)
            lanes = self._lanes[job.priority]
            lane = lanes.get(job.lane)
            if lane is None:
                lane = lanes[job.lane] = OrderedDict()
            lane[job] = None
            if wakes and self._sleeping:
                self._sleeping.pop().release()

    def _num_waiting(self) -> int:
        return sum(len(lane) for lanes in self._lanes for lane in lanes.values())

    def _start_thread(self) -> None:
        index = len(self._threads)
        thread = Thread(lambda: self._serve(index), f"{self.name}-{index}")
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads; those that run will do
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _withdraw(self, job: _Job) -> bool:
        """Take `job` out of the queue; False where it is not in it."""
        with self._lock:
            lanes = self._lanes[job.priority]
            lane = lanes.get(job.lane)
            if lane is None or job not in lane:
                return False
            del lane[job]
            if not lane:
                del lanes[job.lane]
            return True

    async def _until_released(self, job: _Job, future: asyncio.Future[Any]) -> None:
        """Wait until no thread works on `job`; then raise the first of the cancellations that came meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        try:
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError as error:
                    cancelled = cancelled or error
                    if self._withdraw(job):
                        break
                    job.set()
            if cancelled is not None:
                if future.done():
                    future.exception()  # seen, so that the loop does not report it as lost
                raise cancelled
        finally:
            del cancelled

    def _serve(self, index: int) -> None:
        wake = threading.Lock()
        wake.acquire()
        while True:
            with self._lock:
                if self.closed:
                    return
                group = self._take()
                if group:
                    self._running[index] = group
                else:
                    self._sleeping.append(wake)
            if group:
                self._work(index, group)
            else:
                self._sleep(wake)

    def _work(self, index: int, group: list[_Job]) -> None:
        kernel, _ = group[0].lane
        results = _results(kernel, [job.task for job in group], tuple(group))
        for result in results:
            if isinstance(result, BaseException):
                _forget_locals(result)
        with self._lock:
            del self._running[index]
        _deliver(group, results)
        del group, results, result  # an error would refer to this frame, and the frame to the error

    def _sleep(self, wake: threading.Lock) -> None:
        if self.closed:  # by a finalizer, which may not have seen this thread among the sleeping
            self.retire()
        wake.acquire()

    def _take(self) -> list[_Job]:
        """This thread's share of the waiting jobs, out of the queue; none of the read-ahead while others wait."""
        for lanes in self._lanes:
            while lanes:
                group = self._take_from(lanes)
                if group:
                    return group
        return []

    def _take_from(self, lanes: dict[_Lane, OrderedDict[_Job, None]]) -> list[_Job]:
        waiting = sum(map(len, lanes.values()))
        idle = max(1, self.num_threads - len(self._running))
        key = next(iter(lanes)) if len(lanes) == 1 else min(lanes, key=lambda key: next(iter(lanes[key])).number)
        lane, alone = lanes[key], key[1]
        share = 1 if alone else min(MAX_GROUP, -(-waiting // idle))
        group: list[_Job] = []
        weight = 0
        now = time.monotonic()
        while lane and len(group) < share:
            job = next(iter(lane))
            weight += job.weight
            if group and weight > _MAX_WEIGHT:
                break
            del lane[job]
            if job.is_set:  # its coroutine was collected
                continue
            if job.timeout is not None:
                job.deadline = now + job.timeout
            group.append(job)
        if not lane:
            del lanes[key]
        return group


def _results(kernel: Kernel[T, R], tasks: list[T], stops: Sequence[Stop]) -> Sequence[R | BaseException]:
    try:
        return [result for result, _ in zip(kernel(tasks, stops), stops, strict=True)]
    except BaseException as error:
        return [error] * len(stops)


def _forget_locals(error: BaseException | None) -> None:
    """Empty the frames that an error refers to: whoever keeps one should not keep what its whole group had open."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        for frame in _frames(error.__traceback__):
            if not frame.f_code.co_flags & _RESUMABLE:
                with contextlib.suppress(RuntimeError):  # it is running
                    frame.clear()
        error = error.__cause__ or error.__context__


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    """The frames of a traceback, and those that called the first of them."""
    if trace is not None and trace.tb_frame.f_back is not None:
        yield from (frame for frame, _ in traceback.walk_stack(trace.tb_frame.f_back))
    yield from (frame for frame, _ in traceback.walk_tb(trace))


def _deliver(jobs: list[_Job], results: Sequence[Any]) -> None:
    """Hand over the results with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Job, Any]]] = {}
    for job, result in zip(jobs, results, strict=True):
        by_loop.setdefault(job.loop, []).append((job, result))
    for loop, outcomes in by_loop.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there
            loop.call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: list[tuple[_Job, Any]]) -> None:
    for job, result in outcomes:
        future = job.future
        if future is None or future.done():
            continue
        if job.is_set:  # then the result may be half of one; who still waits was not cancelled, but closed
            future.set_exception(ClosedError("closed by aclose()"))
        elif isinstance(result, StopIteration):  # which a future refuses, since it would end a coroutine quietly
            future.set_exception(RuntimeError(f"{result!r} was raised"))
        elif isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)
