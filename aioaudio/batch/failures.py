"""What to do about clips that fail, and what to say of them in the end. Pure."""

from __future__ import annotations

import copy
from typing import Literal

from aioaudio.audio import Failure
from aioaudio.errors import DamagedAudioError

__all__ = ["FailureLog", "OnError", "carried_bytes", "without_audio"]

OnError = Literal["raise", "skip", "return"]

# Failures whose errors are kept for the summary.
_KEPT = 1000

# A share of clips whose number is not known is taken of at least so many: the first clip that fails is not all of them.
_LEAST_CLIPS = 100


def carried_bytes(error: Exception) -> int:
    """Bytes of the audio that an error carries."""
    return error.audio.waveform.nbytes if isinstance(error, DamagedAudioError) and error.audio is not None else 0


def without_audio(error: Exception) -> Exception:
    """The error without the audio that it carries, for whoever keeps many."""
    if not isinstance(error, DamagedAudioError) or error.audio is None:
        return error
    twin = copy.copy(error)
    twin.audio = None
    return twin


class FailureLog:
    """Counts clips and failures, and says when there are too many: more than `max_failures`, a number (int) or a share
    (float) of the clips; `total` is how many those are, None where that is not known."""

    def __init__(self, max_failures: int | float | None, total: int | None) -> None:
        self._max_failures, self._total = max_failures, total
        self._kept: list[Exception] = []
        self.num_clips = 0
        self.num_failures = 0

    def success(self) -> None:
        """A clip was loaded."""
        self.num_clips += 1

    def failure(self, failure: Failure) -> ExceptionGroup[Exception] | None:
        """A clip failed; gives what is to be raised if that was one too many."""
        self.num_clips += 1
        self.num_failures += 1
        if len(self._kept) < _KEPT:
            self._kept.append(without_audio(failure.error))
        return self._summary(f", more than max_failures={self._max_failures}") if self._is_too_many() else None

    def summary(self) -> ExceptionGroup[Exception] | None:
        """All that failed, None if nothing did."""
        return self._summary("") if self.num_failures else None

    def _is_too_many(self) -> bool:
        if self._max_failures is None:
            return False
        if isinstance(self._max_failures, int):
            return self.num_failures > self._max_failures
        total = max(self.num_clips, _LEAST_CLIPS) if self._total is None else self._total
        return self.num_failures > self._max_failures * total

    def _summary(self, reason: str) -> ExceptionGroup[Exception]:
        message = f"{self.num_failures} of {self.num_clips} clips failed{reason}"
        if len(self._kept) < self.num_failures:
            message += f"; the first {len(self._kept)} are here"
        return ExceptionGroup(message, self._kept)
