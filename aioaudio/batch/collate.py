"""From decoded clips to a batch: its memory is laid out, and every sample written into it once. Synchronous."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Literal

import torch

from aioaudio.batch.grouping import padded_length
from aioaudio.decode import Parts, as_words, empty
from aioaudio.device import Arrive, Transfer

__all__ = ["Collate", "Layout", "Row", "Waveforms", "collate", "common_form"]

Collate = Literal["padded", "jagged", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a batch looks like. `sample_rate` and `num_channels` are what a batch without any clip has; `transfer` is
    the way to the device that it goes to."""

    collate: Collate = "padded"
    pad_to_multiple: int = 1
    dtype: torch.dtype = torch.float32
    sample_rate: int | None = None
    num_channels: int | None = None
    transfer: Transfer | None = None


@dataclass(slots=True)
class Row:
    """A decoded clip and the length that it is to have: what it lacks are zeros, or, with `repeat`, itself again."""

    parts: Parts
    num_samples: int
    repeat: bool = False

    def write(self, out: torch.Tensor) -> None:
        """Fill `out` (num_channels, num_samples or more)."""
        present = self.parts.num_samples
        values = as_words(out)
        self.parts.write(out)
        if self.repeat and present:
            while present < self.num_samples:
                count = min(present, self.num_samples - present)
                values[:, present : present + count] = values[:, :count]
                present += count
        values[:, present:] = 0


@dataclass(slots=True)
class Waveforms:
    """The tensors of a batch; `arrive`, if there is one, must be called by whoever takes them."""

    waveforms: torch.Tensor | list[torch.Tensor]
    lengths: torch.Tensor
    sample_rate: int
    num_bytes: int
    began: float
    ended: float
    thread: str
    arrive: Arrive | None = None


def collate(rows: list[Row], layout: Layout) -> Waveforms:
    """Write a batch. Raises ValueError where rows differ in rate or channels. Blocks; call it in a worker."""
    sample_rate, num_channels = common_form(rows, layout)
    lengths = [row.num_samples for row in rows]
    began = time.perf_counter()
    waveforms: torch.Tensor | list[torch.Tensor]
    if layout.collate == "padded":
        waveforms = _padded(rows, lengths, num_channels, layout)
        num_bytes = waveforms.nbytes
    else:
        write = _jagged if layout.collate == "jagged" else _listed
        waveforms = write(rows, lengths, num_channels, layout)
        num_bytes = sum(lengths) * num_channels * layout.dtype.itemsize
    thread = threading.current_thread().name
    lengths_tensor = torch.tensor(lengths, dtype=torch.int64)
    return Waveforms(waveforms, lengths_tensor, sample_rate, num_bytes, began, time.perf_counter(), thread)


def common_form(rows: list[Row], layout: Layout) -> tuple[int, int]:
    """The rate and the channels of all rows. Raises ValueError that names two that differ."""
    if not rows:
        return layout.sample_rate or 0, layout.num_channels or 1
    first = rows[0].parts
    for other in (row.parts for row in rows):
        if other.sample_rate != first.sample_rate:
            raise ValueError(
                f"{first.source} has {first.sample_rate} Hz and {other.source} has {other.sample_rate} Hz: "
                "give sample_rate to have them in one batch"
            )
        if other.num_channels != first.num_channels:
            raise ValueError(
                f"{first.source} has {_channels(first)} and {other.source} has {_channels(other)}: "
                "give num_channels to have them in one batch"
            )
    return first.sample_rate, first.num_channels


def _channels(parts: Parts) -> str:
    return f"{parts.num_channels} channel" + "s" * (parts.num_channels != 1)


def _padded(rows: list[Row], lengths: list[int], num_channels: int, layout: Layout) -> torch.Tensor:
    length = padded_length(max(lengths, default=0), layout.pad_to_multiple)
    batch = empty((len(rows), num_channels, length), layout.dtype)
    for row, out in zip(rows, batch, strict=True):
        row.write(out)
    return batch


def _jagged(rows: list[Row], lengths: list[int], num_channels: int, layout: Layout) -> torch.Tensor:
    offsets = torch.zeros(len(rows) + 1, dtype=torch.int64)
    torch.cumsum(torch.tensor(lengths, dtype=torch.int64), 0, out=offsets[1:])
    values = empty((num_channels, sum(lengths)), layout.dtype)
    for row, out in zip(rows, torch.split(values, lengths, dim=1), strict=True):
        row.write(out)
    return torch.nested.nested_tensor_from_jagged(values, offsets, jagged_dim=2)


def _listed(rows: list[Row], lengths: list[int], num_channels: int, layout: Layout) -> list[torch.Tensor]:
    batch = [empty((num_channels, length), layout.dtype) for length in lengths]
    for row, out in zip(rows, batch, strict=True):
        row.write(out)
    return batch
