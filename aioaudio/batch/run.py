"""One run of a pipeline: begun with the first result that is asked for, on the I/O thread, and ended in any case."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from aioaudio.arriving import Ended
from aioaudio.batch.failures import FailureLog
from aioaudio.batch.flow import Delivery
from aioaudio.batch.order import Order, Progress
from aioaudio.batch.pipeline import Pipeline
from aioaudio.batch.room import Room
from aioaudio.batch.statistics import Meter
from aioaudio.errors import ClosedError
from aioaudio.workers import Workers

__all__ = ["Run"]

R = TypeVar("R")

Make = Callable[[Workers, "asyncio.AbstractEventLoop | None", Progress], tuple[Pipeline[Any, R], Room]]


class Run(Generic[R]):
    """What a consumer holds of the work; the work holds nothing of it.

    `window` are the options that decide what becomes of a bucket of clips: only a run that has the same can go on in
    the middle of one. `leave`, if there is one, tells other ranks of a run that ends before it has begun.
    """

    def __init__(
        self,
        make: Make[R],
        workers: Callable[[], Workers],
        order: Order,
        log: FailureLog,
        meter: Meter,
        start: Progress,
        window: Mapping[str, Any],
        leave: Callable[[], None] | None = None,
    ) -> None:
        self._window, self._leave = window, leave
        self._make, self._workers, self._order = make, workers, order
        self.log, self.meter = log, meter
        self._progress = start
        self._pipeline: Pipeline[Any, R] | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()  # so that whoever waits for it cannot cancel it
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether work may be going on."""
        return self._pipeline is not None and not self._closed

    def check_not_begun(self) -> None:
        """Raise RuntimeError once results were asked for."""
        if self._pipeline is not None or self._closed:
            raise RuntimeError("results have been asked for already")

    def start(self, home: asyncio.AbstractEventLoop | None) -> None:
        """Begin, if that has not been done; `home` is the caller's loop, if it has one."""
        with self._lock:  # several threads may ask for the first result
            if self._pipeline is None and not self._closed:
                self._begin(home)

    def _begin(self, home: asyncio.AbstractEventLoop | None) -> None:
        workers = self._workers()
        io = workers.io()
        if home is None:
            io.check_not_on_it()
        pipeline, room = self._make(workers, home, self._progress)
        self.meter.begin(read_threads=workers.read_threads, decode_threads=workers.decode_threads)
        self._loop = io.loop
        future = io.run(pipeline.run(room))
        self._pipeline = pipeline
        ended, out = self._ended, pipeline.out

        def end(future: Future[None]) -> None:
            error = None if future.cancelled() else future.exception()
            out.end(ClosedError(error.message) if isinstance(error, ClosedError) else error)
            ended.set_result(None)

        future.add_done_callback(end)

    async def take(self) -> R:
        """The next result. Raises Ended at the end."""
        if self._closed or self._pipeline is None:
            raise Ended
        asked = time.perf_counter()
        return self._taken(self._pipeline, await self._pipeline.out.take(), asked)

    def take_blocking(self) -> R:
        """`take` in a thread that may block."""
        if self._closed or self._pipeline is None:
            raise Ended
        asked = time.perf_counter()
        return self._taken(self._pipeline, self._pipeline.out.take_blocking(), asked)

    def stop(self) -> None:
        """Have the work end, soon. Never waits, and takes no lock: a finalizer may call it."""
        self._closed = True
        if self._pipeline is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the work with it
                self._loop.call_soon_threadsafe(self._pipeline.stop)

    async def close(self) -> None:
        """End the work, and wait for its end."""
        if self._pipeline is not None:
            self.stop()
            if not self._ended.done():
                await asyncio.wrap_future(self._ended)
        self._let_go()

    def close_blocking(self) -> None:
        """`close` in a thread that may block."""
        if self._pipeline is not None:
            self.stop()
            self._ended.result()
        self._let_go()

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands, as plain values."""
        progress, order = self._progress, self._order
        return {
            "version": 1,
            "epoch": progress.epoch,
            "cycle": progress.cycle,
            "next": progress.next,
            "pending": list(progress.pending),
            "skip": progress.skip,
            **_identity(order),
            "window": dict(self._window),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin where `state` was taken."""
        self.check_not_begun()
        if state.get("version") != 1 or not state.keys() >= self.state_dict().keys():
            raise ValueError(f"this is no state of a run: {state!r}")
        _check_same(state, _identity(self._order), "of a run")
        if state["skip"]:
            _check_same(state["window"], self._window, "from within a bucket of a run")
        self._progress = Progress(state["epoch"], state["cycle"], state["next"], tuple(state["pending"]), state["skip"])

    def _taken(self, pipeline: Pipeline[Any, R], delivery: Delivery[R], asked: float) -> R:
        if delivery.arrive is not None:
            delivery.arrive()
        self._progress = delivery.progress
        self.meter.delivered(delivery.num_loaded, delivery.num_failures, delivery.seconds, asked)
        pipeline.taken(delivery)
        return delivery.result

    def _let_go(self) -> None:
        if self._pipeline is None and not self._closed and self._leave is not None:
            self._leave()
        if not self._closed or self._pipeline is not None:
            self.meter.end()
        self._closed = True
        if self._pipeline is not None:
            self._pipeline.out.clear()


def _check_same(state: Mapping[str, Any], here: Mapping[str, Any], of: str) -> None:
    for name, value in here.items():
        if state.get(name) != value:
            raise ValueError(f"the state is {of} with {name}={state.get(name)!r}, this one has {value!r}")


def _identity(order: Order) -> dict[str, Any]:
    """What must be the same for a state to mean the same."""
    return {"seed": order.seed, "shuffle": order.shuffle, "rank": order.rank, "world_size": order.world_size}
