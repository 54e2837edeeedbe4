"""Threads that take waiting jobs in fair groups.

A kernel is a plain function `kernel(tasks, stops) -> results` that does the work of several jobs in one call. A thread
that becomes free takes its share of the jobs that wait for the same kernel, so that a job alone never waits for
company, two jobs are done by two threads, and thousands are done in full groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from aioaudio.errors import ClosedError
from aioaudio.workers.job import Job, Kernel, Lane, deliver, forget_locals, results_of

__all__ = ["MAX_GROUP", "Pool", "Thread", "group_limit"]

T = TypeVar("T")
R = TypeVar("R")

#: Jobs that a thread takes at once, at most; larger groups gain nothing in FFmpeg.
MAX_GROUP = 8

# Sum of the weights of a group of several jobs, in bytes: what one thread holds in memory.
_MAX_WEIGHT = 64 << 20


def group_limit(num_threads: int) -> int:
    """Jobs that each of so many threads may take at once: MAX_GROUP, fewer where descriptors are few.

    A job may need two of them, and half of those that the process may open are for all jobs together.
    """
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return MAX_GROUP
    return max(1, min(MAX_GROUP, soft_limit // 4 // num_threads))


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
        self.max_group = group_limit(num_threads)
        self.closed = False
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        # By priority, then by kernel; jobs that go alone stand in a lane of their own. No lane is empty.
        self._lanes: tuple[dict[Lane, OrderedDict[Job, None]], ...] = ({}, {})
        self._num_waiting = 0
        self._running: dict[int, list[Job]] = {}
        self._sleeping: list[threading.Lock] = []
        self._threads: list[Thread] = []

    @property
    def started(self) -> bool:
        """Whether there are threads."""
        return bool(self._threads)

    @property
    def num_queued(self) -> int:
        """Jobs that wait for a thread."""
        return self._num_waiting

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
        job = Job(
            (kernel, alone), task, weight=weight, timeout=timeout, priority=priority, uninterruptible=uninterruptible
        )
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
            self._num_waiting = 0
            running = list(itertools.chain(*self._running.values()))
            for job in itertools.chain(jobs, running):
                job.set()
            # Who waits for a running job learns of it now: a read sees no flag but the one that its caller then sets.
            jobs += (job for job in running if not job.uninterruptible)
            threads = self._threads.copy()
        deliver(jobs, [None] * len(jobs))
        return threads

    def retire(self) -> None:
        """Let idle threads end, and the others after what they are at. Takes no lock: a finalizer may call it."""
        self.closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._sleeping.pop().release()

    def _submit(self, job: Job) -> None:
        with self._lock:
            if self.closed:
                raise ClosedError("used after aclose()")
            # Threads that look at the queue before they sleep: those that work on nothing and are awake.
            looking = len(self._threads) - len(self._running) - len(self._sleeping)
            wakes = self._num_waiting >= looking
            if wakes and not self._sleeping and len(self._threads) < self.num_threads:
                self._start_thread()
            job.number = next(self._numbers)
            lanes = self._lanes[job.priority]
            lane = lanes.get(job.lane)
            if lane is None:
                lane = lanes[job.lane] = OrderedDict()
            lane[job] = None
            self._num_waiting += 1
            if wakes and self._sleeping:
                self._sleeping.pop().release()

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

    def _withdraw(self, job: Job) -> bool:
        """Take `job` out of the queue; False where it is not in it."""
        with self._lock:
            lanes = self._lanes[job.priority]
            lane = lanes.get(job.lane)
            if lane is None or job not in lane:
                return False
            del lane[job]
            self._num_waiting -= 1
            if not lane:
                del lanes[job.lane]
            return True

    async def _until_released(self, job: Job, future: asyncio.Future[Any]) -> None:
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

    def _work(self, index: int, group: list[Job]) -> None:
        kernel, _ = group[0].lane
        results = results_of(kernel, [job.task for job in group], tuple(group))
        for result in results:
            if isinstance(result, BaseException):
                forget_locals(result)
        with self._lock:
            del self._running[index]
        deliver(group, results)
        del group, results, result  # an error would refer to this frame, and the frame to the error

    def _sleep(self, wake: threading.Lock) -> None:
        if self.closed:  # by a finalizer, which may not have seen this thread among the sleeping
            self.retire()
        wake.acquire()

    def _take(self) -> list[Job]:
        """This thread's share of the waiting jobs, out of the queue; none of the read-ahead while others wait."""
        for lanes in self._lanes:
            while lanes:
                group = self._take_from(lanes)
                if group:
                    return group
        return []

    def _take_from(self, lanes: dict[Lane, OrderedDict[Job, None]]) -> list[Job]:
        waiting = sum(map(len, lanes.values()))
        idle = max(1, self.num_threads - len(self._running))
        key = next(iter(lanes)) if len(lanes) == 1 else min(lanes, key=lambda key: next(iter(lanes[key])).number)
        lane, alone = lanes[key], key[1]
        share = 1 if alone else min(self.max_group, -(-waiting // idle))
        group: list[Job] = []
        weight = 0
        now = time.monotonic()
        while lane and len(group) < share:
            job = next(iter(lane))
            weight += job.weight
            if group and weight > _MAX_WEIGHT:
                break
            del lane[job]
            self._num_waiting -= 1
            if job.is_set:  # its coroutine was collected
                continue
            if job.timeout is not None:
                job.deadline = now + job.timeout
            group.append(job)
        if not lane:
            del lanes[key]
        return group
