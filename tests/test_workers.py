"""Read and decode workers: who runs when and with whom, and what is left after cancellation and closing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from aioaudio.errors import ClosedError
from aioaudio.workers import MAX_GROUP, Stop, Workers, default_workers
from aioaudio.workers.pool import Pool, Thread

MIB = 1 << 20
PATIENCE = 30  # seconds after which a thread that waits in vain gives up


class Gate:
    """A kernel whose calls wait until they are let through; knows what it was called with."""

    def __init__(self) -> None:
        self.groups: list[list[Any]] = []
        self.stops: dict[Any, Stop] = {}
        self.threads: set[str] = set()
        self._entered = threading.Semaphore(0)
        self._open = threading.Event()

    def __call__(self, tasks: list[Any], stops: Sequence[Stop]) -> list[Any]:
        self.groups.append(list(tasks))
        self.stops.update(zip(tasks, stops, strict=True))
        self.threads.add(threading.current_thread().name)
        self._entered.release()
        assert self._open.wait(PATIENCE)
        return [f"{task} done" for task in tasks]

    def open(self) -> None:
        self._open.set()

    async def entered(self) -> None:
        """Wait until a thread has come in."""
        assert await asyncio.to_thread(self._entered.acquire, timeout=PATIENCE)


class Recorder:
    """A kernel that returns at once and knows the groups that it was called with."""

    def __init__(self) -> None:
        self.groups: list[list[Any]] = []

    def __call__(self, tasks: list[Any], stops: Sequence[Stop]) -> list[Any]:
        self.groups.append(list(tasks))
        return list(tasks)


def echo(tasks: list[Any], stops: Sequence[Stop]) -> list[Any]:
    return tasks


def start(workers: Workers, kernel: Any, *tasks: Any, **options: Any) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(workers.decode(kernel, task, **options)) for task in tasks]


async def queued(workers: Workers, count: int) -> None:
    """Let the tasks just made come to their first wait, and see that `count` jobs wait for a thread."""
    await asyncio.sleep(0)
    assert workers.statistics().decode_queued == count


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    async with contextlib.aclosing(Workers(decode_threads=1, read_threads=1)) as workers:
        yield workers


@pytest.fixture
async def busy(workers: Workers) -> AsyncIterator[Gate]:
    """A gate in which the only decode thread is held."""
    gate = Gate()
    (task,) = start(workers, gate, "first")
    await gate.entered()
    yield gate
    gate.open()
    with contextlib.suppress(ClosedError):
        await task


@pytest.fixture
def no_preemption() -> Iterator[None]:
    """A thread keeps the interpreter until it waits: what a loop queues in one go is there before a worker looks."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)
    yield
    sys.setswitchinterval(interval)


# Groups


@pytest.mark.parametrize(("num_jobs", "shares"), [(2, [1, 1]), (3, [1, 1, 1]), (10, [3, 3, 4]), (30, [8, 8, 8])])
def test_idle_threads_share_what_waits(num_jobs: int, shares: list[int], no_preemption: None) -> None:
    together = threading.Barrier(min(3, num_jobs))
    groups: list[int] = []

    def kernel(tasks: list[int], stops: Sequence[Stop]) -> list[int]:
        groups.append(len(tasks))
        if len(groups) <= together.parties:
            together.wait(PATIENCE)
        return tasks

    async def decode() -> None:
        async with contextlib.aclosing(Workers(decode_threads=3)) as workers:
            gate = Gate()
            started = start(workers, gate, 1, 2, 3)
            for _ in started:
                await gate.entered()
            gate.open()
            await asyncio.gather(*started)
            assert await asyncio.gather(*start(workers, kernel, *range(num_jobs))) == list(range(num_jobs))

    asyncio.run(decode(), debug=False)  # in debug mode a loop reads source files, and lets others in meanwhile
    assert sorted(groups[: together.parties]) == shares


async def test_a_job_alone_does_not_wait_for_company(workers: Workers) -> None:
    recorder = Recorder()
    for task in range(3):
        assert await workers.decode(recorder, task) == task
    assert recorder.groups == [[0], [1], [2]]


async def test_groups_are_full_and_in_order(workers: Workers, busy: Gate) -> None:
    recorder = Recorder()
    tasks = start(workers, recorder, *range(20))
    await queued(workers, 20)
    busy.open()
    assert await asyncio.gather(*tasks) == list(range(20))
    assert recorder.groups == [list(range(8)), list(range(8, 16)), list(range(16, 20))]
    assert MAX_GROUP == 8


