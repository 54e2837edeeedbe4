"""One clip on its way to a device: a batch of one, without the batch."""

from __future__ import annotations

from typing import Any

import torch

from aioaudio.audio import Audio
from aioaudio.batch.cargo import ship
from aioaudio.batch.collate import Layout, Row
from aioaudio.decode import Leave, Parts
from aioaudio.device import Arrive, Transfer
from aioaudio.loading import load_parts
from aioaudio.options import LoadOptions
from aioaudio.workers import Workers

__all__ = ["load_onto", "send_one"]


async def load_onto(
    workers: Workers, source: Any, options: LoadOptions, timeout: float | None, transfer: Transfer, leave: Leave
) -> Audio:
    """The `Audio` of a source on a device, for the stream that is current here."""
    parts = await load_parts(workers, source, options, timeout, leave=leave, priority=0)
    audio, arrive = await send_one(workers, parts, options.dtype, transfer)
    if arrive is not None:
        arrive()
    return audio


async def send_one(
    workers: Workers, parts: Parts, dtype: torch.dtype, transfer: Transfer
) -> tuple[Audio, Arrive | None]:
    """What was decoded as an `Audio` on a device, and what whoever takes it has to call."""
    layout = Layout(collate="list", dtype=dtype, transfer=transfer)
    made = await workers.read(ship, [Row(parts, parts.num_samples)], layout)
    [waveform] = made.waveforms
    audio = Audio(waveform, parts.sample_rate, parts.start_seconds, parts.source, parts.damage, parts.verified)
    return audio, made.arrive
