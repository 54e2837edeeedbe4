"""What a decode worker is handed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aioaudio.encoded import OpenBytes, Readable
from aioaudio.options import LoadOptions

__all__ = ["DecodeJob", "StopFlag", "Stopped"]


class Stopped(Exception):
    """The job's stop flag was set: nobody waits for its result any more."""


class StopFlag(Protocol):
    """Says between blocks whether to go on. `deadline` is in `time.monotonic` seconds, None for no limit."""

    @property
    def is_set(self) -> bool: ...

    @property
    def deadline(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """Bytes to decode, and how. `admit` is called with the opened bytes first, and may refuse them by raising."""

    file: Readable
    options: LoadOptions
    admit: Callable[[OpenBytes], None] | None = None
