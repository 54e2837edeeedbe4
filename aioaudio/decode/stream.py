"""A source that is decoded piece by piece: the samples of `load`, in chunks, from any place on."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy.typing as npt

from aioaudio.audio import Audio, Damage, StreamEvent
from aioaudio.decode.blocks import Blocks, FrameBlocks, GraphBlocks, NoBlocks, PcmBlocks, Unsure
from aioaudio.decode.damage import is_loss
from aioaudio.decode.frames import FrameLoop
from aioaudio.decode.group import frame_decode, graph_serves, is_empty
from aioaudio.decode.job import DecodeJob, StopFlag, Stopped, check_stop
from aioaudio.decode.plan import make_plan, result_range
from aioaudio.decode.prepare import Task, prepare
from aioaudio.decode.result import concerns, summary
from aioaudio.decode.samples import Sink
from aioaudio.errors import AudioError, DamagedAudioError, LimitError

__all__ = ["Order", "StreamDecoder", "work_on_streams"]

Array = npt.NDArray[Any]
T = TypeVar("T")

# Going on to a place that is farther ahead than this is no quicker than to begin again there, where a seek leads to it.
_NEAR_SECONDS = 10.0


class StreamDecoder:
    """Decodes one source from place to place. Positions are samples of the result, from the start of the source.

    It is used by one thread at a time. What it has decoded stays until a later place is asked for, so that whoever was
    interrupted may ask again. With `peek` it looks one sample further than is asked for, so that the last samples are
    known to be the last. It holds files, and is closed.
    """

    def __init__(self, job: DecodeJob, *, peek: bool = True) -> None:
        self.job = job
        self._peek = peek
        self._files = contextlib.ExitStack()
        self._task: Task | None = None
        self._blocks: Blocks | None = None
        self._ready: deque[Array] = deque()
        self._begin = 0  # where this engine began
        self._start = self._stop = 0  # what is ready
        self._rate = 0
        self._error: Exception | None = None
        self._origin: int | None = None  # where the stream began
        self._told: dict[tuple[float | None, str], int] = {}  # with which samples damage was told of first

    @property
    def earliest(self) -> int:
        """The first place that may be asked for."""
        return 0

    def open(self, stop: StopFlag) -> tuple[int, int]:
        """Decode the first samples. The rate of the result, and where it begins by the options."""
        if self._origin is None:
            if self._blocks is None:
                self._open(None)
            while self._start == self._stop and not self._has_ended:
                self._step(1, stop)
            self._origin, _ = result_range(self.job.options, self._rate)
            self.job = replace(self.job, admit=None)
        return self._rate, self._origin

    def read(self, start: int, num_samples: int, stop: StopFlag) -> Audio:
        """Samples `[start, start + num_samples)`, fewer at the end. Raises AudioError; DamagedAudioError has them."""
        self._go_to(start, stop)
        self._fill(start + num_samples + self._peek, stop)
        end = max(start, min(start + num_samples, self._stop))
        damage = self._damage_in(start, end)
        is_last = self._has_ended and end >= self._stop
        audio = Audio(
            self._copy(start, end).waveform,
            self._rate,
            start / self._rate,
            self.job.file.name,
            damage,
            self._engine.verified if is_last else None,
            events=self._events_in(start, end, is_last=is_last),
        )
        losses = [item for item in damage if is_loss(item)]
        if losses and self.job.options.on_damage == "raise":
            raise DamagedAudioError(summary(losses), source=audio.source, audio=audio, damage=damage)
        return audio

    def decode_ahead(self, until: int, stop: StopFlag) -> None:
        """Decode up to a place that will be asked for."""
        if self._blocks is not None:
            self._fill(until, stop)

    def close(self) -> None:
        """Let go of everything; reading on opens it again."""
        if self._blocks is not None:
            self._blocks.close()
            self._blocks = None
        self._ready.clear()
        self._files.close()
        self._task = None

    @property
    def _engine(self) -> Blocks:
        assert self._blocks is not None
        return self._blocks

    @property
    def _has_ended(self) -> bool:
        return self._engine.has_ended

    # From place to place

    def _open(self, start: int | None) -> None:
        """Begin at `start`, None for where the options say."""
        self.close()
        job = self.job if start is None else self._job_from(start)
        self._task = task = prepare(job, _NEVER, self._files)
        if is_empty(task):
            self._blocks = NoBlocks(task)
        elif graph_serves(task):
            self._blocks = GraphBlocks(task)
        else:
            self._open_generally(job)
        if start is None:
            self._begin_at_rate()
        else:
            self._begin = self._start = self._stop = start

    def _job_from(self, start: int) -> DecodeJob:
        seconds, stop = start / self._rate, self.job.options.stop_seconds
        stop = None if stop is None else max(stop, seconds)
        return replace(self.job, options=replace(self.job.options, start_seconds=seconds, stop_seconds=stop))

    def _begin_at_rate(self) -> None:
        self._rate = self._engine.sample_rate
        self._begin, _ = result_range(self.job.options, self._rate)
        self._start = self._stop = self._begin

    def _open_generally(self, job: DecodeJob) -> None:
        self.close()
        self._task = task = prepare(job, _NEVER, self._files, thorough=True)
        self._blocks = (
            PcmBlocks(task) if task.facts.pcm is not None else FrameBlocks(FrameLoop(frame_decode(task), stop=None))
        )

    def _go_to(self, start: int, stop: StopFlag) -> None:
        if self._blocks is None or start < self._start or self._is_far(start):
            self._open(start)
        while self._stop < start and not self._has_ended:
            self._step(start - self._stop, stop)
            self._drop(min(start, self._stop))
        self._drop(min(start, self._stop))

    def _is_far(self, start: int) -> bool:
        """Whether to begin at `start` is quicker than to go on to it."""
        if self._task is None or start - self._stop < _NEAR_SECONDS * self._rate:
            return False
        options = replace(self.job.options, start_seconds=start / self._rate, stop_seconds=None)
        return make_plan(self._task.facts, options).seek_seconds is not None or self._task.facts.pcm is not None

    def _drop(self, start: int) -> None:
        """Let go of what is ready before `start`."""
        while self._ready and self._start + self._ready[0].shape[1] <= start:
            self._start += self._ready.popleft().shape[1]

    # Decoding

    def _fill(self, until: int, stop: StopFlag) -> None:
        while not self._has_ended:
            if self._stop >= until and self._engine.is_judged(until / self._rate):
                break
            self._step(until - self._stop, stop)

    def _step(self, wanted: int, stop: StopFlag) -> None:
        if self._error is not None:
            raise self._error
        check_stop(stop)
        try:
            blocks = self._engine.step(wanted)
        except Unsure:
            self._go_on_generally()
            return
        except Exception as error:
            self._error = error  # whoever decodes ahead does not tell it
            raise
        if self._origin is None and self._rate != self._engine.sample_rate:
            self._begin_at_rate()  # the decoder's word goes before the header's
        for block in blocks:
            self._ready.append(block)
            self._stop += block.shape[1]
        self._check_length()

    def _go_on_generally(self) -> None:
        """Have the general engine go on where the graph is not sure: what is ready stays, as all before it is right."""
        ready, has_begun = self._ready.copy(), self._stop > self._begin
        self._open_generally(self._job_from(self._stop) if has_begun or self._origin is not None else self.job)
        self._ready.extend(ready)

    def _check_length(self) -> None:
        limit, origin = self.job.options.max_seconds, self._origin
        if limit is not None and self._stop - (self._begin if origin is None else origin) > limit * self._rate:
            raise LimitError(f"has more than max_seconds={limit} seconds", source=self.job.file.name)

    # What was decoded

    def _copy(self, start: int, end: int) -> Sink:
        """Samples `[start, end)` of what is ready, in memory of their own."""
        sink = Sink(self._engine.num_channels, max(0, end - start), self.job.options)
        position = self._start
        for block in self._ready:
            begin, stop = max(start, position), min(end, position + block.shape[1])
            if begin < stop:
                sink.write(begin - start, block[:, begin - position : stop - position])
            position += block.shape[1]
            if position >= end:
                break
        return sink

    def _damage_in(self, start: int, end: int) -> tuple[Damage, ...]:
        """The damage to be told with samples `[start, end)`: what lies there, what was passed on the way to the first
        of them, and at the end all that is left."""
        is_last = self._has_ended and end >= self._stop
        told = []
        for item in self._engine.damage():
            place = self._stop if item.at_seconds is None else item.at_seconds * self._rate
            if concerns(item, self.job.options) and (place < end or is_last):
                first = self._told.setdefault((item.at_seconds, item.kind), start)
                if place >= start or first == start:
                    told.append(item)
        return tuple(told)

    def _events_in(self, start: int, end: int, *, is_last: bool) -> tuple[StreamEvent, ...]:  # noqa: ARG002
        """What is to be told with samples `[start, end)`."""
        return ()


class _Never:
    """The stop flag of a task whose steps look at one of their own."""

    is_set = False
    deadline = None


_NEVER = _Never()


@dataclass(frozen=True, slots=True)
class Order:
    """What a stream is asked for: a call of one of its methods with a stop flag."""

    stream: StreamDecoder
    work: Callable[[Any], Any]


def work_on_streams(orders: Sequence[Order], stops: Sequence[StopFlag]) -> list[Any]:
    """Do what is asked of each stream: its result or its error. Blocks; call it in a decode worker."""
    return [_guarded(order, stop) for order, stop in zip(orders, stops, strict=True)]


def _guarded(order: Order, stop: StopFlag) -> Any:
    if stop.is_set:
        return Stopped()
    try:
        return order.work(stop)
    except AudioError as error:
        if error.source is None:
            error.source = order.stream.job.file.name
        return error
    except ValueError as error:
        return ValueError(f"{order.stream.job.file.name}: {error}")
    except Exception as error:
        return error
