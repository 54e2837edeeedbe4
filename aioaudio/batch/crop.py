"""A part of fixed length out of each clip, at a place that depends on seed, epoch and position alone. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from aioaudio.audio import samples_in
from aioaudio.decode.plan import result_range
from aioaudio.options import LoadOptions

__all__ = ["Crop", "Short"]

#: What becomes of a clip that is shorter than the crop.
Short = Literal["keep", "pad", "drop", "repeat"]


@dataclass(frozen=True, slots=True)
class Crop:
    """`seconds` out of a clip; `place` in [0, 1) chooses among all the positions where they fit."""

    seconds: float
    place: float

    def num_samples(self, sample_rate: int) -> int:
        """Length of the crop, at least 1."""
        return samples_in(self.seconds, sample_rate)

    def start(self, length: int, sample_rate: int) -> int:
        """Where the crop begins in `length` samples; 0 where they are too few."""
        return math.floor(self.place * (max(0, length - self.num_samples(sample_rate)) + 1))

    def __call__(self, options: LoadOptions, num_samples: int, sample_rate: int) -> LoadOptions:
        """`options` with the crop as their range, for a source of `num_samples` at `sample_rate` Hz.

        A source that is too short keeps the range that it has.
        """
        rate = options.sample_rate or sample_rate
        total = num_samples * rate // sample_rate
        start, stop = result_range(options, rate)
        length = (total if stop is None else min(stop, total)) - start
        crop = self.num_samples(rate)
        if length < crop:  # one of just this length may have another sample: resampling rounds up
            return options
        start += self.start(length, rate)
        return replace(options, start_seconds=start / rate, stop_seconds=(start + crop) / rate)
