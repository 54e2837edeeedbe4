"""Which clips make a batch, by number or by seconds, sorted by length within a window. Pure.

Groups are made from clips whose length is known, since they have been decoded: so a group never passes its bound, and
nothing hangs on what a manifest claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from aioaudio.audio import Failure
from aioaudio.batch.order import Ledger, Order, Progress

__all__ = ["Group", "Grouper", "Member", "Sizes", "padded_length"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large a batch may be: `batch_size` clips, and `batch_seconds` of audio after padding.

    With `bucket`, so many clips are sorted by length before they are grouped, fewer where they pass `window_bytes`.
    """

    batch_size: int | None = None
    batch_seconds: float | None = None
    pad_to_multiple: int = 1
    bucket: int | None = None
    window_bytes: int = 1 << 62
    drop_last: bool = False


def padded_length(longest: int, multiple: int) -> int:
    """The length of padded rows."""
    return -(-longest // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Member(Generic[T]):
    """A decoded clip, or one that failed and has its place all the same."""

    ordinal: int
    value: T
    num_samples: int = 0
    sample_rate: int = 1
    num_bytes: int = 0


@dataclass(slots=True)
class Group(Generic[T]):
    """A batch to be; `failures` are those since the group before, `progress` is where a run goes on after it."""

    members: list[Member[T]]
    failures: tuple[Failure, ...] = ()
    progress: Progress = field(default_factory=Progress)


class _Open(Generic[T]):
    """A group that is being filled."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self.members: list[Member[T]] = []
        self._longest_seconds = 0.0

    def seconds_of(self, member: Member[T]) -> float:
        return padded_length(member.num_samples, self._sizes.pad_to_multiple) / member.sample_rate

    def fits(self, member: Member[T]) -> bool:
        if self._sizes.batch_seconds is None or not self.members:
            return True
        longest = max(self._longest_seconds, self.seconds_of(member))
        return longest * (len(self.members) + 1) <= self._sizes.batch_seconds

    def add(self, member: Member[T]) -> None:
        self.members.append(member)
        self._longest_seconds = max(self._longest_seconds, self.seconds_of(member))

    @property
    def is_full(self) -> bool:
        return self._sizes.batch_size is not None and len(self.members) >= self._sizes.batch_size


class Grouper(Generic[T]):
    """Takes the clips of one epoch as they are decoded, and gives groups.

    With `in_order`, clips are given in the order of their ordinals, and the groups depend on nothing else: what is
    resumed from a group's progress makes the very same ones. Otherwise the clips alone are the same.
    """

    def __init__(self, sizes: Sizes, order: Order, progress: Progress, *, in_order: bool) -> None:
        self._sizes, self._order, self._in_order = sizes, order, in_order
        self._ledger = Ledger(progress)
        self._failures: list[Failure] = []
        self._open: _Open[T] = _Open(sizes)
        self._dropped: list[Member[T]] = []
        self._missed: list[int] = []
        # Of the window: what it began with, how many places of it are taken, and its clips.
        self._window_start = progress
        self._skip = progress.skip
        self._taken = 0
        self._window_bytes = 0
        self._window: list[Member[T]] = []

    def add(self, member: Member[T]) -> Iterator[Group[T]]:
        """Take a decoded clip."""
        if self._sizes.bucket is not None:
            self._window.append(member)
            self._window_bytes += member.num_bytes
            yield from self._take_place()
            return
        if not self._open.fits(member):
            yield self._close()
        self._open.add(member)
        if self._open.is_full:
            yield self._close()

    def miss(self, ordinal: int, failure: Failure | None = None) -> Iterator[Group[T]]:
        """Learn that no audio comes of this ordinal."""
        if failure is not None:
            self._failures.append(failure)
        self._missed.append(ordinal)
        if self._sizes.bucket is not None:
            yield from self._take_place()

    def finish(self) -> Iterator[Group[T]]:
        """What is left when the epoch ends."""
        if self._sizes.bucket is not None:
            yield from self._cut_window(is_last=True)
        elif self._sizes.drop_last:
            self._dropped += self._open.members
        elif self._open.members:
            yield self._close()

    def take_dropped(self) -> list[Member[T]]:
        """The clips that have come to be in no group: what `drop_last` leaves out, and what was delivered before."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def _close(self) -> Group[T]:
        """The open group, done."""
        members, self._open = self._open.members, _Open(self._sizes)
        return self._group(members)

    def _group(self, members: list[Member[T]]) -> Group[T]:
        for ordinal in (*self._missed, *(member.ordinal for member in members)):
            self._ledger.done(ordinal)
        self._missed.clear()
        failures = tuple(self._failures)
        self._failures.clear()
        return Group(members, failures, self._ledger.progress())

    def _take_place(self) -> Iterator[Group[T]]:
        assert self._sizes.bucket is not None
        self._taken += 1
        if self._taken >= self._sizes.bucket or self._window_bytes > self._sizes.window_bytes:
            yield from self._cut_window(is_last=False)

    def _cut_window(self, *, is_last: bool) -> Iterator[Group[T]]:
        """The groups of the window; what would make a part of one begins the next window."""
        runs, rest = self._sorted_runs()
        if is_last and rest:
            if self._sizes.drop_last:
                self._dropped += rest
            else:
                runs.append(rest)
            rest = []
        if self._order.shuffle:
            start = self._window_start
            random = self._order.generator(start.epoch, start.cycle, start.next, *start.pending)
            runs = [runs[int(i)] for i in random.permutation(len(runs))]
        groups = [self._group(run) for run in runs]
        if self._in_order:
            self._keep_to_windows(groups, rest)
        for group in groups[: self._skip]:
            self._dropped += group.members
        self._window, self._taken, self._window_bytes = rest, len(rest), sum(one.num_bytes for one in rest)
        skip, self._skip = self._skip, 0
        yield from groups[skip:]

    def _sorted_runs(self) -> tuple[list[list[Member[T]]], list[Member[T]]]:
        window = sorted(self._window, key=lambda one: (one.num_samples / one.sample_rate, one.ordinal))
        runs: list[list[Member[T]]] = []
        run: _Open[T] = _Open(self._sizes)
        for member in window:
            if not run.fits(member):
                runs.append(run.members)
                run = _Open(self._sizes)
            run.add(member)
            if run.is_full:
                runs.append(run.members)
                run = _Open(self._sizes)
        return runs, run.members

    def _keep_to_windows(self, groups: list[Group[T]], rest: list[Member[T]]) -> None:
        """Say of each group how many of its window go before what is next, since only the whole window makes it."""
        start = self._window_start
        for i, group in enumerate(groups):
            group.progress = Progress(start.epoch, start.cycle, start.next, start.pending, i + 1)
        # What missed a place without a group is done as well.
        for ordinal in self._missed:
            self._ledger.done(ordinal)
        after = self._ledger.progress()
        pending = tuple(sorted(member.ordinal for member in rest))
        following = max((*(one + 1 for one in pending), after.next))
        self._window_start = Progress(start.epoch, start.cycle, following, pending)
        if groups:
            groups[-1].progress = self._window_start
