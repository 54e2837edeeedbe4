"""The flow alone, with loads that are made up: whatever becomes of clips, it ends and holds nothing; ranks agree."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aioaudio.audio import Clip, Failure
from aioaudio.batch.failures import FailureLog, OnError
from aioaudio.batch.flow import Flow, Loaded, Made
from aioaudio.batch.grouping import Group, Sizes
from aioaudio.batch.handover import Ended
from aioaudio.batch.order import Entry, Order, Progress, select
from aioaudio.batch.pipeline import Pipeline
from aioaudio.batch.room import Room

BYTES = 100


def fate_of(number: int, fates: list[str]) -> str:
    return fates[number % len(fates)]


async def pause(rng: random.Random) -> None:
    for _ in range(rng.randrange(4)):
        await asyncio.sleep(0)


class ListFeed:
    def __init__(self, entries: list[Entry], rng: random.Random) -> None:
        self.entries, self.rng = entries, rng

    async def take(self, count: int) -> list[Entry]:
        await pause(self.rng)
        given, self.entries = self.entries[:count], self.entries[count:]
        return given

    def close(self) -> None:
        pass


@dataclass
class MadeUp:
    """Clips are numbers; `fates` says of which come failures, and which are not wanted."""

    clips: list[int]
    fates: list[str]
    order: Order
    rng: random.Random

    async def begin(self) -> None:
        await pause(self.rng)

    def open(self, progress: Progress) -> ListFeed:
        return ListFeed(list(select(self.clips, self.order, progress)), self.rng)

    def took(self, num_clips: int, waited: float) -> None:
        pass

    async def load(self, entry: Entry, progress: Progress) -> Loaded[int]:
        await pause(self.rng)
        number = entry.clip
        fate = fate_of(number, self.fates)
        if fate == "fails":
            return Loaded(failure=Failure(Clip(number), LookupError(number), "decode"))
        if fate == "unwanted":
            return Loaded()
        return Loaded(number, None, number % 5 + 1, 1, BYTES)

    async def finish(self, group: Group[Loaded[int]]) -> Made[list[int]]:
        await pause(self.rng)
        numbers = [member.value.value for member in group.members if member.value.value is not None]
        return Made(numbers, BYTES * len(numbers))

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


@dataclass
class Table:
    """Where the ranks of one loop agree."""

    num_ranks: int
    asked: dict[int, bool] = field(default_factory=dict)
    answer: asyncio.Future[tuple[bool, bool]] | None = None

    async def ask(self, rank: int, has_batch: bool) -> tuple[bool, bool]:
        self.answer = answer = self.answer or asyncio.get_running_loop().create_future()
        self.asked[rank] = has_batch
        if len(self.asked) == self.num_ranks:
            has = [*self.asked.values()]
            self.answer, self.asked = None, {}
            answer.set_result((any(has), not all(has)))
        return await asyncio.shield(answer)


@dataclass
class Seat:
    table: Table
    rank: int
    left: bool = False

    async def ask(self, has_batch: bool) -> tuple[bool, bool]:
        return await self.table.ask(self.rank, has_batch)

    def leave(self) -> None:
        self.left = True


@dataclass(frozen=True)
class Case:
    """A run of one or several ranks."""

    num_clips: int
    fates: list[str]
    sizes: Sizes
    uneven: Literal["allow", "drop", "repeat"] = "allow"
    num_ranks: int = 1
    epochs: int = 1
    in_order: bool = True
    on_error: OnError = "skip"
    prefetch: int = 2
    max_bytes: int = 1 << 30
    shuffle: bool = False

    def pipelines(self, rng: random.Random, starts: list[Progress]) -> list[tuple[Pipeline[int, list[int]], Room]]:
        table = Table(self.num_ranks)
        made = []
        for rank, start in enumerate(starts):
            order = Order(shuffle=self.shuffle, rank=rank, world_size=self.num_ranks)
            stages = MadeUp([*range(self.num_clips)], self.fates, order, rng)
            flow = Flow(in_order=self.in_order, on_error=self.on_error, epochs=self.epochs, uneven=self.uneven)
            agree = None if self.uneven == "allow" else Seat(table, rank)
            pipeline = Pipeline(stages, flow, self.sizes, order, FailureLog(None, None), start, agree)
            room = Room(
                prefetch=self.prefetch,
                bucket=self.sizes.bucket or 0,
                max_bytes=self.max_bytes,
                batch_clips=self.sizes.batch_size or 1,
                is_exact=self.sizes.batch_seconds is None,
                least=2,
                least_clips=4,
            )
            made.append((pipeline, room))
        return made

    async def run(self, seed: int, starts: list[Progress] | None = None, stop_after: int | None = None) -> list[Any]:
        """What each rank gave: the results, and where it then stood."""
        rng = random.Random(seed)
        pipelines = self.pipelines(rng, starts or [Progress()] * self.num_ranks)
        return await asyncio.gather(*(_consume(*one, rng, stop_after) for one in pipelines))


async def _consume(
    pipeline: Pipeline[int, list[int]], room: Room, rng: random.Random, stop_after: int | None
) -> tuple[list[list[int]], Progress]:
    running = asyncio.create_task(pipeline.run(room))
    given: list[list[int]] = []
    progress = Progress()
    await asyncio.sleep(0)
    while stop_after is None or len(given) < stop_after:
        await pause(rng)
        try:
            delivery = await pipeline.out.take()
        except Ended:
            break
        given.append(delivery.result)
        progress = delivery.progress
        pipeline.taken(delivery)
    else:
        pipeline.stop()
    await asyncio.wait([running])
    if stop_after is None:
        assert (room.loading, room.ahead, room.num_bytes, room.batches) == (0, 0, 0, 0), "something is never let go"
    return given, progress


all_sizes = st.builds(
    Sizes,
    batch_size=st.integers(1, 5),
    batch_seconds=st.sampled_from([None, 6.0, 20.0]),
    bucket=st.sampled_from([None, 2, 9]),
    window_bytes=st.sampled_from([5 * BYTES, 1 << 30]),
    drop_last=st.booleans(),
)
all_cases = st.builds(
    Case,
    num_clips=st.integers(0, 40),
    fates=st.lists(st.sampled_from(["comes", "comes", "comes", "fails", "unwanted"]), min_size=1, max_size=12),
    sizes=all_sizes,
    epochs=st.integers(1, 6),
    in_order=st.booleans(),
    on_error=st.sampled_from(["skip", "return"]),
    prefetch=st.integers(1, 3),
    max_bytes=st.sampled_from([3 * BYTES, 1 << 30]),
    shuffle=st.booleans(),
)
seeds = st.integers(0, 10**6)


def within(seconds: float, case: Any) -> Any:
    """What a run gives that must end."""

    async def limited() -> Any:
        async with asyncio.timeout(seconds):
            return await case

    return asyncio.run(limited())


@given(all_cases, seeds)
@settings(max_examples=150)
def test_any_run_ends_with_nothing_held(case: Case, seed: int) -> None:
    [(given, _)] = within(20, case.run(seed))
    wanted = [number for number in range(case.num_clips) if fate_of(number, case.fates) == "comes"]
    come = [number for numbers in given for number in numbers]
    if not case.sizes.drop_last:
        assert sorted(come) == sorted(wanted * case.epochs)
    assert len(set(come)) == len(come) or case.epochs > 1


@given(all_cases, st.sampled_from(["drop", "repeat"]), st.integers(1, 3), st.integers(0, 12), seeds)
@settings(max_examples=100)
def test_ranks_in_step_give_as_many_also_when_they_are_resumed(
    case: Case, uneven: Any, num_ranks: int, stop_after: int, seed: int
) -> None:
    case = replace(case, uneven=uneven, num_ranks=num_ranks, in_order=True)

    async def resumed() -> tuple[list[Any], list[Any]]:
        first = await case.run(seed, stop_after=stop_after)
        return first, await case.run(seed + 1, [progress for _, progress in first])

    try:
        whole = within(20, case.run(seed))
    except ValueError:  # a rank has nothing at all that it could repeat
        assume(uneven == "drop")
        raise
    first, rest = within(20, resumed())
    assert len({len(given) for given, _ in whole}) == 1
    for (all_of_it, _), (before, _), (after, _) in zip(whole, first, rest, strict=True):
        assert before + after == all_of_it
