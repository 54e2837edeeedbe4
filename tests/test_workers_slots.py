"""The bound between fetching and decoding: it holds, it is fair, and no slot is ever lost."""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aioaudio.errors import ClosedError
from aioaudio.workers import Workers
from aioaudio.workers.slots import Slots


async def hold(slots: Slots, entered: list[int], name: int, release: asyncio.Event) -> None:
    async with slots.slot():
        entered.append(name)
        await release.wait()


async def start(slots: Slots, count: int) -> tuple[list[asyncio.Task[None]], list[int], list[asyncio.Event]]:
    """Tasks that ask for a slot in their order, and hold it until their event is set."""
    entered: list[int] = []
    releases = [asyncio.Event() for _ in range(count)]
    tasks = [asyncio.create_task(hold(slots, entered, i, release)) for i, release in enumerate(releases)]
    await asyncio.sleep(0)
    return tasks, entered, releases


async def use(slots: Slots) -> None:
    """Hold a slot for ever."""
    async with slots.slot():
        await asyncio.get_running_loop().create_future()


async def turns(count: int = 3) -> None:
    """Let everything that is due run, wake-ups through the loop's own pipe included."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("read_threads", "count"), [(1, 2 * 3 * 8), (100, 3 * 8 + 100)])
async def test_there_are_slots_for_what_is_decoded_and_for_what_is_read_or_decoded_next(
    read_threads: int, count: int
) -> None:
    workers = Workers(read_threads=read_threads, decode_threads=3)
    releases, entered = asyncio.Event(), []

    async def one(i: int) -> None:
        async with workers.slot():
            entered.append(i)
            await releases.wait()

    tasks = [asyncio.create_task(one(i)) for i in range(150)]
    await turns()
    assert entered == list(range(count))
    statistics = workers.statistics()
    assert (statistics.slots_used, statistics.slots_waiting) == (count, 150 - count)
    releases.set()
    await asyncio.gather(*tasks)
    assert entered == list(range(150))
    assert workers.statistics().slots_used == 0
    await workers.aclose()


async def test_read_ahead_waits_for_all_others() -> None:
    slots, entered = Slots(1), []

    async def hold(name: str, priority: int) -> None:
        async with slots.slot(priority):
            entered.append(name)
            await turns()

    ahead = [asyncio.create_task(hold(f"ahead {i}", 1)) for i in range(3)]
    await asyncio.sleep(0)
    direct = [asyncio.create_task(hold(f"direct {i}", 0)) for i in range(2)]
    await asyncio.gather(*ahead, *direct)
    assert entered == ["ahead 0", "direct 0", "direct 1", "ahead 1", "ahead 2"]
    assert (slots.num_used, slots.num_waiting) == (0, 0)


async def test_slots_are_given_in_the_order_in_which_they_are_asked_for() -> None:
    slots = Slots(2)
    tasks, entered, releases = await start(slots, 6)
    assert entered == [0, 1]
    releases[1].set()
    await tasks[1]
    late = asyncio.create_task(hold(slots, entered, 99, releases[0]))  # does not overtake those who wait
    await turns()
    assert entered == [0, 1, 2]
    for release in releases:
        release.set()
    await asyncio.gather(*tasks, late)
    assert entered == [0, 1, 2, 3, 4, 5, 99]
    assert slots.num_used == 0


async def test_an_error_inside_gives_the_slot_back() -> None:
    slots = Slots(1)
    with pytest.raises(KeyError):
        async with slots.slot():
            raise KeyError
    async with slots.slot():
        assert slots.num_used == 1


async def test_a_waiter_that_is_cancelled_loses_no_slot() -> None:
    slots = Slots(1)
    tasks, entered, releases = await start(slots, 4)
    tasks[1].cancel()  # while it waits
    releases[0].set()
    await tasks[0]  # and the slot is on its way to task 2
    tasks[2].cancel()
    await asyncio.wait(tasks[1:3])
    releases[3].set()
    await tasks[3]
    assert entered == [0, 3]
    assert (slots.num_used, slots.num_waiting) == (0, 0)


async def test_a_coroutine_that_is_closed_gives_its_slot_back() -> None:
    slots = Slots(1)
    holder, waiter, next_waiter = use(slots), use(slots), use(slots)
    for coroutine in (holder, waiter, next_waiter):
        coroutine.send(None)
    assert (slots.num_used, slots.num_waiting) == (1, 2)
    waiter.close()
    assert slots.num_waiting == 1
    holder.close()  # the slot is granted to the last one, which goes before it has woken
    assert (slots.num_used, slots.num_waiting) == (1, 0)
    next_waiter.close()
    assert slots.num_used == 0


def test_a_loop_that_is_closed_meanwhile_takes_no_slot_along() -> None:
    slots = Slots(1)

    async def use(release: asyncio.Event) -> None:
        async with slots.slot():
            await release.wait()

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(use(asyncio.Event()))
        await asyncio.sleep(0)
        return task

    async def main() -> None:
        release = asyncio.Event()
        holder = asyncio.create_task(use(release))
        await asyncio.sleep(0)
        lost = await asyncio.to_thread(abandon)
        assert slots.num_waiting == 1
        release.set()
        await holder
        assert slots.num_used == 0
        del lost

    def abandon() -> asyncio.Task[None]:
        loop = asyncio.new_event_loop()
        task = loop.run_until_complete(begin())
        loop.close()
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task

    asyncio.run(main())


async def test_closing_wakes_all_who_wait() -> None:
    workers = Workers(read_threads=1, decode_threads=1)
    release = asyncio.Event()

    async def use() -> None:
        async with workers.slot():
            await release.wait()

    holders = [asyncio.create_task(use()) for _ in range(16)]
    waiters = [asyncio.create_task(use()) for _ in range(10)]
    await turns()
    await workers.aclose()
    for waiter in waiters:
        with pytest.raises(ClosedError):
            await waiter
    release.set()
    await asyncio.gather(*holders)


class TestRaces:
    """What another thread, or a finalizer, does between two steps of the code: here, in the middle of a slot's own."""

    async def test_a_slot_that_comes_free_between_look_and_wait_is_seen(self) -> None:
        class Racing(Slots):
            def _take(self) -> bool:
                taken = super()._take()
                if not taken:
                    holder.close()
                return taken

        slots = Racing(1)
        holder, other = use(slots), use(slots)
        holder.send(None)
        other.send(None)
        assert (slots.num_used, slots.num_waiting) == (1, 0)
        other.close()
        assert slots.num_used == 0

    async def test_one_who_comes_just_before_a_slot_is_free_gets_it(self) -> None:
        class Racing(deque[None]):
            def append(self, slot: None) -> None:
                if inspect.getcoroutinestate(other) == inspect.CORO_CREATED:
                    other.send(None)
                super().append(slot)

        slots = Slots(1)
        slots._free = Racing(slots._free)
        holder, other = use(slots), use(slots)
        holder.send(None)
        holder.close()
        assert (slots.num_used, slots.num_waiting) == (1, 0)
        other.close()
        assert slots.num_used == 0

    async def test_a_waiter_that_leaves_while_it_is_given_a_slot_passes_it_on(self) -> None:
        class Racing(OrderedDict[Any, None]):
            def popitem(self, last: bool = True) -> Any:
                item = super().popitem(last)
                leaving.close()
                return item

        slots = Slots(1)
        slots._waiters = (Racing(), *slots._waiters[1:])
        holder, leaving, last = use(slots), use(slots), use(slots)
        for coroutine in (holder, leaving, last):
            coroutine.send(None)
        holder.close()
        assert (slots.num_used, slots.num_waiting) == (1, 0)
        last.close()
        assert slots.num_used == 0

    async def test_one_who_waits_just_as_all_is_closed_is_woken(self) -> None:
        class Racing(Slots):
            def _take(self) -> bool:
                taken = super()._take()
                if not self._closed:
                    self.close()
                return taken

        slots = Racing(1)
        slots._free.clear()
        with pytest.raises(ClosedError):
            async with slots.slot():
                pass


@pytest.fixture
def eager_preemption() -> Iterator[None]:
    """Threads take the interpreter from each other as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_the_bound_holds_under_random_cancellation_from_many_loops(
    soak: Callable[[int], int], eager_preemption: None
) -> None:
    slots = Slots(5)
    inside, most, finished = 0, 0, 0
    lock = threading.Lock()

    async def use(rng: random.Random) -> None:
        nonlocal inside, most, finished
        async with slots.slot():
            with lock:
                inside += 1
                most = max(most, inside)
            try:
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                with lock:
                    inside -= 1
        with lock:
            finished += 1

    async def main(seed: int) -> None:
        rng = random.Random(seed)
        tasks: list[asyncio.Task[None]] = []
        for _ in range(soak(20_000)):
            tasks.append(asyncio.create_task(use(rng)))
            if rng.random() < 0.5:
                rng.choice(tasks[-50:]).cancel()
            if rng.random() < 0.2:
                await asyncio.sleep(0)
        await asyncio.wait(tasks)

    threads = [threading.Thread(target=lambda seed=seed: asyncio.run(main(seed))) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 5
    assert finished > 0
    assert (slots.num_used, slots.num_waiting, inside) == (0, 0, 0)
