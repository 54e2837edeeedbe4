"""From what an engine decoded to what is returned, or to the error that says what is damaged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt
import torch

from aioaudio.audio import Audio, Damage
from aioaudio.decode.damage import is_loss
from aioaudio.decode.plan import result_range
from aioaudio.decode.prepare import Task
from aioaudio.decode.samples import Sink, as_words, assemble
from aioaudio.errors import DamagedAudioError
from aioaudio.options import LoadOptions

__all__ = ["Parts", "Result", "audio_of", "concerns", "outcome_of", "summary"]

Array = npt.NDArray[Any]


@dataclass(slots=True)
class Result:
    """What an engine made of a task: blocks (num_channels, n) of the result in float, before the last conversion, or
    the waveform itself where the engine has written it. `sample_rate` is that of the result, for which the decoder's
    word goes before the header's."""

    sample_rate: int
    blocks: deque[Array] = field(default_factory=deque)
    waveform: torch.Tensor | None = None
    damage: tuple[Damage, ...] = ()
    verified: Literal["md5", "crc"] | None = None


@dataclass(slots=True)
class Parts:
    """A result whose samples still lie where the engine left them, for whoever has a place for them.

    That is in `blocks`, or in `waveform`. The other fields are those of an `Audio`; `is_whole` says that the job's
    `narrow` had no length to go by, so that the range is not chosen yet. `write` empties it.
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

    @property
    def num_bytes(self) -> int:
        """Memory that the samples take where they lie."""
        return sum(block.nbytes for block in self.blocks) + (0 if self.waveform is None else self.waveform.nbytes)

    def write(self, out: torch.Tensor) -> None:
        """Put the samples into `out` (num_channels, num_samples or more), converted to its dtype."""
        if self.waveform is not None:
            as_words(out)[:, : self.num_samples] = as_words(self.waveform)
            self.waveform = None
        sink, position = Sink.onto(out), 0
        while self.blocks:
            block = self.blocks.popleft()
            sink.write(position, block)
            position += block.shape[1]

    def cut(self, start: int, stop: int) -> None:
        """Keep only samples `[start, stop)`."""
        kept: deque[Array] = deque()
        position = 0
        while self.blocks:
            block = self.blocks.popleft()
            piece = block[:, max(0, start - position) : max(0, stop - position)]
            if piece.shape[1]:
                kept.append(piece)
            position += block.shape[1]
        self.blocks = kept
        if self.waveform is not None:
            self.waveform = self.waveform[:, start:stop]
        self.num_samples = max(0, min(stop, self.num_samples) - start)
        self.start_seconds += start / self.sample_rate

    def audio(self, options: LoadOptions) -> Audio:
        """The `Audio` that `load` gives."""
        waveform = self.waveform
        if waveform is None:
            waveform = assemble(self.blocks, self.num_channels, options)
        return Audio(waveform, self.sample_rate, self.start_seconds, self.source, self.damage, self.verified)


def outcome_of(task: Task, result: Result) -> Audio | Parts:
    """What the job of `task` asks for. Raises what `audio_of` raises."""
    return _checked_parts(task, result) if task.job.in_parts else audio_of(task, result)


def audio_of(task: Task, result: Result) -> Audio:
    """The `Audio` for `task`. Raises DamagedAudioError where samples are missing or wrong and that is to be raised."""
    return _checked_parts(task, result).audio(task.options)


def _checked_parts(task: Task, result: Result) -> Parts:
    options, rate, blocks, waveform = task.options, result.sample_rate, result.blocks, result.waveform
    num_channels = task.num_channels
    if waveform is not None or blocks:
        num_channels = (blocks[0] if waveform is None else waveform).shape[0]
    damage = tuple(item for item in result.damage if concerns(item, options))
    parts = Parts(
        blocks,
        waveform,
        num_channels=num_channels,
        num_samples=sum(block.shape[1] for block in blocks) if waveform is None else waveform.shape[1],
        sample_rate=rate,
        start_seconds=result_range(options, rate)[0] / rate,
        source=task.name,
        damage=damage,
        verified=result.verified,
        is_whole=task.job.narrow is not None,
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
