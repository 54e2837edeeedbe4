"""What flows through a pipeline, and what is to be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from aioaudio.audio import Failure
from aioaudio.batch.failures import OnError
from aioaudio.batch.feed import Feed
from aioaudio.batch.grouping import Group
from aioaudio.batch.order import Entry, Progress
from aioaudio.device import Arrive

__all__ = ["Delivery", "Flow", "Loaded", "Made", "Stages"]

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How results are made: in which order, how far ahead, what failures do, and how many epochs there are."""

    in_order: bool = True
    on_error: OnError = "raise"
    first_epoch: int = 0
    epochs: int | None = 1
    uneven: Literal["allow", "drop", "repeat"] = "allow"


@dataclass(slots=True)
class Loaded(Generic[T]):
    """What became of a clip: `value` with its size, a `failure`, or, with neither, nothing that is wanted."""

    value: T | None = None
    failure: Failure | None = None
    num_samples: int = 0
    sample_rate: int = 1
    num_bytes: int = 0


@dataclass(slots=True)
class Made(Generic[R_co]):
    """A result and the bytes that it holds; `arrive`, if there is one, is to be called by whoever takes it."""

    result: R_co
    num_bytes: int
    arrive: Arrive | None = None


@dataclass(slots=True)
class Delivery(Generic[R]):
    """A result on its way to the consumer, and what is to come after it; `arrive` is as in `Made`."""

    result: R
    progress: Progress
    num_clips: int
    num_bytes: int
    seconds: float
    num_loaded: int
    num_failures: int
    arrive: Arrive | None = None


class Stages(Protocol[T, R_co]):
    """What is done with the clips."""

    async def begin(self) -> None:
        """Get ready to tell of the run. Raises OSError where that cannot be done."""
        ...

    def open(self, progress: Progress) -> Feed:
        """The clips that are still to come of an epoch."""
        ...

    def took(self, num_clips: int, waited: float) -> None:
        """So many clips were waited for so long, in seconds."""
        ...

    async def load(self, entry: Entry, progress: Progress, /) -> Loaded[T]:
        """Load a clip; what is wrong with it is in the result."""
        ...

    async def finish(self, group: Group[Loaded[T]]) -> Made[R_co]:
        """The result of a group."""
        ...

    async def watch(self) -> None:
        """Tell of the run while it goes on."""
        ...

    async def close(self) -> None:
        """Tell of it in the end."""
        ...
