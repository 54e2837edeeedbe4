"""Which clips come, and in which order: shuffling, sharding, and where a run stands. Pure: no thread, no event loop.

A *position* counts the clips of an epoch in their order, over all ranks. An *ordinal* counts those of one rank, so
that `position = rank + ordinal * world_size`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Entry", "Ledger", "Order", "Progress", "StreamOrder", "is_indexable", "select", "select_stream"]


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the clips: shuffled or as they come, and which of them are this rank's."""

    shuffle: bool = False
    shuffle_buffer: int = 10_000
    seed: int = 0
    rank: int = 0
    world_size: int = 1

    def generator(self, *key: int) -> np.random.Generator:
        """Random numbers that depend on the seed and `key` alone."""
        return np.random.default_rng((self.seed, *key))


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands: what is still to come.

    In `epoch`, and in this `cycle` through it (clips that are repeated begin another), those are the ordinals `pending`
    and all from `next` on; of the batches that they make, the first `skip` have been delivered.
    """

    epoch: int = 0
    cycle: int = 0
    next: int = 0
    pending: tuple[int, ...] = ()
    skip: int = 0

    @property
    def is_beginning(self) -> bool:
        """Whether all of its cycle is still to come."""
        return not (self.next or self.pending or self.skip)


@dataclass(frozen=True, slots=True)
class Entry:
    """A clip in its place."""

    ordinal: int
    position: int
    clip: Any


def is_indexable(clips: object) -> bool:
    """Whether clips have a length and are reached by index."""
    return isinstance(clips, Sequence) or (
        hasattr(clips, "__len__") and hasattr(clips, "__getitem__") and not hasattr(clips, "keys")
    )


def select(clips: Any, order: Order, progress: Progress) -> Iterator[Entry]:
    """What is still to come of clips that are reached by index; shuffled, every order of them is as likely."""
    total = len(clips)
    indices = order.generator(progress.epoch).permutation(total) if order.shuffle else None
    count = len(range(order.rank, total, order.world_size))
    for ordinals in (progress.pending, range(progress.next, count)):
        for ordinal in ordinals:
            position = order.rank + ordinal * order.world_size
            if position < total:
                yield Entry(ordinal, position, clips[position if indices is None else int(indices[position])])


def select_stream(clips: Iterator[Any], order: Order, progress: Progress) -> Iterator[Entry]:
    """What is still to come of clips that come one after another."""
    stream = StreamOrder(order, progress)
    for clip in clips:
        yield from stream.push(clip)
    yield from stream.finish()


class StreamOrder:
    """The order of clips that come one after another; shuffled, each swaps places with one of those in a buffer."""

    def __init__(self, order: Order, progress: Progress) -> None:
        self._order = order
        self._progress = progress
        self._pending = frozenset(progress.pending)
        self._random = order.generator(progress.epoch)
        self._buffer: list[Any] = []
        self._position = 0

    def push(self, clip: Any) -> Iterator[Entry]:
        """Take the next clip; gives what its coming lets go."""
        if not self._order.shuffle:
            yield from self._pass(clip)
        elif len(self._buffer) < self._order.shuffle_buffer:
            self._buffer.append(clip)
        else:
            place = int(self._random.integers(len(self._buffer)))
            clip, self._buffer[place] = self._buffer[place], clip
            yield from self._pass(clip)

    def finish(self) -> Iterator[Entry]:
        """What is left when no more come."""
        for place in self._random.permutation(len(self._buffer)):
            yield from self._pass(self._buffer[int(place)])
        self._buffer.clear()

    def _pass(self, clip: Any) -> Iterator[Entry]:
        position, self._position = self._position, self._position + 1
        ordinal, rank = divmod(position, self._order.world_size)
        if rank == self._order.rank and (ordinal >= self._progress.next or ordinal in self._pending):
            yield Entry(ordinal, position, clip)


class Ledger:
    """Which ordinals are done with, in whatever order they are; `progress()` is what a run needs that goes on there."""

    def __init__(self, progress: Progress) -> None:
        self._epoch, self._cycle = progress.epoch, progress.cycle
        pending = set(progress.pending)
        self._all_below = min(pending, default=progress.next)
        self._above = set(range(self._all_below, progress.next)) - pending

    def done(self, ordinal: int) -> None:
        """Nothing more comes of this one."""
        if ordinal >= self._all_below:
            self._above.add(ordinal)
        while self._all_below in self._above:
            self._above.remove(self._all_below)
            self._all_below += 1

    def progress(self) -> Progress:
        """What is still to come."""
        if not self._above:
            return Progress(self._epoch, self._cycle, self._all_below)
        after = max(self._above) + 1
        pending = tuple(i for i in range(self._all_below, after) if i not in self._above)
        return Progress(self._epoch, self._cycle, after, pending)
