"""From one source to its audio: fetching, decoding and the workers, composed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from aioaudio import decode as _decode
from aioaudio.audio import Audio, AudioInfo
from aioaudio.decode import Leave, Narrow, Parts
from aioaudio.encoded import Encoded, LocalFile, NotRegularFile, OpenBytes, Readable
from aioaudio.errors import ClosedError
from aioaudio.fetch import URL, HTTPOptions, Resolved, fetch, is_cached, resolve, warm_up
from aioaudio.options import LoadOptions
from aioaudio.workers import IOThread, Stop, Workers

__all__ = ["Times", "describe", "load_audio", "load_parts"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# Files above this are decoded in a group of their own: the others of their group would wait for them.
_ALONE_BYTES = 16 << 20

# Of files above this a range is read by itself: reading all the rest first would take longer than any wait for a disk.
_WARM_RANGE_BYTES = 64 << 20


class _NotYet(Exception):
    """The bytes are not as a group wants them: `cold` ones are read first, large ones are decoded alone."""

    def __init__(self, *, cold: bool, large: bool) -> None:
        super().__init__()
        self.cold, self.large = cold, large


@dataclass(slots=True)
class Times:
    """When a load did what, in seconds of `time.perf_counter()`; 0 where it did not, or not yet."""

    read_queued: float = 0.0
    read_began: float = 0.0
    read_ended: float = 0.0
    decode_queued: float = 0.0
    decode_began: float = 0.0
    decode_ended: float = 0.0
    decode_thread: str = ""
    decode_group: int = 1


def load_audio(
    workers: Workers,
    source: Any,
    options: LoadOptions,
    timeout: float | None,
    *,
    priority: int = 0,
    home: asyncio.AbstractEventLoop | None = None,
    times: Times | None = None,
) -> Coroutine[Any, Any, Audio]:
    """The `Audio` of a source.

    `priority` 1 reads ahead, behind all who wait for theirs. `home` is the loop that the source's own awaitables belong
    to, None for the running one. `times` is filled.
    """
    work: _Load[Audio] = _Load(workers, options, timeout, priority=priority, home=home, times=times)
    return _on_bytes(source, work)


def load_parts(
    workers: Workers,
    source: Any,
    options: LoadOptions,
    timeout: float | None,
    *,
    narrow: Narrow | None = None,
    home: asyncio.AbstractEventLoop | None = None,
    times: Times | None = None,
    leave: Leave | None = None,
    priority: int = 1,
) -> Coroutine[Any, Any, Parts]:
    """The audio of a source in parts, read ahead; `priority`, `home` and `times` are as in `load_audio`."""
    work: _Load[Parts] = _Load(
        workers, options, timeout, priority=priority, home=home, times=times, narrow=narrow, in_parts=True, leave=leave
    )
    return _on_bytes(source, work)


def describe(
    workers: Workers, source: Any, options: LoadOptions, *, exact: bool, timeout: float | None
) -> Coroutine[Any, Any, AudioInfo]:
    """The `AudioInfo` of a source."""
    return _on_bytes(source, _Description(workers, options, timeout, exact))


class _Work(Protocol[T_co]):
    """Decoding or describing bytes in a decode worker. `readers` fetch them first where they are not at hand."""

    @property
    def readers(self) -> _Readers: ...
    @property
    def options(self) -> LoadOptions: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def home(self) -> asyncio.AbstractEventLoop | None: ...
    @property
    def times(self) -> Times | None: ...

    def submit(self, file: Readable, *, admitted: bool = False, alone: bool = False) -> Coroutine[Any, Any, T_co]:
        """The result for `file`, which has still to pass the admission to a group unless it is `admitted`."""
        ...


@dataclass(frozen=True, slots=True)
class _Load(Generic[T]):
    """A load. `times` is filled where somebody wants to know."""

    workers: Workers
    options: LoadOptions
    timeout: float | None
    priority: int = 0
    home: asyncio.AbstractEventLoop | None = None
    times: Times | None = None
    narrow: Narrow | None = None
    in_parts: bool = False
    leave: Leave | None = None

    @property
    def readers(self) -> _Readers:
        return _Readers(self.workers, self.priority, self.times)

    def submit(self, file: Readable, *, admitted: bool = False, alone: bool = False) -> Coroutine[Any, Any, T]:
        admit = None if admitted else _admission(self.options, is_range=self.narrow is not None)
        job = _decode.DecodeJob(file, self.options, admit, self.narrow, self.in_parts, self.leave)
        kernel: Any = _decode.decode_group
        task: Any = job
        if self.times is not None:
            self.times.decode_queued = time.perf_counter()
            kernel, task = _decode_timed, (job, self.times)
        return self.workers.decode(
            kernel,
            task,
            alone=alone,
            weight=file.num_bytes if isinstance(file, Encoded) else 0,
            timeout=self.timeout,
            priority=self.priority,
            uninterruptible=self.options.out is not None,
        )


@dataclass(frozen=True, slots=True)
class _Description:
    """A description; an `exact` one counts the samples."""

    workers: Workers
    options: LoadOptions
    timeout: float | None
    exact: bool
    home: None = None
    times: None = None

    @property
    def readers(self) -> _Readers:
        return _Readers(self.workers)

    def submit(self, file: Readable, *, admitted: bool = False, alone: bool = False) -> Coroutine[Any, Any, AudioInfo]:
        # A header is read where it lies; only counting reads the whole.
        admit = _admission(self.options) if self.exact and not admitted else None
        job = _decode.InfoJob(_decode.DecodeJob(file, self.options, admit), self.exact)
        return self.workers.decode(_decode.read_infos, job, alone=alone, timeout=self.timeout)


def _decode_timed(
    tasks: list[tuple[_decode.DecodeJob, Times]], stops: Sequence[Stop]
) -> list[Audio | Parts | Exception]:
    began = time.perf_counter()
    results = _decode.decode_group([job for job, _ in tasks], stops)
    ended, thread = time.perf_counter(), threading.current_thread().name
    for _, times in tasks:
        times.decode_began, times.decode_ended = began, ended
        times.decode_thread, times.decode_group = thread, len(tasks)
    return results


@dataclass(frozen=True, slots=True)
class _Readers:
    """The read workers, for one load or description."""

    workers: Workers
    priority: int = 0
    times: Times | None = None

    def slot(self) -> AbstractAsyncContextManager[None]:
        return self.workers.slot(priority=self.priority)

    @property
    def http(self) -> HTTPOptions | None:
        return self.workers.http

    def io(self) -> IOThread:
        return self.workers.io()

    def read(self, function: Callable[..., T], *args: Any) -> Coroutine[Any, Any, T]:
        times = self.times
        if times is None:
            return self.workers.read(function, *args, priority=self.priority)
        times.read_queued = times.read_queued or time.perf_counter()

        def timed() -> T:
            times.read_began = times.read_began or time.perf_counter()
            try:
                return function(*args)
            finally:
                times.read_ended = time.perf_counter()

        return self.workers.read(timed, priority=self.priority)


def _admission(options: LoadOptions, *, is_range: bool = False) -> Callable[[OpenBytes], None]:
    """What a file has to pass to be decoded in a group, at once."""
    is_range = is_range or options.start_seconds > 0 or options.stop_seconds is not None

    def admit(file: OpenBytes) -> None:
        large = file.size > _ALONE_BYTES
        cold = not (is_range and file.size > _WARM_RANGE_BYTES) and not is_cached(file)
        if cold or large:
            raise _NotYet(cold=cold, large=large)

    return admit


async def _on_bytes(source: Any, work: _Work[T]) -> T:
    """`work` on the bytes of `source`, which are fetched first unless they are at hand."""
    resolved = resolve(source)
    try:
        return await _on_resolved(resolved, work)
    except ClosedError as error:
        raise ClosedError(error.message, source=resolved.name) from error


async def _on_resolved(resolved: Resolved, work: _Work[T]) -> T:
    if isinstance(resolved, Encoded):
        return await _on_encoded(resolved, work)
    if isinstance(resolved, LocalFile):
        try:
            return await work.submit(resolved)
        except _NotYet as not_yet:
            cold, large = not_yet.cold, not_yet.large
        except NotRegularFile:  # a FIFO or a device: its bytes must be fetched
            return await _on_fetched(resolved, work)
        return await _on_local(resolved, work, cold=cold, large=large)
    return await _on_fetched(resolved, work)


def _on_encoded(encoded: Encoded, work: _Work[T]) -> Coroutine[Any, Any, T]:
    return work.submit(encoded, admitted=True, alone=encoded.num_bytes > _ALONE_BYTES)


async def _on_fetched(resolved: Resolved, work: _Work[T]) -> T:
    readers = work.readers
    async with readers.slot():
        max_bytes = work.options.max_bytes
        with _download_times(resolved, work.times):
            encoded = await fetch(resolved, readers, max_bytes=max_bytes, timeout=work.timeout, home=work.home)
        return await _on_encoded(encoded, work)


@contextlib.contextmanager
def _download_times(resolved: Resolved, times: Times | None) -> Iterator[None]:
    """Note when a URL is fetched, which no read thread does."""
    if times is None or not isinstance(resolved, URL):
        yield
        return
    times.read_queued = times.read_began = time.perf_counter()
    try:
        yield
    finally:
        times.read_ended = time.perf_counter()


async def _on_local(file: LocalFile, work: _Work[T], *, cold: bool, large: bool) -> T:
    if not cold:
        return await work.submit(file, admitted=True, alone=large)
    readers = work.readers
    async with readers.slot():
        await warm_up(file, readers, timeout=work.timeout)
        return await work.submit(file, admitted=True, alone=large)
