"""What a decode worker is handed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aioaudio.encoded import OpenBytes, Readable
from aioaudio.errors import AudioTimeout
from aioaudio.options import LoadOptions

__all__ = ["DecodeJob", "Leave", "Narrow", "StopFlag", "Stopped", "check_stop", "is_late"]


class Stopped(Exception):
    """The job's stop flag was set: nobody waits for its result any more."""


class StopFlag(Protocol):
    """Says between blocks whether to go on. `deadline` is in `time.monotonic` seconds, None for no limit."""

    @property
    def is_set(self) -> bool: ...

    @property
    def deadline(self) -> float | None: ...


def check_stop(stop: StopFlag) -> None:
    """Go on, or raise Stopped where nobody waits any more, and AudioTimeout after the deadline."""
    if stop.is_set:
        raise Stopped
    if is_late(stop):
        raise AudioTimeout("was not decoded within its timeout")


def is_late(stop: StopFlag) -> bool:
    """Whether the deadline has passed."""
    return stop.deadline is not None and time.monotonic() > stop.deadline


class Narrow(Protocol):
    """Chooses the range to decode once the length of the source is known."""

    def __call__(self, options: LoadOptions, num_samples: int, sample_rate: int) -> LoadOptions:
        """`options` with the range for a source of `num_samples` at `sample_rate` Hz."""
        ...


@dataclass(frozen=True, slots=True)
class Leave:
    """What of a load in parts is left to a device: samples may stay as the source stores them, if that is small, and
    with `resampling` at the rate of the source."""

    resampling: bool = False


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """Bytes to decode, and how.

    `admit` is called with the opened bytes first, and may refuse them by raising. `narrow` is called where the header
    tells the length. With `in_parts` the result is a `Parts`, not an `Audio`; `leave` says what it may lack.
    """

    file: Readable
    options: LoadOptions
    admit: Callable[[OpenBytes], None] | None = None
    narrow: Narrow | None = None
    in_parts: bool = False
    leave: Leave | None = None
