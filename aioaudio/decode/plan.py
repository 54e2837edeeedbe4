"""Which samples of the source make up a result, and how they are reached. Arithmetic only: nothing is opened here.

Positions are counted in samples from the first one after the encoder's delay. A range of the result at rate `out` is
`[round(start_seconds * out), round(stop_seconds * out))`, half up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from aioaudio.audio import sample_at
from aioaudio.decode.facts import Facts
from aioaudio.errors import LimitError, UnsupportedAudioError
from aioaudio.options import LoadOptions

__all__ = ["Plan", "Resampling", "make_plan", "result_range"]

# Below this offset, decoding from the start and dropping is at least as quick as a seek with its pre-roll and probe.
_MIN_SEEK_SECONDS = 10.0

# Where max_seconds is to bound memory, what a second may hold: 64 channels at 48 kHz, or 16 at 192 kHz.
_MAX_SAMPLES_PER_SECOND = 64 * 48_000

# swresample keeps one filter for each phase up to so many; with more it rounds the place of a sample to one of them.
_MAX_PHASES = 1024

# Elements of the kernel that resamples on a device: 16 MiB in float32, many times what any usual pair of rates takes.
_MAX_KERNEL = 1 << 22

# Beyond every real recording, DSD among them: swresample's filter grows with the rate, and what one frame becomes, with
# its inverse, until they fill the memory. Of plain PCM, a slow one is known to be as long as it says.
_RESAMPLED_RATES = range(100, 8_000_001)


@dataclass(frozen=True, slots=True)
class Resampling:
    """From rate `source` to rate `target`, with the reach of swresample's filter (libswresample/resample.c: a windowed
    sinc of 32 taps, stretched when the rate falls, cut off at 0.97)."""

    source: int
    target: int

    @property
    def filter_length(self) -> int:
        """Source samples under the filter."""
        return math.ceil(32 / (min(1.0, self.target / self.source) * 0.97))

    @property
    def ratio(self) -> tuple[int, int]:
        """The two rates in lowest terms: samples of the result, and as many of the source."""
        divisor = math.gcd(self.source, self.target)
        return self.target // divisor, self.source // divisor

    @property
    def cut_off(self) -> float:
        """Where the filter cuts off, of the source's Nyquist frequency: all of it where the rate rises enough."""
        return min(1.0, self.target * 0.97 / self.source)

    @property
    def num_taps(self) -> int:
        """Coefficients of swresample's filter for one phase: an even number."""
        return 2 * math.ceil(math.ceil(32 / self.cut_off) / 2)

    @property
    def is_exact(self) -> bool:
        """Whether a device can do the same: swresample has a filter for each phase, and all of them fit into memory."""
        up, down = self.ratio
        return up <= _MAX_PHASES and up * (self.num_taps + down) <= _MAX_KERNEL

    @property
    def shortest(self) -> int:
        """Source samples below which swresample loses some, one by rounding or all: shorter clips are padded first."""
        return max(2 * self.filter_length, 501)

    def whole_length(self, num_samples: int) -> int:
        """Length of a whole of `num_samples`; swresample may give one less."""
        return -(-num_samples * self.target // self.source)

    def length(self, num_samples: int) -> int:
        """Length of `num_samples` resampled, as swresample counts where the rates are exact.

        It takes every window that fits into the samples, then mirrors half of what is left behind their end, rounded
        up, and takes every window that fits now. Shorter clips are padded, and cut to `whole_length`.
        """
        if num_samples < self.shortest:
            return self.whole_length(num_samples)
        center = (self.num_taps - 1) // 2
        left = num_samples - self._start_of(self._num_windows(num_samples - self.num_taps + center)) + center
        return self._num_windows(num_samples + (left + 1) // 2 - self.num_taps + center)

    def _start_of(self, index: int) -> int:
        """The source sample at or before sample `index` of the result."""
        up, down = self.ratio
        return index * down // up

    def _num_windows(self, last: int) -> int:
        """How many samples of the result lie at or before source sample `last`, or less than one behind it."""
        up, down = self.ratio
        return -(-(last + 1) * up // down)

    def source_range(self, start: int, stop: int | None) -> tuple[int, int | None, int]:
        """Where in the source to begin and end for `[start, stop)` of the result, and how many results to drop.

        Beginning at a multiple of the reduced source rate keeps the filter's phase, so that the samples equal those
        of the whole to the bit.
        """
        divisor = math.gcd(self.source, self.target)
        up, down = self.target // divisor, self.source // divisor
        half = -(-self.filter_length // 2) + 1
        # Two more lengths than the filter's reach, or a range near the end would be too short for swresample.
        blocks = max(0, (start * self.source // self.target - half - self.shortest) // down)
        source_start, skip = blocks * down, start - blocks * up
        if stop is None:
            return source_start, None, skip
        source_stop = -(-stop * self.source // self.target) + half
        return source_start, max(source_stop, source_start + self.shortest), skip


@dataclass(frozen=True, slots=True)
class Plan:
    """Source samples `[start, stop)` (None: to the end) are decoded, resampled, and `[skip, skip + keep)` of that is
    the result. `seek_seconds` is where decoding begins, None for the start of the file. `pad` are zeros appended
    before resampling, so that a short clip keeps its length."""

    sample_rate: int
    start: int
    stop: int | None
    skip: int = 0
    keep: int | None = None
    resampling: Resampling | None = None
    seek_seconds: float | None = None
    pad: int = 0

    def at_source(self) -> Plan:
        """The same without the resampling, which is left to somebody else."""
        if self.resampling is None:
            return self
        return Plan(self.resampling.source, self.start, self.stop, seek_seconds=self.seek_seconds)

    def length_of(self, num_samples: int) -> int:
        """Length of the result for a source of `num_samples`; with resampling, one less is right as well."""
        stop = num_samples if self.stop is None else min(self.stop, num_samples)
        length = max(0, stop - self.start)
        if self.resampling is not None:
            length = max(0, self.resampling.whole_length(length) - self.skip)
        return length if self.keep is None else min(self.keep, length)


def result_range(options: LoadOptions, sample_rate: int) -> tuple[int, int | None]:
    """The range that is asked for, in samples of the result at `sample_rate`."""
    start = sample_at(options.start_seconds, sample_rate)
    stop = None if options.stop_seconds is None else sample_at(options.stop_seconds, sample_rate)
    return start, stop


def make_plan(facts: Facts, options: LoadOptions) -> Plan:
    """How to get what `options` ask for from a source with these `facts`.

    Raises LimitError and UnsupportedAudioError for absurd rates and numbers of channels, which would take any memory.
    """
    source_rate = facts.sample_rate
    if options.max_seconds is not None and source_rate * facts.num_channels > _MAX_SAMPLES_PER_SECOND:
        raise LimitError(f"has {facts.num_channels} channels at {source_rate} Hz, more than max_seconds allows for")
    rate = options.sample_rate or source_rate
    is_slow_pcm = facts.pcm is not None and source_rate < _RESAMPLED_RATES.start
    if rate != source_rate and source_rate not in _RESAMPLED_RATES and not is_slow_pcm:
        raise UnsupportedAudioError(f"claims a rate of {source_rate} Hz, from which nothing is resampled")
    start, stop = result_range(options, rate)
    # Behind plain PCM other chunks may follow, which FFmpeg, told only where it begins, would take for samples.
    end = facts.num_samples if facts.slack or facts.pcm is not None else None
    if rate == source_rate:
        stop = _earlier(stop, end)
        return Plan(rate, start, stop, seek_seconds=_seek(facts, start))
    resampling = Resampling(source_rate, rate)
    if facts.num_samples is not None and facts.num_samples < resampling.shortest:
        whole = resampling.whole_length(facts.num_samples)
        keep = max(0, (whole if stop is None else min(stop, whole)) - start)
        return Plan(
            rate, 0, facts.num_samples, skip=start, keep=keep, resampling=resampling, pad=2 * resampling.shortest
        )
    source_start, source_stop, skip = resampling.source_range(start, stop)
    return Plan(
        rate,
        source_start,
        _earlier(source_stop, end),
        skip=skip,
        keep=None if stop is None else stop - start,
        resampling=resampling,
        seek_seconds=_seek(facts, source_start),
    )


def _earlier(stop: int | None, end: int | None) -> int | None:
    if stop is None or end is None:
        return end if stop is None else stop
    return min(stop, end)


def _seek(facts: Facts, start: int) -> float | None:
    """Where to seek to for source sample `start`, None to decode from the beginning."""
    if facts.preroll_seconds is None or facts.pcm is not None or start < _MIN_SEEK_SECONDS * facts.sample_rate:
        return None
    seconds = start / facts.sample_rate - facts.preroll_seconds
    if facts.num_samples is not None:
        # A seek into the last blocks of a FLAC file fails.
        last = facts.num_samples / facts.sample_rate - 5 * facts.frame_samples / facts.sample_rate
        seconds = min(seconds, last)
    seconds = math.floor(seconds * 1e6) / 1e6
    return seconds if seconds > 0 else None