async def test_a_group_has_one_kernel_and_the_oldest_job_goes_first(workers: Workers, busy: Gate) -> None:
    one, other, order = Recorder(), Recorder(), list[Any]()
    tasks: list[Any] = []
    for i in range(4):
        tasks += start(workers, one, i) + start(workers, other, i)
    for task in tasks:
        task.add_done_callback(order.append)
    await queued(workers, 8)
    busy.open()
    await asyncio.gather(*tasks)
    assert one.groups == other.groups == [[0, 1, 2, 3]]
    assert order == tasks[0::2] + tasks[1::2]


async def test_jobs_that_go_alone_do_not_split_the_group_of_the_others(workers: Workers, busy: Gate) -> None:
    recorder = Recorder()
    tasks = start(workers, recorder, "a") + start(workers, recorder, "long", "longer", alone=True)
    tasks += start(workers, recorder, "b")
    await queued(workers, 4)
    busy.open()
    await asyncio.gather(*tasks)
    assert recorder.groups == [["a", "b"], ["long"], ["longer"]]


@pytest.mark.parametrize(
    ("weights", "groups"),
    [
        ([32 * MIB, 32 * MIB, 1], [[0, 1], [2]]),
        ([32 * MIB + 1, 32 * MIB, 32 * MIB], [[0], [1, 2]]),
        ([100 * MIB, 1, 1], [[0], [1, 2]]),
        ([1, 1, 100 * MIB], [[0, 1], [2]]),
    ],
)
async def test_a_group_is_bounded_in_weight(
    workers: Workers, busy: Gate, weights: list[int], groups: list[list[int]]
) -> None:
    recorder = Recorder()
    tasks = [asyncio.create_task(workers.decode(recorder, i, weight=weight)) for i, weight in enumerate(weights)]
    await queued(workers, 3)
    busy.open()
    await asyncio.gather(*tasks)
    assert recorder.groups == groups


@pytest.mark.parametrize(("descriptors", "num_threads", "jobs"), [(1024, 2, 8), (1024, 64, 4), (64, 2, 8), (64, 99, 1)])
def test_groups_are_smaller_where_descriptors_are_few(descriptors: int, num_threads: int, jobs: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, before[1]))
    try:
        assert Pool("pool", num_threads).max_group == jobs
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_direct_jobs_go_before_read_ahead(workers: Workers, busy: Gate) -> None:
    recorder = Recorder()
    tasks = start(workers, recorder, *range(10), priority=1) + start(workers, recorder, "direct")
    await queued(workers, 11)
    busy.open()
    await asyncio.gather(*tasks)
    assert recorder.groups == [["direct"], list(range(8)), [8, 9]]


def test_a_group_is_delivered_with_one_wake_up(no_preemption: None) -> None:
    class CountingLoop(asyncio.SelectorEventLoop):
        wake_ups = 0

        def call_soon_threadsafe(self, *args: Any, **options: Any) -> asyncio.Handle:
            self.wake_ups += 1
            return super().call_soon_threadsafe(*args, **options)

    async def decode_group() -> None:
        async with contextlib.aclosing(Workers(decode_threads=1)) as workers:
            await workers.decode(echo, 0)
            loop.wake_ups = 0
            await asyncio.gather(*start(workers, echo, *range(8)))
            assert loop.wake_ups == 1

    loop = CountingLoop()
    with asyncio.Runner(loop_factory=lambda: loop, debug=False) as runner:
        runner.run(decode_group())


def test_a_huge_gather_starts_no_more_threads_than_allowed() -> None:
    async def gather() -> None:
        async with contextlib.aclosing(Workers(decode_threads=2)) as workers:
            before = threading.active_count()
            tasks = [asyncio.ensure_future(workers.decode(echo, i)) for i in range(100_000)]
            await asyncio.sleep(0)
            assert threading.active_count() <= before + 2
            assert await asyncio.gather(*tasks) == list(range(100_000))

    asyncio.run(gather(), debug=False)


