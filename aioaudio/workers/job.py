"""One queued call: what a kernel sees of it, and how its result comes back to the event loop that waits."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, TypeAlias, TypeVar

from aioaudio.errors import ClosedError

__all__ = ["Job", "Kernel", "Lane", "Stop", "deliver", "forget_locals", "is_cancelled", "results_of"]

T = TypeVar("T")
R = TypeVar("R")

# Emptying the frame of one of these would end it.
_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


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
Lane: TypeAlias = tuple[Kernel[Any, Any], bool]


class Job(Stop):
    """A queued call; the kernel sees it as its Stop. `future` is None once nobody waits."""

    __slots__ = ("future", "lane", "loop", "number", "priority", "task", "timeout", "uninterruptible", "weight")

    def __init__(
        self, lane: Lane, task: Any, *, weight: int, timeout: float | None, priority: int, uninterruptible: bool
    ) -> None:
        super().__init__()
        self.lane = lane
        self.task = task
        self.weight = weight
        self.timeout = timeout
        self.priority = priority
        self.uninterruptible = uninterruptible
        self.number = 0
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] | None = self.loop.create_future()


def results_of(kernel: Kernel[T, R], tasks: list[T], stops: Sequence[Stop]) -> Sequence[R | BaseException]:
    """One result or exception for each task; what the kernel itself raises is everybody's."""
    try:
        return [result for result, _ in zip(kernel(tasks, stops), stops, strict=True)]
    except BaseException as error:
        return [error] * len(stops)


def forget_locals(error: BaseException | None) -> None:
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


def is_cancelled() -> bool:
    """Whether a cancellation is meant for the running task: what it awaits may raise one of its own."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def deliver(jobs: list[Job], results: Sequence[Any]) -> None:
    """Hand over the results with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Job, Any]]] = {}
    for job, result in zip(jobs, results, strict=True):
        by_loop.setdefault(job.loop, []).append((job, result))
    for loop, outcomes in by_loop.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there
            loop.call_soon_threadsafe(_settle, outcomes)


def _as_error(raised: BaseException) -> Exception:
    """What a job has raised, as something that ends neither a coroutine quietly nor an event loop."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration | StopAsyncIteration):
        return raised
    error = RuntimeError(f"{raised!r} was raised")
    error.__cause__ = raised
    return error


def _settle(outcomes: list[tuple[Job, Any]]) -> None:
    for job, result in outcomes:
        future = job.future
        if future is None or future.done():
            continue
        if job.is_set:  # then the result may be half of one; who still waits was not cancelled, but closed
            future.set_exception(ClosedError("closed by aclose()"))
        elif isinstance(result, BaseException):
            future.set_exception(_as_error(result))
        else:
            future.set_result(result)
