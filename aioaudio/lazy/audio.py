"""Loads that nobody waits for until their samples are needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch

from aioaudio.audio import Audio, Clip
from aioaudio.errors import ClosedError, FetchError
from aioaudio.fetch import AsyncChunks, AsyncFile, Resolved, resolve
from aioaudio.lazy.stand_in import StandIn
from aioaudio.loading import load_audio
from aioaudio.options import LoadOptions
from aioaudio.workers import Thread, Workers, is_cancelled

__all__ = ["LazyAudio", "begin"]

logger = logging.getLogger("aioaudio")


class LazyAudio(StandIn):
    """Audio that is being loaded; made by `submit`, which returns at once.

    `await lazy` and `lazy.result()` give the `Audio`. Wherever a tensor is expected, this is the waveform: it waits for
    its samples when a torch function, a method or attribute of tensors, an operator, an index or NumPy asks for
    them, and not before. It is no `torch.Tensor` for `isinstance`; a copy of it, and what is unpickled, is one.

    A wait blocks its thread. In a thread with a running event loop this raises RuntimeError while the load is not done:
    `await lazy` first. (A cell of an IPython kernel may block; but for a source that belongs to the kernel's loop.)

    A load that failed raises its error at the first use and at each later one. When this object goes, a load that is
    not done is cancelled, and an error that nobody has seen is logged, in one line, as a warning.

    May be used from any threads.
    """

    __slots__ = ("_future", "_home", "_loop", "_name", "_options", "_pid", "_seen", "_trace")

    def __init__(
        self,
        future: Future[Audio],
        loop: asyncio.AbstractEventLoop,
        *,
        name: str,
        options: LoadOptions,
        home: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._future, self._loop, self._home = future, loop, home
        self._name, self._options = name, options
        self._pid = os.getpid()
        self._seen = False
        self._trace: TracebackType | None = None

    def result(self, timeout: float | None = None) -> Audio:
        """The `Audio`, once it is loaded. Blocks.

        Raises what `load` would have raised; `concurrent.futures.CancelledError` after `cancel()`; TimeoutError when it
        took longer than `timeout` seconds, and then goes on loading; RuntimeError where a wait would block an event
        loop, or would never end.
        """
        if not self._future.done():
            self._check_that_it_may_end()
            self._check_that_it_may_block()
            self._block(timeout)
        return self._outcome()

    def __await__(self) -> Generator[Any, None, Audio]:
        """The `Audio`, once it is loaded. Raises what `result` raises; cancelling this does not cancel the load."""
        return self._arrival().__await__()

    def done(self) -> bool:
        """Whether it is loaded, has failed or was cancelled."""
        return self._future.done()

    def cancel(self) -> bool:
        """End the load; False where it is done already. Its use then raises `concurrent.futures.CancelledError`."""
        return self._future.cancel()

    @property
    def sample_rate(self) -> int:
        """In Hz. Waits for the load, unless `submit` was given a `sample_rate`."""
        return self._options.sample_rate or self.result().sample_rate

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """That of the samples. Never waits."""
        return self._options.dtype

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """`(num_channels, num_samples)`. Waits for the load: how much there is in a file, decoding tells."""
        return self._samples().shape

    def __repr__(self) -> str:  # type: ignore[override]
        """What is known by now. Never waits."""
        if not self._future.done():
            state = "loading"
        elif self._future.cancelled():
            state = "cancelled"
        elif (error := self._future.exception()) is not None:
            state = f"failed: {type(error).__name__}"
        else:
            return f"Lazy{self._future.result()!r}"
        return f"LazyAudio({self._name!r}, {state})"

    # Waiting

    def _samples(self) -> torch.Tensor:
        return self.result().waveform

    def _block(self, timeout: float | None) -> None:
        try:
            self._future.exception(timeout)
        except TimeoutError:
            raise TimeoutError(f"{self!r} was not done within {timeout} s") from None

    async def _arrival(self) -> Audio:
        if not self._future.done():
            self._check_that_it_may_end()
            await _until_done(self._future)
        return self._outcome()

    def _outcome(self) -> Audio:
        """What a load that is done has come to."""
        if self._future.cancelled() or (error := self._future.exception()) is None:
            return self._future.result()
        if not self._seen:
            self._seen, self._trace = True, error.__traceback__
        raise error.with_traceback(self._trace)  # or it would grow with each use

    def _check_that_it_may_end(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError(f"{self!r} was not done when this process was forked: only the parent gets its samples")
        if self._home is not None and not self._home.is_running():
            raise RuntimeError(f"{self!r} has a source that belongs to an event loop which does not run any more")

    def _check_that_it_may_block(self) -> None:
        is_worker = isinstance(threading.current_thread(), Thread)
        if is_worker:
            raise RuntimeError(f"{self!r} is not done, and to wait here could keep the threads from loading it")
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._home is running or not _runs_cells():
            raise RuntimeError(f"{self!r} is not done, and to wait here would block the event loop: 'await lazy' first")

    def __del__(self) -> None:
        future: Future[Audio] | None = getattr(self, "_future", None)
        if future is None:  # made by other hands than `begin`, wrongly
            return
        if not future.done():
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the load with it
                self._loop.call_soon_threadsafe(future.cancel)
        elif not (self._seen or future.cancelled()):
            error = future.exception()
            if error is not None and not isinstance(error, ClosedError):
                logger.warning("a load failed, and nobody has asked for it: %s: %s", type(error).__name__, error)


def begin(workers: Workers, source: Any, options: LoadOptions, timeout: float | None, clip: Clip | None) -> LazyAudio:
    """Begin a load on the I/O thread, which no caller blocks; may be called from any thread.

    What the source itself awaits belongs to the caller's event loop, if one runs.
    """
    resolved = resolve(source)
    home = None
    if isinstance(resolved, AsyncFile | AsyncChunks):
        with contextlib.suppress(RuntimeError):  # none runs: then the I/O thread's loop serves
            home = asyncio.get_running_loop()
    io = workers.io()
    future = io.run(_load(workers, resolved, options, timeout, clip, home))
    return LazyAudio(future, io.loop, name=resolved.name, options=options, home=home)


async def _load(
    workers: Workers,
    source: Resolved,
    options: LoadOptions,
    timeout: float | None,
    clip: Clip | None,
    home: asyncio.AbstractEventLoop | None,
) -> Audio:
    try:
        audio = await load_audio(workers, source, options, timeout, home=home)
    except asyncio.CancelledError:
        if home is None or is_cancelled():
            raise
        raise FetchError("reading was cancelled by the event loop that it belongs to", source=source.name) from None
    return audio if clip is None else replace(audio, clip=clip)


async def _until_done(future: Future[Any]) -> None:
    """Wait for a future that is not this task's to cancel."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not arrived.done():
            arrived.set_result(None)

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits there
            loop.call_soon_threadsafe(settle)

    future.add_done_callback(wake)
    await arrived


def _runs_cells() -> bool:
    """Whether an IPython kernel runs in this thread: it has a loop running while a cell is executed."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel") and threading.current_thread() is threading.main_thread()
