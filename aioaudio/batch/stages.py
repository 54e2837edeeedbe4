"""What a run does with clips: loads that end as rows of a batch, or as they are."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Literal, TypeVar

from aioaudio.audio import Audio, Batch, Clip, Failure
from aioaudio.batch.cargo import ship
from aioaudio.batch.collate import Layout, Row, Waveforms, collate
from aioaudio.batch.crop import Crop, Short
from aioaudio.batch.failures import carried_bytes
from aioaudio.batch.feed import Feed, open_feed
from aioaudio.batch.flow import Loaded, Made
from aioaudio.batch.grouping import Group, padded_length
from aioaudio.batch.manifest import as_clip
from aioaudio.batch.order import Entry, Order, Progress
from aioaudio.batch.reporter import Reporter
from aioaudio.batch.single import send_one
from aioaudio.batch.statistics import Meter
from aioaudio.decode import Narrow, Parts
from aioaudio.device import Transfer
from aioaudio.errors import ClosedError, SourceError
from aioaudio.fetch import short_name
from aioaudio.loading import Times
from aioaudio.workers import Workers, is_cancelled

__all__ = ["BatchStages", "LoadStages", "load_guarded"]

T = TypeVar("T")

# How often what is shown is brought up to date.
_REPORT_SECONDS = 0.2


LoadOne = Callable[[Clip, Times], Awaitable[Audio | Parts]]
LoadParts = Callable[[Clip, Times, Narrow | None], Awaitable[Parts]]


class _Stages:
    """What both have in common: the input."""

    def __init__(
        self,
        clips: Any,
        order: Order,
        meter: Meter,
        reporter: Reporter,
        workers: Workers,
        home: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._clips, self._order, self._meter, self._reporter = clips, order, meter, reporter
        self._workers, self._home = workers, home
        self._one_waits = asyncio.Lock()

    async def begin(self) -> None:
        if self._reporter.is_needed:
            await self._workers.read(self._reporter.begin)

    def open(self, progress: Progress) -> Feed:
        return open_feed(self._clips, as_clip, self._order, progress, self._workers, self._home)

    def took(self, num_clips: int, waited: float) -> None:
        self._meter.took(num_clips, waited)

    async def hold_up(self, transfer: Transfer) -> None:
        """Let nothing more be sent while the device is behind. One thread waits for it, whatever there is to send."""
        async with self._one_waits:
            if transfer.wait is not None:
                await self._workers.read(transfer.wait)

    async def watch(self) -> None:
        while self._reporter.is_needed:
            await self._workers.read(self._reporter.report)
            await asyncio.sleep(_REPORT_SECONDS)

    async def close(self) -> None:
        if self._reporter.is_needed:
            with contextlib.suppress(ClosedError):  # the session was closed meanwhile
                await self._workers.read(self._reporter.finish)


class LoadStages(_Stages):
    """Every clip as an `Audio`, on the device that `layout` names if it does, or, where asked for, a `Failure`."""

    def __init__(self, load: LoadOne, layout: Layout, **input: Any) -> None:
        super().__init__(**input)
        self._load, self._layout = load, layout

    async def load(self, entry: Entry, _: Progress) -> Loaded[tuple[Clip, Audio | Parts]]:
        def loaded(one: Audio | Parts) -> Loaded[tuple[Clip, Audio | Parts]]:
            if isinstance(one, Parts):
                num_bytes = _bytes_to_be(one, one.num_samples, self._layout)
            else:
                num_bytes = one.waveform.nbytes
            return Loaded((entry.clip, one), None, one.num_samples, one.sample_rate, num_bytes)

        return await load_guarded(lambda times: self._load(entry.clip, times), entry, self._meter, loaded)

    async def finish(self, group: Group[Loaded[tuple[Clip, Audio | Parts]]]) -> Made[Audio | Failure]:
        [member] = group.members
        loaded, arrive = member.value, None
        if loaded.value is None:
            assert loaded.failure is not None
            self._meter.ready += 1
            return Made(loaded.failure, loaded.num_bytes)
        clip, audio = loaded.value
        if isinstance(audio, Parts):
            transfer = self._layout.transfer
            assert transfer is not None
            await self.hold_up(transfer)
            audio, arrive = await send_one(self._workers, audio, self._layout.dtype, transfer)
        self._meter.ready += 1
        return Made(replace(audio, clip=clip), audio.waveform.nbytes, arrive)


class BatchStages(_Stages):
    """Clips in batches: each is decoded to parts, which are written into the batch once all of it is there."""

    def __init__(
        self,
        load: LoadParts,
        layout: Layout,
        crop_seconds: float | None,
        short: Short,
        **input: Any,
    ) -> None:
        super().__init__(**input)
        self._load, self._layout = load, layout
        self._crop_seconds, self._short = crop_seconds, short

    async def load(self, entry: Entry, progress: Progress) -> Loaded[tuple[Clip, Row]]:
        crop = None
        if self._crop_seconds is not None:
            crop = Crop(self._crop_seconds, self._order.generator(progress.epoch, entry.position).random())

        def loaded(parts: Parts) -> Loaded[tuple[Clip, Row]]:
            row = self._row(parts, crop)
            if row is None:
                return Loaded()
            num_bytes = _bytes_to_be(parts, row.num_samples, self._layout)
            return Loaded((entry.clip, row), None, row.num_samples, parts.sample_rate, num_bytes)

        return await load_guarded(lambda times: self._load(entry.clip, times, crop), entry, self._meter, loaded)

    def _row(self, parts: Parts, crop: Crop | None) -> Row | None:
        """The row of a decoded clip; None where it is too short and not wanted."""
        if crop is None:
            return Row(parts, parts.num_samples)
        length = crop.num_samples(parts.sample_rate)
        if parts.is_whole:
            start = crop.start(parts.num_samples, parts.sample_rate)
            parts.cut(start, start + length)
        if parts.num_samples >= length or self._short == "keep":
            return Row(parts, parts.num_samples)
        return None if self._short == "drop" else Row(parts, length, repeat=self._short == "repeat")

    async def finish(self, group: Group[Loaded[tuple[Clip, Row]]]) -> Made[Batch]:
        present = [member.value.value for member in group.members if member.value.value is not None]
        rows = [row for _, row in present]
        starts = tuple(row.parts.start_seconds for row in rows)
        failures = (*group.failures, *self._failures_among(group))
        self._meter.collating += 1
        try:
            # Not by a decode thread, which may have begun its next files: it is little work, and the consumer waits.
            asked = time.perf_counter()
            made = await self._collated(rows)
        finally:
            self._meter.collating -= 1
        lengths = [row.num_samples for row in rows]
        longest = padded_length(max(lengths, default=0), self._layout.pad_to_multiple)
        samples = sum(lengths)
        padded = longest * len(rows) if self._layout.collate == "padded" else samples
        self._meter.collated(asked, made.began, made.ended, made.thread, samples, padded)
        self._meter.ready += 1
        clips = tuple(clip for clip, _ in present)
        batch = Batch(made.waveforms, made.lengths, made.sample_rate, clips, starts, failures)
        num_bytes = made.num_bytes + sum(carried_bytes(failure.error) for failure in failures)
        return Made(batch, num_bytes, made.arrive)

    async def _collated(self, rows: list[Row]) -> Waveforms:
        transfer = self._layout.transfer
        if transfer is None:
            return await self._workers.read(collate, rows, self._layout)
        await self.hold_up(transfer)
        return await self._workers.read(ship, rows, self._layout)

    def _failures_among(self, group: Group[Loaded[Any]]) -> list[Failure]:
        """Those that have a place in the batch."""
        return [member.value.failure for member in group.members if member.value.failure is not None]


def _bytes_to_be(parts: Parts, num_samples: int, layout: Layout) -> int:
    """What a clip holds now, or will hold: what is left to a device may grow there."""
    return max(parts.num_bytes, num_samples * parts.num_channels * layout.dtype.itemsize)


async def load_guarded(
    load: Callable[[Times], Awaitable[T]], entry: Entry, meter: Meter, loaded: Callable[[T], Loaded[Any]]
) -> Loaded[Any]:
    """What a load gives, or its failure. What is wrong with the run itself, not with the clip, is raised."""
    times = Times()
    failure: Failure | None = None
    meter.load_began(times)
    try:
        return loaded(await load(times))
    except ClosedError:
        raise
    except BaseException as raised:
        if isinstance(raised, asyncio.CancelledError) and is_cancelled():
            raise
        failure = _failure(entry.clip, raised, times)
        return Loaded(failure=failure, num_bytes=carried_bytes(failure.error))
    finally:
        meter.load_ended(times, short_name(entry.clip.source), None if failure is None else failure.stage)
        del failure  # its error refers to this frame


def _failure(clip: Clip, raised: BaseException, times: Times) -> Failure:
    error = raised
    if not isinstance(error, Exception):
        error = RuntimeError(f"the source raised {raised!r}")
        error.__cause__ = raised
    is_fetch = isinstance(error, SourceError) or times.read_queued > times.decode_queued or not times.decode_queued
    stage: Literal["fetch", "decode"] = "fetch" if is_fetch else "decode"
    error.add_note(f"source: {getattr(error, 'source', None) or short_name(clip.source)}")
    error.add_note(f"stage: {stage}")
    return Failure(clip, error, stage)
