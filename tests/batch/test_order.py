"""Which clips come, in which order: pure properties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioaudio.batch.options import resolve_shard
from aioaudio.batch.order import Entry, Ledger, Order, Progress, is_indexable, select, select_stream

orders = st.builds(
    Order,
    shuffle=st.booleans(),
    shuffle_buffer=st.integers(1, 12),
    seed=st.integers(0, 3),
    rank=st.just(0),
    world_size=st.integers(1, 4),
)
counts = st.integers(0, 40)


def entries(count: int, order: Order, progress: Progress, *, indexed: bool) -> list[Entry]:
    clips = [*range(count)]
    return list(select(clips, order, progress) if indexed else select_stream(iter(clips), order, progress))


def ranks(order: Order) -> Iterator[Order]:
    for rank in range(order.world_size):
        yield Order(order.shuffle, order.shuffle_buffer, order.seed, rank, order.world_size)


@given(counts, orders, st.booleans(), st.integers(0, 2))
def test_every_clip_comes_once_over_all_ranks(count: int, order: Order, indexed: bool, epoch: int) -> None:
    come = [entry for rank in ranks(order) for entry in entries(count, rank, Progress(epoch), indexed=indexed)]
    assert sorted(entry.clip for entry in come) == [*range(count)]
    assert sorted(entry.position for entry in come) == [*range(count)]


@given(counts, orders, st.booleans())
def test_ranks_share_one_order(count: int, order: Order, indexed: bool) -> None:
    whole = entries(count, Order(order.shuffle, order.shuffle_buffer, order.seed), Progress(), indexed=indexed)
    for rank in ranks(order):
        for entry in entries(count, rank, Progress(), indexed=indexed):
            assert entry.clip == whole[entry.position].clip
            assert entry.position == rank.rank + entry.ordinal * rank.world_size


@given(counts, st.integers(1, 4), st.booleans())
def test_unshuffled_is_the_order_of_the_input(count: int, world_size: int, indexed: bool) -> None:
    come = entries(count, Order(world_size=world_size), Progress(), indexed=indexed)
    assert [entry.clip for entry in come] == [*range(0, count, world_size)]


@given(counts, orders, st.booleans(), st.data())
def test_what_is_still_to_come_is_what_has_not_come(count: int, order: Order, indexed: bool, data: Any) -> None:
    whole = entries(count, order, Progress(), indexed=indexed)
    done = data.draw(st.sets(st.sampled_from(whole).map(lambda entry: entry.ordinal))) if whole else set()
    ledger = Ledger(Progress())
    for ordinal in data.draw(st.permutations(sorted(done))):
        ledger.done(ordinal)
    rest = entries(count, order, ledger.progress(), indexed=indexed)
    assert sorted(rest, key=lambda entry: entry.ordinal) == [entry for entry in whole if entry.ordinal not in done]


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_a_ledger_goes_on_where_another_was_left(first: set[int], second: set[int]) -> None:
    ledger = Ledger(Progress())
    for ordinal in first:
        ledger.done(ordinal)
    resumed = Ledger(ledger.progress())
    for ordinal in second:
        ledger.done(ordinal)
        resumed.done(ordinal)
    assert resumed.progress() == ledger.progress()


@pytest.mark.parametrize("indexed", [True, False])
def test_epochs_and_seeds_are_shuffled_differently_and_the_same_each_time(indexed: bool) -> None:
    def clips_of(seed: int, epoch: int) -> tuple[int, ...]:
        order = Order(shuffle=True, shuffle_buffer=50, seed=seed)
        return tuple(entry.clip for entry in entries(100, order, Progress(epoch), indexed=indexed))

    keys = [(seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len({clips_of(*key) for key in keys}) == 4
    assert [clips_of(*key) for key in keys] == [clips_of(*key) for key in keys]


def test_what_has_a_length_and_an_index_is_indexable() -> None:
    class Rows:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> str:
            return "a.wav"

    assert is_indexable(["a.wav"])
    assert is_indexable(Rows())
    assert not is_indexable({"a.wav"})
    assert not is_indexable(iter(["a.wav"]))


def test_a_shard_is_asked_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_shard("auto") == (0, 1)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert resolve_shard("auto") == (3, 8)
    assert resolve_shard(None) == (0, 1)
