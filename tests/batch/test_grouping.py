"""Which clips make a batch: pure properties."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aioaudio.audio import Clip, Failure
from aioaudio.batch.grouping import Group, Grouper, Member, Sizes
from aioaudio.batch.order import Order, Progress

RATE = 10

Clips = list[int | None]

#: Length of each clip in samples, None for one that fails.
clip_lists = st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=40)
all_sizes = st.builds(
    Sizes,
    batch_size=st.one_of(st.none(), st.integers(1, 5)),
    batch_seconds=st.floats(1, 12),
    pad_to_multiple=st.integers(1, 7),
    bucket=st.one_of(st.none(), st.integers(1, 12)),
    window_bytes=st.sampled_from([1 << 62, 100]),
    drop_last=st.booleans(),
)


def group(
    clips: Clips,
    sizes: Sizes,
    progress: Progress | None = None,
    *,
    shuffle: bool = False,
    arrival: list[int] | None = None,
) -> list[Group[int]]:
    """The batches of what is to come after `progress`, in order, or by completion in the order of `arrival`."""
    progress = progress or Progress()
    grouper: Grouper[int] = Grouper(sizes, Order(shuffle=shuffle), progress, in_order=arrival is None)
    to_come = [*progress.pending, *range(progress.next, len(clips))]
    groups: list[Group[int]] = []
    for ordinal in to_come if arrival is None else [one for one in arrival if one in to_come]:
        length = clips[ordinal]
        if length is None:
            groups += grouper.miss(ordinal, Failure(Clip(ordinal), ValueError(), "decode"))
        else:
            groups += grouper.add(Member(ordinal, ordinal, length, RATE, length))
    return [*groups, *grouper.finish()]


def members(groups: list[Group[int]]) -> list[list[int]]:
    return [[member.ordinal for member in one.members] for one in groups]


def flat(groups: list[Group[int]]) -> list[int]:
    return [ordinal for one in members(groups) for ordinal in one]


def failed(groups: list[Group[int]]) -> list[int]:
    return [failure.clip.source for one in groups for failure in one.failures]


def good(clips: Clips) -> list[int]:
    return [ordinal for ordinal, length in enumerate(clips) if length is not None]


def padded_seconds(one: list[Member[int]], sizes: Sizes) -> float:
    longest = max(member.num_samples for member in one)
    return -(-longest // sizes.pad_to_multiple) * sizes.pad_to_multiple / RATE * len(one)


@given(clip_lists, all_sizes, st.booleans())
def test_batches_are_within_their_bounds(clips: Clips, sizes: Sizes, shuffle: bool) -> None:
    assert sizes.batch_seconds is not None
    for one in group(clips, sizes, shuffle=shuffle):
        assert one.members
        assert sizes.batch_size is None or len(one.members) <= sizes.batch_size
        assert len(one.members) == 1 or padded_seconds(one.members, sizes) <= sizes.batch_seconds


@given(clip_lists, all_sizes, st.booleans())
def test_every_clip_is_in_one_batch(clips: Clips, sizes: Sizes, shuffle: bool) -> None:
    come = flat(group(clips, sizes, shuffle=shuffle))
    assert len(come) == len(set(come))
    if sizes.drop_last:
        assert set(come) <= set(good(clips))
    else:
        assert sorted(come) == good(clips)


@given(clip_lists, all_sizes, st.booleans())
def test_every_failure_that_a_batch_follows_is_on_one(clips: Clips, sizes: Sizes, shuffle: bool) -> None:
    groups = group(clips, sizes, shuffle=shuffle)
    reported = failed(groups)
    assert len(reported) == len(set(reported))
    missing = {ordinal for ordinal, length in enumerate(clips) if length is None} - set(reported)
    if not sizes.drop_last:
        assert all(ordinal > max(good(clips), default=-1) for ordinal in missing)


@given(clip_lists, st.integers(1, 5), st.floats(1, 12), st.integers(1, 7))
def test_without_a_bucket_the_order_is_kept_and_batches_are_full(
    clips: Clips, batch_size: int, batch_seconds: float, multiple: int
) -> None:
    sizes = Sizes(batch_size=batch_size, batch_seconds=batch_seconds, pad_to_multiple=multiple)
    groups = group(clips, sizes)
    assert flat(groups) == good(clips)
    for one, following in pairwise(groups):
        more = [*one.members, following.members[0]]
        assert len(more) > batch_size or padded_seconds(more, sizes) > batch_seconds


@given(clip_lists, all_sizes, st.booleans(), st.data())
def test_in_order_the_batches_after_a_resume_are_those_that_were_to_come(
    clips: Clips, sizes: Sizes, shuffle: bool, data: Any
) -> None:
    groups = group(clips, sizes, shuffle=shuffle)
    if not groups:
        return
    done = data.draw(st.integers(0, len(groups) - 1))
    resumed, to_come = group(clips, sizes, groups[done].progress, shuffle=shuffle), groups[done + 1 :]
    assert members(resumed) == members(to_come)
    assert failed(resumed) == failed(to_come)
    assert [one.progress for one in resumed] == [one.progress for one in to_come]


@given(clip_lists, all_sizes, st.data())
def test_by_completion_the_clips_after_a_resume_are_those_that_were_to_come(
    clips: Clips, sizes: Sizes, data: Any
) -> None:
    sizes = Sizes(batch_size=sizes.batch_size, batch_seconds=sizes.batch_seconds, bucket=sizes.bucket)
    arrival, again = (data.draw(st.permutations(range(len(clips)))) for _ in range(2))
    groups = group(clips, sizes, arrival=arrival)
    if not groups:
        return
    done = data.draw(st.integers(0, len(groups) - 1))
    resumed = group(clips, sizes, groups[done].progress, arrival=again)
    assert sorted(flat(groups[: done + 1]) + flat(resumed)) == good(clips)


def test_a_bucket_sorts_by_length_and_carries_on_what_is_left() -> None:
    clips: Clips = [50, 10, 40, 20, 30, 11, 12, 13, 14]
    assert members(group(clips, Sizes(batch_size=2, bucket=5))) == [[1, 3], [4, 2], [5, 6], [7, 8], [0]]


@given(st.lists(st.integers(1, 600), min_size=4, max_size=60))
def test_a_bucket_of_everything_pads_least(clips: list[int]) -> None:
    clips = clips[: len(clips) // 4 * 4]

    def padded(bucket: int | None) -> float:
        groups = group([*clips], Sizes(batch_size=4, bucket=bucket))
        return sum(max(one.num_samples for one in each.members) for each in groups)

    assert padded(len(clips)) <= padded(None)
