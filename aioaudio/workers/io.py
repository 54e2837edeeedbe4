"""The I/O thread: an event loop of its own that nobody else can block."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from aioaudio.errors import ClosedError
from aioaudio.workers.pool import Thread

_new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
with contextlib.suppress(ImportError):
    import uvloop

    _new_event_loop = uvloop.new_event_loop

__all__ = ["IOThread"]

T = TypeVar("T")


class _Closeable(Protocol):
    async def aclose(self) -> None: ...


K = TypeVar("K", bound=_Closeable)


class IOThread:
    """A thread that runs an event loop (uvloop where it is installed) until it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._pid = os.getpid()
        self._kept: dict[str, Any] = {}
        # For what a loop gives to its executor, such as looking up host names; our own, so that it can be joined.
        self._executor = ThreadPoolExecutor(thread_name_prefix="aioaudio-io")
        self.loop = _new_event_loop()
        self.loop.set_default_executor(self._executor)
        self.thread = Thread(self._serve, "aioaudio-io")
        self.thread.start()

    def check_not_on_it(self) -> None:
        """Raise RuntimeError on this thread itself, where to wait for what it does would be to wait for ever."""
        if threading.current_thread() is self.thread:
            raise RuntimeError(
                "aioaudio.sync cannot be used in an async iterable or source that aioaudio.sync itself iterates: "
                "await the functions of aioaudio there"
            )

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `coroutine` on this thread's loop; may be called from any thread.

        Cancelling the future cancels the coroutine. Raises ClosedError after `close()`, as does the future of a
        coroutine that `close()` has interrupted.
        """
        with self._lock:
            if self._closed:
                coroutine.close()
                raise ClosedError("used after aclose()")
            future = asyncio.run_coroutine_threadsafe(self._guard(coroutine), self.loop)
        future.add_done_callback(lambda future: self._forget(coroutine) if future.cancelled() else None)
        return future

    def _forget(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Close a coroutine that was cancelled before it began, or Python would warn that nobody awaits it."""

        def close() -> None:
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(close)

    def keep(self, name: str, make: Callable[[], K]) -> K:
        """What is bound to this thread's loop: `make()` at the first call, the same ever after.

        To be called on that loop. Once nothing runs there any more, its `aclose()` is awaited.
        """
        if name not in self._kept:
            self._kept[name] = make()
        kept: K = self._kept[name]
        return kept

    def close(self) -> None:
        """Cancel what runs and end the thread; does not wait for it."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.retire()

    def retire(self) -> None:
        """End the thread. Takes no lock, so that a finalizer may call it."""
        if os.getpid() == self._pid:  # in a fork's child, the wake-up would reach the parent's loop
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.loop.stop)

    async def _guard(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        # An error goes to the holder of the future; where that was cancelled, asyncio would report it as lost.
        task.add_done_callback(_mark_seen)
        try:
            return await coroutine
        except asyncio.CancelledError:
            # The caller who awaits the future was not cancelled, so it must not see a cancellation.
            if self._closed and task.cancelling() == 1:
                raise ClosedError("closed by aclose()") from None
            raise

    def _serve(self) -> None:
        try:
            while True:
                # What a caller's own coroutine raises to end its program is for those who wait for it, not for a loop
                # that others share.
                with contextlib.suppress(KeyboardInterrupt, SystemExit):
                    self.loop.run_forever()
                    break
            self.loop.run_until_complete(self._finish())
        finally:
            self._executor.shutdown(cancel_futures=True)
            self.loop.close()

    async def _finish(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(kept.aclose() for kept in self._kept.values()), return_exceptions=True)
        await self.loop.shutdown_asyncgens()


def _mark_seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
