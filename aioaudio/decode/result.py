"""From what an engine decoded to what is returned, or to the error that says what is damaged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from aioaudio.audio import Audio, Damage
from aioaudio.decode.damage import is_loss
from aioaudio.decode.plan import Resampling, result_range
from aioaudio.decode.prepare import Task
from aioaudio.decode.resample import resample
from aioaudio.decode.samples import NUMPY_DTYPES, Sink, as_words, assemble, working_dtype
from aioaudio.decode.stored import Stored, from_stored
from aioaudio.errors import DamagedAudioError, LimitError
from aioaudio.options import LoadOptions

__all__ = ["Parts", "Pending", "Result", "audio_of", "concerns", "outcome_of", "summary"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Pending:
    """Resampling that is left to be done; of what it gives, `[skip, skip + keep)` is the result (None: to the end)."""

    resampling: Resampling
    skip: int = 0
    keep: int | None = None

    def length(self, num_samples: int) -> int:
        """Samples of the result for `num_samples` that were decoded."""
        length = max(0, self.resampling.length(num_samples) - self.skip) if num_samples else 0
        return length if self.keep is None else min(self.keep, length)


@dataclass(slots=True)
class Result:
    """What an engine made of a task: blocks (num_channels, n) of the result in float, before the last conversion, or
    the waveform itself where the engine has written it. `sample_rate` is that of the result, for which the decoder's
    word goes before the header's. `stored` and `pending` are as in `Parts`."""

    sample_rate: int
    blocks: deque[Array] = field(default_factory=deque)
    waveform: torch.Tensor | None = None
    damage: tuple[Damage, ...] = ()
    verified: Literal["md5", "crc"] | None = None
    stored: Stored | None = None
    pending: Pending | None = None


@dataclass(slots=True)
class Parts:
    """A result whose samples still lie where the engine left them, for whoever has a place for them.

    That is in `blocks` of floats, or in `waveform`. The other fields are those of an `Audio`; `is_whole` says that the
    job's `narrow` had no length to go by, so that the range is not chosen yet. `write` empties it.

    Where the job leaves something to a device, `stored` says what the samples are without loss (as integers of 16 bits
    they may lie in floats all the same), and `pending` which resampling is to be done; `num_samples` and `sample_rate`
    are those that it gives, `num_decoded` is how many samples there are before it. The rest is then in floats.
    """

    blocks: deque[Array]
    waveform: torch.Tensor | None
    num_channels: int
    num_samples: int
    sample_rate: int
    start_seconds: float
    source: str
    damage: tuple[Damage, ...]
    verified: Literal["md5", "crc"] | None
    is_whole: bool = False
    stored: Stored | None = None
    pending: Pending | None = None

    @property
    def num_bytes(self) -> int:
        """Memory that the samples take where they lie."""
        return sum(block.nbytes for block in self.blocks) + (0 if self.waveform is None else self.waveform.nbytes)

    @property
    def num_decoded(self) -> int:
        """Number of samples in each channel as they lie."""
        return sum(block.shape[1] for block in self.blocks) if self.waveform is None else int(self.waveform.shape[1])

    def write(self, out: torch.Tensor) -> None:
        """Put the samples into `out` (num_channels, num_decoded or more), converted to its dtype.

        uint8 is for the codes of G.711.
        """
        if self.waveform is not None:
            _write_waveform(self.waveform, self.stored, out)
            self.waveform = None
        sink, position = Sink.onto(out), 0
        while self.blocks:
            block = self.blocks.popleft()
            if self.stored == "int16" and out.dtype == torch.int16:
                place = out.numpy()[:, position : position + block.shape[1]]
                np.multiply(block, 2.0**15, out=place, dtype=block.dtype, casting="unsafe")  # exact: nothing to round
            else:
                sink.write(position, block)
            position += block.shape[1]

    def cut(self, start: int, stop: int) -> None:
        """Keep only samples `[start, stop)`, and no memory of the others."""
        stop = max(start, min(stop, self.num_samples))
        if self.pending is None:
            self._keep(start, stop)
        else:
            self._cut_pending(self.pending, start, stop)
        self.num_samples = stop - start
        self.start_seconds += start / self.sample_rate

    def _cut_pending(self, pending: Pending, start: int, stop: int) -> None:
        resampling, start, stop = pending.resampling, pending.skip + start, pending.skip + stop
        skip = start
        if self.num_decoded >= resampling.shortest:
            first, last, skip = resampling.source_range(start, stop)
            self._keep(first, self.num_decoded if last is None else last)
        self.pending = Pending(resampling, skip, stop - start)

    def _keep(self, start: int, stop: int) -> None:
        kept: deque[Array] = deque()
        position = 0
        while self.blocks:
            block = self.blocks.popleft()
            piece = block[:, max(0, start - position) : max(0, stop - position)]
            if piece.shape[1]:
                kept.append(piece if piece.shape[1] == block.shape[1] else piece.copy())
            position += block.shape[1]
        self.blocks = kept
        if self.waveform is not None:
            self.waveform = self.waveform[:, start:stop].clone()

    def audio(self, options: LoadOptions) -> Audio:
        """The `Audio` that `load` gives."""
        self._settle(working_dtype(options.dtype))
        waveform = self.waveform
        if waveform is None:
            waveform = assemble(self.blocks, self.num_channels, options)
        return Audio(waveform, self.sample_rate, self.start_seconds, self.source, self.damage, self.verified)

    def _settle(self, dtype: torch.dtype) -> None:
        """Do here what was left to a device."""
        if self.waveform is not None and (self.pending is not None or self.stored is not None):
            samples = torch.empty((self.num_channels, self.num_decoded), dtype=dtype)
            self.write(samples)
            self.blocks.append(samples.numpy())
        if self.pending is not None and self.blocks:
            joined = torch.from_numpy(np.concatenate(self.blocks, axis=1))
            start = self.pending.skip
            resampled = resample(joined, self.pending.resampling)[:, start : start + self.num_samples]
            self.blocks = deque([resampled.numpy()])
        self.stored = self.pending = None