async def test_threads_are_named_and_started_as_needed() -> None:
    before = set(threading.enumerate())
    async with contextlib.aclosing(Workers(read_threads=4, decode_threads=2)) as workers:
        assert (workers.read_threads, workers.decode_threads) == (4, 2)
        assert set(threading.enumerate()) == before
        assert not workers.started
        gate = Gate()
        tasks = start(workers, gate, 1)
        await gate.entered()
        assert workers.started
        threads = {thread.name: thread for thread in set(threading.enumerate()) - before}
        assert not threads["aioaudio-decode-0"].daemon
        tasks += start(workers, gate, 2)
        await gate.entered()
        gate.open()
        await asyncio.gather(*tasks)
        assert gate.threads == {"aioaudio-decode-0", "aioaudio-decode-1"}
        assert await workers.read(lambda: threading.current_thread().name) == "aioaudio-read-0"


async def test_threads_that_cannot_start_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with contextlib.aclosing(Workers(decode_threads=8)) as workers:
        with monkeypatch.context() as patch:
            patch.setattr(Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="new thread"):
                await workers.decode(echo, "lost")
            assert workers.statistics().decode_queued == 0
        assert await workers.decode(echo, "first") == "first"
        monkeypatch.setattr(Thread, "start", refuse)
        assert await asyncio.gather(*start(workers, echo, *range(100))) == list(range(100))


async def test_counts_are_checked() -> None:
    with pytest.raises(ValueError, match="decode_threads"):
        Workers(decode_threads=0)
    with pytest.raises(ValueError, match="read_threads"):
        Workers(read_threads=-1)


# Results


async def test_each_task_has_its_own_result_or_exception(workers: Workers, busy: Gate) -> None:
    def kernel(tasks: list[int], stops: Sequence[Stop]) -> list[Any]:
        return [ValueError(task) if task % 2 else task for task in tasks]

    tasks = start(workers, kernel, *range(4))
    await queued(workers, 4)
    busy.open()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0::2] == [0, 2]
    assert [error.args for error in results[1::2]] == [(1,), (3,)]


@pytest.mark.parametrize("raised", [ZeroDivisionError, StopIteration, MemoryError])
async def test_what_the_kernel_raises_is_raised_for_each_task(
    workers: Workers, busy: Gate, raised: type[Exception]
) -> None:
    def kernel(tasks: list[int], stops: Sequence[Stop]) -> list[int]:
        raise raised("all of them")

    tasks = start(workers, kernel, 1, 2, 3)
    await queued(workers, 3)
    busy.open()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert "all of them" in str(result)
        assert isinstance(result, RuntimeError if raised is StopIteration else raised)
    assert await workers.decode(echo, "the thread lives") == "the thread lives"


@pytest.mark.parametrize("results", [[], [1, 2]])
async def test_a_kernel_that_gives_too_few_or_too_many_results_fails(workers: Workers, results: list[int]) -> None:
    with pytest.raises(ValueError, match="argument"):
        await workers.decode(lambda tasks, stops: results, 1)


