"""From what an engine decoded to the `Audio` that is returned, or to the error that says what is damaged."""

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
from aioaudio.decode.samples import assemble
from aioaudio.errors import DamagedAudioError
from aioaudio.options import LoadOptions

__all__ = ["Result", "audio_of", "concerns"]

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


def audio_of(task: Task, result: Result) -> Audio:
    """The `Audio` for `task`. Raises DamagedAudioError where samples are missing or wrong and that is to be raised."""
    options, rate = task.options, result.sample_rate
    waveform = result.waveform
    if waveform is None:
        num_channels = result.blocks[0].shape[0] if result.blocks else task.num_channels
        waveform = assemble(result.blocks, num_channels, options)
    damage = tuple(item for item in result.damage if concerns(item, options))
    audio = Audio(
        waveform,
        rate,
        start_seconds=result_range(options, rate)[0] / rate,
        source=task.name,
        damage=damage,
        verified=result.verified,
    )
    losses = [item for item in damage if is_loss(item)]
    if losses and options.on_damage == "raise":
        raise DamagedAudioError(_summary(losses), source=task.name, audio=audio, damage=damage)
    return audio


def concerns(damage: Damage, options: LoadOptions) -> bool:
    """Whether damage may touch the range asked for: not if it begins behind it. What is missing before it shifts it."""
    return options.stop_seconds is None or damage.at_seconds is None or damage.at_seconds < options.stop_seconds


def _summary(losses: list[Damage]) -> str:
    first = losses[0]
    place = "" if first.at_seconds is None else f" at {first.at_seconds:.3f} s"
    more = f", and {len(losses) - 1} more" if len(losses) > 1 else ""
    return f"is damaged: {first.kind}{place} ({first.message}){more}"
