"""From one source to its audio: fetching, decoding and the workers, composed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from aioaudio import decode as _decode
from aioaudio.audio import Audio, AudioInfo
from aioaudio.decode import Narrow, Parts
from aioaudio.encoded import Encoded, LocalFile, NotRegularFile, OpenBytes, Readable
from aioaudio.fetch import ReadWorkers, fetch, is_cached, resolve, warm_up
from aioaudio.options import LoadOptions
from aioaudio.workers import Stop, Workers

__all__ = ["Times", "describe", "load_audio", "load_parts"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# Files above this are decoded in a group of their own: the others of their group would wait for them.
_ALONE_BYTES = 16 << 20

# Of files above this a range is read by itself: reading all the rest first would take longer than any wait for a disk.
_WARM_RANGE_BYTES = 64 << 20


class _Work(Protocol[T_co]):
    """Decoding or describing bytes in a decode worker."""

    async def __call__(self, file: Readable, *, admitted: bool = False, alone: bool = False) -> T_co: ...


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


async def load_audio(
    workers: Workers,
    source: Any,
    options: LoadOptions,
    timeout: float | None,
    *,
    priority: int = 0,
    home: asyncio.AbstractEventLoop | None = None,
    times: Times | None = None,
) -> Audio:
    """The `Audio` of a source.

    `priority` 1 reads ahead, behind all who wait for theirs. `home` is the loop that the source's own awaitables belong
    to, None for the running one. `times` is filled.
    """
    ask = _Ask(options, timeout, priority, home, times or Times())
    return cast("Audio", await _load(workers, source, ask))


async def load_parts(
    workers: Workers,
    source: Any,
    options: LoadOptions,
    timeout: float | None,
    *,
    narrow: Narrow | None,
    home: asyncio.AbstractEventLoop | None,
    times: Times,
) -> Parts:
    """The audio of a source in parts, read ahead; `home` and `times` are as in `load_audio`."""
    ask = _Ask(options, timeout, 1, home, times, narrow, in_parts=True)
    return cast("Parts", await _load(workers, source, ask))


@dataclass(frozen=True, slots=True)
class _Ask:
    """How a source is to be loaded."""

    options: LoadOptions
    timeout: float | None
    priority: int
    home: asyncio.AbstractEventLoop | None
    times: Times
    narrow: Narrow | None = None
    in_parts: bool = False


async def _load(workers: Workers, source: Any, ask: _Ask) -> Audio | Parts:
    options, times = ask.options, ask.times

    async def decode(file: Readable, *, admitted: bool = False, alone: bool = False) -> Audio | Parts:
        admit = None if admitted else _admission(options, is_range=ask.narrow is not None)
        times.decode_queued = time.perf_counter()
        return await workers.decode(
            _decode_timed,
            (_decode.DecodeJob(file, options, admit, ask.narrow, ask.in_parts), times),
            alone=alone,
            weight=file.num_bytes if isinstance(file, Encoded) else 0,
            timeout=ask.timeout,
            priority=ask.priority,
            uninterruptible=options.out is not None,
        )

    reads = _TimedReads(workers, times)
    return await _with_bytes(reads, source, decode, options.max_bytes, ask.timeout, ask.home)


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


class _Readers(ReadWorkers, Protocol):
    def slot(self) -> Any: ...


class _TimedReads:
    """The read workers, for one load."""

    def __init__(self, workers: Workers, times: Times) -> None:
        self._workers, self._times = workers, times

    def slot(self) -> Any:
        return self._workers.slot()

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        times = self._times
        times.read_queued = times.read_queued or time.perf_counter()

        def timed() -> T:
            times.read_began = times.read_began or time.perf_counter()
            try:
                return function(*args)
            finally:
                times.read_ended = time.perf_counter()

        return await self._workers.read(timed)


async def describe(
    workers: Workers, source: Any, options: LoadOptions, *, exact: bool, timeout: float | None
) -> AudioInfo:
    """The `AudioInfo` of a source."""

    async def describe(file: Readable, *, admitted: bool = False, alone: bool = False) -> AudioInfo:
        # A header is read where it lies; only counting reads the whole.
        admit = _admission(options) if exact and not admitted else None
        job = _decode.InfoJob(_decode.DecodeJob(file, options, admit), exact)
        return await workers.decode(_decode.read_infos, job, alone=alone, timeout=timeout)

    return await _with_bytes(workers, source, describe, None, timeout)


def _admission(options: LoadOptions, *, is_range: bool = False) -> Callable[[OpenBytes], None]:
    """What a file has to pass to be decoded in a group, at once."""
    is_range = is_range or options.start_seconds > 0 or options.stop_seconds is not None

    def admit(file: OpenBytes) -> None:
        large = file.size > _ALONE_BYTES
        cold = not (is_range and file.size > _WARM_RANGE_BYTES) and not is_cached(file)
        if cold or large:
            raise _NotYet(cold=cold, large=large)

    return admit


async def _with_bytes(
    workers: _Readers,
    source: Any,
    work: _Work[T],
    max_bytes: int | None,
    timeout: float | None,
    home: asyncio.AbstractEventLoop | None = None,
) -> T:
    """`work` on the bytes of `source`, which are fetched first unless they are at hand."""
    resolved = resolve(source)
    if isinstance(resolved, Encoded):
        return await _on_encoded(resolved, work)
    if isinstance(resolved, LocalFile):
        try:
            return await _on_local(workers, resolved, work, timeout)
        except NotRegularFile:  # a FIFO or a device: its bytes must be fetched
            pass
    async with workers.slot():
        encoded = await fetch(resolved, workers, max_bytes=max_bytes, timeout=timeout, home=home)
        return await _on_encoded(encoded, work)


async def _on_encoded(encoded: Encoded, work: _Work[T]) -> T:
    return await work(encoded, admitted=True, alone=encoded.num_bytes > _ALONE_BYTES)


async def _on_local(workers: _Readers, file: LocalFile, work: _Work[T], timeout: float | None) -> T:
    try:
        return await work(file)
    except _NotYet as not_yet:
        cold, large = not_yet.cold, not_yet.large
    if not cold:
        return await work(file, admitted=True, alone=large)
    async with workers.slot():
        await warm_up(file, workers, timeout=timeout)
        return await work(file, admitted=True, alone=large)