async def test_read_gives_the_result_or_raises(workers: Workers) -> None:
    assert await workers.read(divmod, 7, 4) == (1, 3)
    with pytest.raises(ZeroDivisionError):
        await workers.read(divmod, 7, 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await workers.read(next, iter(()))


class Held:
    """A task or a result that can be seen to go."""

    def __init__(self) -> None:
        self.gone = gone = threading.Event()
        weakref.finalize(self, gone.set)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def fail(tasks: list[Held], stops: Sequence[Stop]) -> list[Held]:
    raise OSError


def fail_in_each(tasks: list[Held], stops: Sequence[Stop]) -> list[Any]:
    def fail(task: Held) -> Exception:
        try:
            raise OSError(id(task))
        except OSError as error:
            return error

    return [fail(task) for task in tasks]


@pytest.mark.parametrize("kernel", [fail, fail_in_each])
async def test_an_error_goes_without_the_collector(workers: Workers, kernel: Any, no_collector: None) -> None:
    task = Held()
    gone = task.gone
    with contextlib.suppress(OSError):
        await workers.decode(kernel, task)
    del task
    assert await asyncio.to_thread(gone.wait, PATIENCE)


class Unhashable(Exception):
    __hash__ = None  # type: ignore[assignment]


async def test_odd_exceptions_are_passed_on(workers: Workers) -> None:
    looped, odd = KeyError(), Unhashable()
    looped.__context__, odd.__cause__ = odd, looped
    for error in (looped, odd):
        with pytest.raises(type(error)):
            await workers.decode(lambda tasks, stops, error=error: [error], 1)


async def test_an_error_that_a_coroutine_has_met_does_not_end_it(workers: Workers) -> None:
    met: list[Exception] = []
    go_on = asyncio.Event()

    async def meet() -> str:
        try:
            raise OSError
        except OSError as error:
            met.append(error)
        await go_on.wait()
        return "went on"

    task = asyncio.create_task(meet())
    await asyncio.sleep(0)
    with pytest.raises(OSError):
        await workers.decode(lambda tasks, stops: [met.pop()], 1)
    go_on.set()
    assert await task == "went on"


async def test_an_error_keeps_none_of_its_group(workers: Workers, busy: Gate, no_collector: None) -> None:
    neighbour = Held()
    gone = neighbour.gone
    tasks = start(workers, fail_in_each, Held(), neighbour)
    await queued(workers, 2)
    busy.open()
    await asyncio.wait(tasks)
    error = tasks[0].exception()
    assert isinstance(error, OSError)
    assert tasks[1].exception() is not None
    del neighbour, tasks
    assert await asyncio.to_thread(gone.wait, PATIENCE)


async def test_a_sleeping_thread_keeps_no_task_and_no_result(workers: Workers, no_collector: None) -> None:
    task, result = Held(), [Held()]
    gone = task.gone, result[0].gone
    await workers.decode(lambda tasks, stops: [result.pop()], task)
    del task
    for event in gone:
        assert await asyncio.to_thread(event.wait, PATIENCE)


@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_the_deadline_counts_from_when_the_job_is_taken(
    workers: Workers, busy: Gate, timeout: float | None
) -> None:
    seen: list[tuple[float | None, float]] = []

    def kernel(tasks: list[int], stops: Sequence[Stop]) -> list[int]:
        seen.append((stops[0].deadline, time.monotonic()))
        return tasks

    tasks = start(workers, kernel, 1, timeout=timeout)
    await queued(workers, 1)
    released = time.monotonic()
    busy.open()
    await asyncio.gather(*tasks)
    ((deadline, taken),) = seen
    if timeout is None:
        assert deadline is None
    else:
        assert deadline is not None
        assert released + timeout <= deadline <= taken + timeout


# Cancellation


async def test_a_job_cancelled_in_the_queue_never_starts(workers: Workers, busy: Gate) -> None:
    recorder = Recorder()
    tasks = start(workers, recorder, *range(3)) + start(workers, recorder, 3, alone=True, uninterruptible=True)
    await queued(workers, 4)
    for task in (tasks[1], tasks[3]):
        task.cancel()
    await asyncio.wait((tasks[1], tasks[3]))  # while the thread is still held
    await queued(workers, 2)
    busy.open()
    assert await asyncio.gather(tasks[0], tasks[2]) == [0, 2]
    assert recorder.groups == [[0, 2]]
    assert tasks[1].cancelled()
    assert tasks[3].cancelled()


async def test_a_read_cancelled_in_the_queue_never_starts(workers: Workers) -> None:
    held, called = threading.Event(), list[int]()
    first = asyncio.create_task(workers.read(held.wait, PATIENCE))
    second = asyncio.create_task(workers.read(called.append, 1))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    held.set()
    assert await first
    assert await workers.read(len, called) == 0


async def test_cancelling_a_running_job_ends_the_await_and_sets_its_flag_only(workers: Workers, busy: Gate) -> None:
    gate = Gate()
    tasks = start(workers, gate, "one", "two", "three")
    await queued(workers, 3)
    busy.open()
    await gate.entered()
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    assert [gate.stops[name].is_set for name in ("one", "two", "three")] == [False, True, False]
    gate.open()
    assert await asyncio.gather(tasks[0], tasks[2]) == ["one done", "three done"]


async def test_an_uninterruptible_await_ends_when_the_thread_lets_go(workers: Workers) -> None:
    gate = Gate()
    (task,) = start(workers, gate, "out", uninterruptible=True)
    await gate.entered()
    for reason in ("first", "second", "third"):
        task.cancel(reason)
        await asyncio.wait([task], timeout=0)
        assert not task.done()
    assert gate.stops["out"].is_set
    gate.open()
    with pytest.raises(asyncio.CancelledError, match="first"):
        await task


async def test_an_uninterruptible_await_gives_the_result_or_raises(workers: Workers) -> None:
    assert await workers.decode(echo, "result", uninterruptible=True) == "result"
    with pytest.raises(KeyError):
        await workers.decode(lambda tasks, stops: [KeyError()], 1, uninterruptible=True)


async def test_a_timeout_around_an_uninterruptible_await_is_still_one(workers: Workers) -> None:
    gate = Gate()
    loop = asyncio.get_running_loop()

    async def decode() -> None:
        async with asyncio.timeout(0):
            loop.call_later(0, loop.call_later, 0, gate.open)  # after the timeout
            await workers.decode(gate, 1, uninterruptible=True)

    with pytest.raises(TimeoutError):
        await decode()


async def test_a_coroutine_that_is_closed_leaves_the_queue_without_its_lock(workers: Workers, busy: Gate) -> None:
    recorder = Recorder()
    coroutine = workers.decode(recorder, "closed")
    coroutine.send(None)
    tasks = start(workers, recorder, "kept")
    await queued(workers, 2)
    with workers._crew.decode._lock:  # as when it is collected in the middle of this very code
        coroutine.close()
    busy.open()
    await asyncio.gather(*tasks)
    assert recorder.groups == [["kept"]]


async def test_what_comes_of_a_coroutine_that_was_closed_is_not_reported_as_lost(
    workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    coroutine = workers.decode(gate, "closed")
    coroutine.send(None)
    await gate.entered()
    coroutine.close()
    assert gate.stops["closed"].is_set
    gate.open()
    await workers.decode(echo, "later")
    gate.stops.clear()
    gc.collect()
    assert not caplog.records


# Event loops


def test_loops_in_several_threads_share_the_workers() -> None:
    workers, results = Workers(decode_threads=2), dict[int, list[int]]()

    async def gather(first: int) -> None:
        results[first] = await asyncio.gather(*(workers.decode(echo, i) for i in range(first, first + 200)))

    run_in_threads(*(lambda first=first: asyncio.run(gather(first)) for first in range(0, 1600, 200)))
    assert results == {first: list(range(first, first + 200)) for first in range(0, 1600, 200)}
    asyncio.run(workers.aclose())


def test_a_loop_that_is_closed_meanwhile_harms_nobody() -> None:
    workers, gate = Workers(decode_threads=1), Gate()

    async def begin(kernel: Any, task: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(workers.decode(kernel, task))
        await asyncio.sleep(0)
        return task

    async def rest() -> None:
        await gate.entered()
        task = await begin(echo, "other")
        gate.open()
        assert await task == "other"
        await workers.aclose()

    loops = [asyncio.new_event_loop() for _ in range(2)]
    lost = [loop.run_until_complete(begin(kernel, "lost")) for loop, kernel in zip(loops, (gate, echo), strict=True)]
    for loop, task in zip(loops, lost, strict=True):
        loop.close()
        task._log_destroy_pending = False
    asyncio.run(rest())


def test_workers_outlive_the_loops_that_use_them() -> None:
    workers = Workers(decode_threads=2)
    for i in range(5):
        assert asyncio.run(workers.decode(echo, i)) == i
    asyncio.run(workers.aclose())


# Closing


async def test_aclose_interrupts_waits_for_the_threads_and_leaves_none() -> None:
    before = set(threading.enumerate())
    workers, gate, recorder = Workers(decode_threads=1, read_threads=1), Gate(), Recorder()
    workers.io()
    tasks = start(workers, gate, "running", "also running")
    await gate.entered()
    tasks += start(workers, recorder, "queued") + start(workers, recorder, "also queued", uninterruptible=True)
    held = threading.Event()
    tasks.append(asyncio.create_task(workers.read(held.wait, PATIENCE)))
    await asyncio.sleep(0)
    closing = [asyncio.create_task(workers.aclose()) for _ in range(2)]
    await asyncio.wait(tasks[2:4])
    assert gate.stops["running"].is_set
    assert not any(task.done() for task in closing)  # and this loop is free
    closing[0].cancel()
    await asyncio.wait(closing[:1])
    gate.open()
    held.set()
    for task in tasks:
        with pytest.raises(ClosedError):
            await task
    await closing[1]
    await workers.aclose()
    assert recorder.groups == []
    assert {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("aioaudio")} == set()


async def test_what_is_called_after_aclose_raises() -> None:
    workers = Workers(decode_threads=1)
    await workers.decode(echo, 1)
    await workers.aclose()
    with pytest.raises(ClosedError):
        await workers.decode(echo, 1)
    with pytest.raises(ClosedError):
        await workers.read(int)
    with pytest.raises(ClosedError):
        workers.io()
    with pytest.raises(ClosedError):
        async with workers.slot():
            pass
    assert workers.closed


async def test_workers_that_never_worked_close_too() -> None:
    workers = Workers()
    await workers.aclose()
    with pytest.raises(ClosedError):
        await workers.decode(echo, 1)


async def test_aclose_may_come_from_two_loops() -> None:
    workers, gate = Workers(decode_threads=1), Gate()
    task = start(workers, gate, 1)[0]
    await gate.entered()
    other = asyncio.create_task(asyncio.to_thread(asyncio.run, workers.aclose()))
    this = asyncio.create_task(workers.aclose())
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(this, other)
    with pytest.raises(ClosedError):
        await task


async def test_dropped_workers_let_their_threads_end() -> None:
    before = set(threading.enumerate())
    workers = Workers(decode_threads=2)
    await asyncio.gather(*start(workers, echo, *range(100)))
    await workers.read(int)
    workers.io()
    threads = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("aioaudio")]
    assert len(threads) >= 3
    with workers._crew.decode._lock:  # a finalizer must not need it
        del workers
        gc.collect()
    for thread in threads:
        await asyncio.to_thread(thread.join, PATIENCE)
        assert not thread.is_alive()


async def test_the_default_workers_are_one_set_until_they_are_closed() -> None:
    first = default_workers()
    assert {await asyncio.to_thread(default_workers) for _ in range(3)} == {first}
    assert await first.decode(echo, 1) == 1
    await first.aclose()
    second = default_workers()
    assert second is not first
    assert await second.decode(echo, 2) == 2


# The I/O thread


async def test_coroutines_run_on_the_io_thread(workers: Workers) -> None:
    async def where() -> tuple[str, str]:
        return threading.current_thread().name, type(asyncio.get_running_loop()).__module__.partition(".")[0]

    uvloop = pytest.importorskip("uvloop")
    assert await asyncio.wrap_future(workers.io().run(where())) == ("aioaudio-io", uvloop.__name__)
    assert workers.io() is workers.io()


async def test_the_io_thread_passes_on_errors_and_cancellation(workers: Workers) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await asyncio.wrap_future(workers.io().run(fail()))
    task = asyncio.ensure_future(asyncio.wrap_future(workers.io().run(wait())))
    await asyncio.wrap_future(workers.io().run(asyncio.sleep(0)))
    task.cancel()
    assert await asyncio.to_thread(cancelled.wait, PATIENCE)


async def test_the_error_of_a_call_that_was_cancelled_is_not_reported_as_lost(
    workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def fail_when_cancelled() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise KeyError from None
        finally:
            ended.set()

    future = workers.io().run(fail_when_cancelled())
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    future.cancel()
    assert await asyncio.to_thread(ended.wait, PATIENCE)
    await asyncio.wrap_future(workers.io().run(asyncio.sleep(0)))  # behind the callbacks of what has ended
    del future
    gc.collect()
    assert not caplog.records


async def test_the_io_thread_serves_code_without_a_loop(workers: Workers) -> None:
    future = workers.io().run(workers.decode(echo, "from there"))
    assert await asyncio.to_thread(future.result, PATIENCE) == "from there"


async def test_closing_interrupts_what_runs_on_the_io_thread() -> None:
    before = set(threading.enumerate())
    workers, ended = Workers(), threading.Event()
    io = workers.io()

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            ended.set()

    async def look_up() -> None:
        await asyncio.get_running_loop().run_in_executor(None, int)

    await asyncio.wrap_future(io.run(look_up()))
    future = io.run(wait())
    await asyncio.wrap_future(io.run(asyncio.sleep(0)))
    await workers.aclose()
    assert ended.is_set()
    assert set(threading.enumerate()) <= before
    assert io.loop.is_closed()
    with pytest.raises(ClosedError):
        future.result(0)
    with pytest.raises(ClosedError):
        io.run(asyncio.sleep(0))


def run_in_threads(*functions: Callable[[], None]) -> None:
    """Run all at once, each in a thread; raises what one of them raises."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
