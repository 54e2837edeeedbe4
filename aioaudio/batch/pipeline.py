"""The flow from clips to results. It runs on the I/O thread's loop, which no model blocks.

    input ──► load ──► group ──► finish ──► consumer

Loads are begun as far ahead as `Room` allows, all at once, and wait with the workers. An error of any stage travels
behind what came before it. Nothing here refers to the object that the consumer holds: once that is dropped, this is
cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from aioaudio.audio import Failure
from aioaudio.batch.agree import Agree, Answer, decide
from aioaudio.batch.failures import FailureLog, without_audio
from aioaudio.batch.flow import Delivery, Flow, Loaded, Made, Stages
from aioaudio.batch.grouping import Group, Grouper, Member, Sizes
from aioaudio.batch.handover import HandOver
from aioaudio.batch.order import Entry, Order, Progress
from aioaudio.batch.room import Room
from aioaudio.batch.segment import Segment

__all__ = ["Pipeline"]

T = TypeVar("T")
R = TypeVar("R")


_Segment: TypeAlias = Segment[tuple[Entry, Loaded[T]]]


@dataclass(slots=True)
class _Finishing(Generic[T, R]):
    """A group whose result is being made."""

    group: Group[Loaded[T]]
    segment: _Segment[T]
    task: asyncio.Task[Made[R]]


class Pipeline(Generic[T, R]):
    """Makes results from clips, from `start` on."""

    def __init__(
        self,
        stages: Stages[T, R],
        flow: Flow,
        sizes: Sizes,
        order: Order,
        log: FailureLog,
        start: Progress,
        agree: Agree | None = None,
    ) -> None:
        self._stages, self._flow, self._sizes, self._order = stages, flow, sizes, order
        self._log, self._start, self._agree = log, start, agree
        self.out: HandOver[Delivery[R]] = HandOver()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._room: Room
        self._loop: asyncio.AbstractEventLoop
        self._has_room: asyncio.Event
        self._segments: asyncio.Queue[_Segment[T] | None]
        self._finishing: asyncio.Queue[_Finishing[T, R] | _Segment[T] | Exception | None]
        self._goes_on: asyncio.Queue[Progress]

    async def run(self, room: Room) -> None:
        """Make the results, and hand them over. Ends when the consumer has taken them all."""
        if self._stopped:
            if self._agree is not None:
                self._agree.leave()
            return
        self._task = asyncio.current_task()
        self._room, self._loop = room, asyncio.get_running_loop()
        self._has_room, self._segments, self._finishing = asyncio.Event(), asyncio.Queue(), asyncio.Queue()
        self._goes_on = asyncio.Queue()
        self._open_segments: set[_Segment[T]] = set()
        stages: list[asyncio.Task[None]] = []
        try:
            await self._stages.begin()
            stages += map(asyncio.create_task, (self._load_all(), self._group_all(), self._stages.watch()))
            await (self._deliver_all() if self._agree is None else self._deliver_in_step(self._agree))
            self._agree = None  # nothing is left to be agreed on
            self.out.end()
            while self.out:
                self._has_room.clear()
                await self._has_room.wait()
        except Exception as error:
            self.out.end(error)
        finally:
            self._stopped = True
            if self._agree is not None:
                self._agree.leave()
            await self._cancel(stages)
            await self._stages.close()

    def stop(self) -> None:
        """End the work; called on the I/O loop."""
        if not self._stopped:
            self._stopped = True
            if self._task is not None:
                self._task.cancel()

    async def _cancel(self, tasks: list[asyncio.Task[None]]) -> None:
        """Leave no task behind."""
        left: list[asyncio.Task[object]] = [*tasks]
        while not self._finishing.empty():
            item = self._finishing.get_nowait()
            if isinstance(item, _Finishing):
                left.append(item.task)
        for segment in self._open_segments:
            left += segment.loads()
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # From clips to loads

    async def _load_all(self) -> None:
        progress = self._start
        last = None if self._flow.epochs is None else self._flow.first_epoch + self._flow.epochs
        while last is None or progress.epoch < last:
            segment: _Segment[T] = Segment(progress, in_order=self._flow.in_order)
            self._open_segments.add(segment)
            self._segments.put_nowait(segment)
            try:
                is_empty = await self._load_segment(segment, progress)
            except Exception as error:
                segment.end(error)
                return
            segment.end()
            if last is None and is_empty and progress.is_beginning:
                break
            progress = Progress(progress.epoch + 1) if self._agree is None else await self._goes_on.get()
        self._segments.put_nowait(None)

    async def _load_segment(self, segment: _Segment[T], progress: Progress) -> bool:
        """Begin all loads of a segment as there is room for them; says whether there were none."""
        feed = self._stages.open(progress)
        is_empty = True
        try:
            while free := await self._wait_for_room(segment):
                asked = time.perf_counter()
                if not (entries := await feed.take(free)):
                    break
                is_empty = False
                self._stages.took(len(entries), time.perf_counter() - asked)
                if segment.is_abandoned:
                    break
                for entry in entries:
                    self._room.begin()
                    load = asyncio.create_task(self._load(entry, progress))
                    load.add_done_callback(self._loaded)
                    segment.add(load)
        finally:
            feed.close()
        return is_empty

    async def _wait_for_room(self, segment: _Segment[T]) -> int:
        """How many loads may begin; none in a segment that was given up."""
        while not (free := self._room.free()) and not segment.is_abandoned:
            self._has_room.clear()
            await self._has_room.wait()
        return 0 if segment.is_abandoned else free

    async def _load(self, entry: Entry, progress: Progress) -> tuple[Entry, Loaded[T]]:
        return entry, await self._stages.load(entry, progress)

    def _loaded(self, load: asyncio.Task[tuple[Entry, Loaded[T]]]) -> None:
        """Count a load that has ended; one that was cancelled may never have begun."""
        is_there = not load.cancelled() and load.exception() is None
        self._room.loaded(load.result()[1].num_bytes if is_there else 0)
        if not is_there:
            self._room.leave(1, 0)
        self._has_room.set()

    # From loads to groups

    async def _group_all(self) -> None:
        try:
            while (segment := await self._segments.get()) is not None:
                async for group in self._groups_of(segment):
                    self._room.grouped(len(group.members))
                    finish = asyncio.create_task(self._stages.finish(group))
                    self._finishing.put_nowait(_Finishing(group, segment, finish))
                self._open_segments.discard(segment)
                self._finishing.put_nowait(segment)
        except Exception as error:
            self._finishing.put_nowait(error)
        else:
            self._finishing.put_nowait(None)

    async def _groups_of(self, segment: _Segment[T]) -> AsyncIterator[Group[Loaded[T]]]:
        grouper: Grouper[Loaded[T]] = Grouper(self._sizes, self._order, segment.progress, in_order=self._flow.in_order)
        num_clips = num_groups = 0
        async for entry, loaded in segment:
            num_clips += 1
            for group in self._groups_with(grouper, entry, loaded):
                num_groups += 1
                yield group
            self._let_go(grouper.take_dropped())
        for group in grouper.finish():
            num_groups += 1
            yield group
        self._let_go(grouper.take_dropped())
        is_whole = segment.progress.is_beginning and not segment.is_abandoned
        if self._flow.epochs is None and is_whole and num_clips and not num_groups:
            raise ValueError(
                f"an epoch of {num_clips} clips gave nothing, so epochs=None would never end; what failed is the cause"
            ) from self._log.summary()

    def _groups_with(self, grouper: Grouper[Loaded[T]], entry: Entry, loaded: Loaded[T]) -> Iterator[Group[Loaded[T]]]:
        """The groups that are complete with this clip."""
        failure = loaded.failure
        if failure is not None:
            if self._flow.on_error == "skip":
                failure = replace(failure, error=without_audio(failure.error))
            self._judge(failure)
        elif loaded.value is not None:
            self._log.success()
        if loaded.value is None and not (failure is not None and self._flow.on_error == "return"):
            self._let_go([loaded])
            return grouper.miss(entry.ordinal, failure)
        return grouper.add(Member(entry.ordinal, loaded, loaded.num_samples, loaded.sample_rate, loaded.num_bytes))

    def _let_go(self, clips: Sequence[Loaded[T] | Member[Loaded[T]]]) -> None:
        """Count loaded clips that come to nothing."""
        for clip in clips:
            self._room.leave(1, clip.num_bytes)
            self._has_room.set()

    def _judge(self, failure: Failure) -> None:
        too_many = self._log.failure(failure)
        if self._flow.on_error == "raise":
            raise failure.error
        if too_many is not None:
            raise too_many

    # From groups to the consumer

    async def _deliver_all(self) -> None:
        while (item := await self._finishing.get()) is not None:
            if isinstance(item, Exception):
                raise item
            if isinstance(item, _Finishing):
                self.out.put(await self._delivery(item))
            del item

    async def _deliver_in_step(self, agree: Agree) -> None:
        """Deliver as many batches of each epoch as all other ranks."""
        is_owed = False  # the others have a batch that this rank has yet to give
        is_over = False  # it gives no more of this epoch
        num_given = 0
        while (item := await self._finishing.get()) is not None:
            if isinstance(item, Exception):
                raise item
            progress = (item.segment if isinstance(item, _Finishing) else item).progress
            if not (is_over or is_owed):
                has_batch = isinstance(item, _Finishing) and progress.cycle == 0
                answer = decide(self._flow.uneven, has_batch, *await agree.ask(has_batch))
                is_over, is_owed = answer is Answer.END, answer is Answer.REPEAT
                if is_over and isinstance(item, _Finishing):
                    self._let_go([loaded for _, loaded in item.segment.abandon()])
                    self._has_room.set()
            if isinstance(item, _Finishing):
                delivery = await self._delivery(item)
                if is_over:
                    self._room.taken(delivery.num_clips, delivery.num_bytes)
                    self._has_room.set()
                else:
                    self.out.put(delivery)
                    is_owed, num_given = False, num_given + 1
                continue
            if is_owed and progress.cycle and progress.is_beginning and not num_given:
                raise ValueError("other ranks have batches, and this one has no clips that it could repeat")
            following = Progress(progress.epoch + 1) if is_over else Progress(progress.epoch, progress.cycle + 1)
            self._goes_on.put_nowait(following)
            is_over, num_given = False, 0

    async def _delivery(self, item: _Finishing[T, R]) -> Delivery[R]:
        group = item.group
        before = sum(member.num_bytes for member in group.members)
        made = await item.task
        self._room.resized(made.num_bytes - before)
        seconds = sum(one.num_samples / one.sample_rate for one in group.members)
        failed = sum(member.value.failure is not None for member in group.members)
        num_clips, num_failures = len(group.members), len(group.failures) + failed
        return Delivery(
            made.result,
            group.progress,
            num_clips,
            made.num_bytes,
            seconds,
            num_clips - failed,
            num_failures,
            made.arrive,
        )

    def taken(self, delivery: Delivery[R]) -> None:
        """Learn that the consumer has taken a result; may be called from any thread."""
        self._call(lambda: self._room.taken(delivery.num_clips, delivery.num_bytes))

    def _call(self, function: Callable[[], None]) -> None:
        """Call it on the I/O loop; may be called from any thread."""

        def call() -> None:
            function()
            self._has_room.set()

        with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing is made any more
            self._loop.call_soon_threadsafe(call)
