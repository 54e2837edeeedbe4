"""A thread of one's own, for work that waits for the world."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aioaudio.workers.job import Kernel
from aioaudio.workers.pool import Pool, Thread

__all__ = ["OwnThread"]

T = TypeVar("T")
R = TypeVar("R")


class OwnThread:
    """Calls kernels one after another in a thread that is started for the first of them.

    `free` is called, from any thread, when it is to end: it has whatever the thread waits for let go of it.
    """

    def __init__(self, name: str, free: Callable[[], None]) -> None:
        self._pool = Pool(name, 1)
        self._free = free

    def call(self, kernel: Kernel[T, R], task: T) -> Coroutine[Any, Any, R]:
        """The kernel's result for `task`. Cancelled, it ends when the thread has let go; Stop.is_set turns true."""
        return self._pool.call(kernel, task, uninterruptible=True)

    def close(self) -> list[Thread]:
        """Free the thread, and let it end; gives it."""
        threads = self._pool.close()
        self._free()
        return threads

    def retire(self) -> None:
        """Let the thread end when it is idle. Takes no lock: a finalizer may call it."""
        self._pool.retire()