def _write_waveform(waveform: torch.Tensor, stored: Stored | None, out: torch.Tensor) -> None:
    place = out[:, : waveform.shape[1]]
    if waveform.dtype == out.dtype:
        as_words(place)[...] = as_words(waveform)
    elif stored is not None and out.dtype == torch.int16:
        place.numpy()[...] = from_stored(waveform.numpy(), stored, np.dtype(np.int16))
    else:
        floats: Array = waveform.numpy()
        if stored is not None:
            floats = from_stored(floats, stored, NUMPY_DTYPES[working_dtype(out.dtype)])
        Sink.onto(place).write(0, floats)


def outcome_of(task: Task, result: Result) -> Audio | Parts:
    """What the job of `task` asks for. Raises what `audio_of` raises."""
    return _checked_parts(task, result) if task.job.in_parts else audio_of(task, result)


def audio_of(task: Task, result: Result) -> Audio:
    """The `Audio` for `task`. Raises DamagedAudioError where samples are missing or wrong and that is to be raised."""
    return _checked_parts(task, result).audio(task.options)


def _checked_parts(task: Task, result: Result) -> Parts:
    options, rate, blocks, waveform = task.options, result.sample_rate, result.blocks, result.waveform
    num_channels, pending = task.num_channels, result.pending
    if waveform is not None or blocks:
        num_channels = (blocks[0] if waveform is None else waveform).shape[0]
    num_samples = sum(block.shape[1] for block in blocks) if waveform is None else waveform.shape[1]
    if pending is not None:
        num_samples = pending.length(num_samples)
        if task.limit is not None and num_samples > task.limit:
            raise LimitError(f"has more than max_seconds={options.max_seconds} seconds", source=task.name)
    damage = tuple(item for item in result.damage if concerns(item, options))
    parts = Parts(
        blocks,
        waveform,
        num_channels=num_channels,
        num_samples=num_samples,
        sample_rate=rate,
        start_seconds=result_range(options, rate)[0] / rate,
        source=task.name,
        damage=damage,
        verified=result.verified,
        is_whole=task.job.narrow is not None,
        stored=result.stored,
        pending=pending,
    )
    losses = [item for item in damage if is_loss(item)]
    if losses and options.on_damage == "raise":
        audio = parts.audio(options)
        raise DamagedAudioError(summary(losses), source=task.name, audio=audio, damage=damage)
    return parts


def concerns(damage: Damage, options: LoadOptions) -> bool:
    """Whether damage may touch the range asked for: not if it begins behind it. What is missing before it shifts it."""
    return options.stop_seconds is None or damage.at_seconds is None or damage.at_seconds < options.stop_seconds


def summary(losses: list[Damage]) -> str:
    first = losses[0]
    place = "" if first.at_seconds is None else f" at {first.at_seconds:.3f} s"
    more = f", and {len(losses) - 1} more" if len(losses) > 1 else ""
    return f"is damaged: {first.kind}{place} ({first.message}){more}"
