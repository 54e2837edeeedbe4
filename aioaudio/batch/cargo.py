"""A batch on its way to a device: one buffer for all that crosses, and what is made of its copy there.

What crosses is as small as the sources allow: codes of G.711, integers of 16 bits, or else floats. With the samples go
their lengths and the tables that the work needs, so that there is one copy, and nothing that two streams share.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from aioaudio.batch.collate import Layout, Row, Waveforms, common_form
from aioaudio.batch.grouping import padded_length
from aioaudio.decode import (
    Parts,
    Stored,
    as_words,
    convolve,
    expanded,
    make_kernel,
    margins,
    table_of,
    working_dtype,
)
from aioaudio.decode.plan import Resampling

__all__ = ["ship"]

# A section begins at a multiple of this, as what a device allocates does.
_ALIGNMENT = 256

_WIDTHS: dict[Stored | None, torch.dtype] = {"alaw": torch.uint8, "mulaw": torch.uint8, "int16": torch.int16}

# What is made on the device of the copy of a buffer.
_Unpack = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Section:
    """A tensor within a buffer."""

    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def of(self, buffer: torch.Tensor) -> torch.Tensor:
        """The tensor, in the buffer itself or in its copy."""
        return buffer[self.offset : self.offset + self.num_bytes].view(self.dtype).view(self.shape)


@dataclass(slots=True)
class _Cargo:
    """The plan of a buffer, and what is to be written into it."""

    num_bytes: int = 0
    writes: list[Callable[[torch.Tensor], object]] = field(default_factory=list)

    def reserve(self, shape: tuple[int, ...], dtype: torch.dtype) -> _Section:
        section = _Section(self.num_bytes, shape, dtype)
        self.num_bytes += -(-section.num_bytes // _ALIGNMENT) * _ALIGNMENT
        return section

    def add(self, values: torch.Tensor) -> _Section:
        """Take a small tensor along."""
        section = self.reserve(tuple(values.shape), values.dtype)
        self.writes.append(lambda buffer: section.of(buffer).copy_(values))
        return section

    def add_counts(self, *counts: int) -> _Section:
        return self.add(torch.tensor(counts, dtype=torch.int64))


def ship(rows: list[Row], layout: Layout) -> Waveforms:
    """Write a batch, and send it on its way. Raises what `collate` raises. Blocks to write; call it in a worker."""
    sample_rate, num_channels = common_form(rows, layout)
    began, transfer, cargo = time.perf_counter(), layout.transfer, _Cargo()
    assert transfer is not None
    lengths = [row.num_samples for row in rows]
    plan = _plan_plain if all(row.parts.pending is None for row in rows) else _plan_resampled
    unpack = plan(rows, num_channels, layout, cargo)
    counts = cargo.add_counts(*lengths)
    offsets = cargo.add(torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0))
    host = transfer.host_memory(cargo.num_bytes)
    for write in cargo.writes:
        write(host)

    def work(buffer: torch.Tensor) -> list[torch.Tensor]:
        # The small ones are copied, so as not to hold the whole buffer.
        small = [counts.of(buffer).clone(), offsets.of(buffer).clone()]
        samples = unpack(buffer)
        return small + (_places(samples, lengths, num_channels, layout) if layout.collate == "list" else [samples])

    (lengths_there, offsets_there, *samples), arrive = transfer.send(host, work)
    waveforms: torch.Tensor | list[torch.Tensor] = samples
    if layout.collate == "padded":
        [waveforms] = samples
    elif layout.collate == "jagged":
        waveforms = torch.nested.nested_tensor_from_jagged(samples[0], offsets_there, jagged_dim=2)
    num_bytes, thread = sum(one.nbytes for one in samples), threading.current_thread().name
    return Waveforms(
        waveforms, lengths_there, sample_rate, num_bytes, began, time.perf_counter(), thread, arrive=arrive
    )


def _places(samples: torch.Tensor, lengths: list[int], num_channels: int, layout: Layout) -> list[torch.Tensor]:
    """Each clip (num_channels, num_samples or more) in the samples of a batch, as they lie in memory."""
    if layout.collate == "padded":
        return list(samples)
    if layout.collate == "jagged":
        return list(torch.split(samples, lengths, dim=1))
    pieces = torch.split(samples, [num_channels * length for length in lengths])
    return [piece.view(num_channels, length) for piece, length in zip(pieces, lengths, strict=True)]


def _plan_plain(rows: list[Row], num_channels: int, layout: Layout, cargo: _Cargo) -> _Unpack:
    """Samples at the rate of the result, which cross as they will lie."""
    lengths = [row.num_samples for row in rows]
    longest = padded_length(max(lengths, default=0), layout.pad_to_multiple)
    shape: tuple[int, ...] = (len(rows), num_channels, longest)
    if layout.collate != "padded":
        shape = (num_channels, sum(lengths)) if layout.collate == "jagged" else (num_channels * sum(lengths),)
    stored = _common_stored(rows)
    section = cargo.reserve(shape, _WIDTHS.get(stored, layout.dtype))
    table, filled = cargo.add(table_of(stored)), cargo.add_counts(*lengths)

    def write(buffer: torch.Tensor) -> None:
        for row, out in zip(rows, _places(section.of(buffer), lengths, num_channels, layout), strict=True):
            row.write(out)

    def unpack(buffer: torch.Tensor) -> torch.Tensor:
        samples = section.of(buffer)
        result = expanded(samples, table.of(buffer), layout.dtype, working_dtype(layout.dtype))
        if samples.dtype == torch.uint8 and layout.collate == "padded":  # no code of A-law is silence
            _silence(result, filled.of(buffer))
        return result

    cargo.writes.append(write)
    return unpack


def _plan_resampled(rows: list[Row], num_channels: int, layout: Layout, cargo: _Cargo) -> _Unpack:
    """Samples of which some are resampled on the device: those of each rate together."""
    lengths = [row.num_samples for row in rows]
    longest = padded_length(max(lengths), layout.pad_to_multiple)
    stored = _common_stored(rows)
    if stored == "alaw" and any(_is_short(row.parts) for row in rows):
        stored = "int16"  # silence is to follow these, and no code is that
    members: dict[Resampling | None, list[int]] = {}
    for index, row in enumerate(rows):
        members.setdefault(None if row.parts.pending is None else row.parts.pending.resampling, []).append(index)
    groups = [
        _plan_group([rows[i] for i in which], resampling, stored, (num_channels, longest), layout, cargo)
        for resampling, which in members.items()
    ]
    places = {index: place for place, index in enumerate(i for which in members.values() for i in which)}
    order = cargo.add_counts(*(places[index] for index in range(len(rows))))

    def unpack(buffer: torch.Tensor) -> torch.Tensor:
        batch = groups[0](buffer)
        if len(groups) > 1:
            batch = torch.cat([batch, *(group(buffer) for group in groups[1:])]).index_select(0, order.of(buffer))
        if layout.collate == "padded":
            return batch
        present = [row[:, :length] for row, length in zip(batch, lengths, strict=True)]
        return (
            torch.cat(present, dim=1) if layout.collate == "jagged" else torch.cat([one.flatten() for one in present])
        )

    return unpack


def _plan_group(
    rows: list[Row],
    resampling: Resampling | None,
    stored: Stored | None,
    shape: tuple[int, int],
    layout: Layout,
    cargo: _Cargo,
) -> _Unpack:
    """Rows of one rate; they become (num_rows, *shape)."""
    num_channels, length = shape
    working = working_dtype(layout.dtype)
    before, after = (0, 0) if resampling is None else margins(resampling)
    longest = max(row.parts.num_decoded for row in rows)
    width = before + max(longest + after, before + 1 if resampling else 0)
    section = cargo.reserve((len(rows), num_channels, width), _WIDTHS.get(stored, working))
    table = cargo.add(table_of(stored))
    kernel = None if resampling is None else cargo.add(make_kernel(resampling).to(working))
    skips = [0 if row.parts.pending is None else row.parts.pending.skip for row in rows]
    present = [row.parts.num_samples for row in rows]
    filled = cargo.add_counts(*(row.num_samples if row.repeat else row.parts.num_samples for row in rows))
    places = None
    if len(set(skips)) > 1 or any(row.repeat for row in rows):
        places = cargo.add_counts(*skips), cargo.add_counts(*(max(1, count) for count in present))

    def write(buffer: torch.Tensor) -> None:
        for row, out in zip(rows, section.of(buffer), strict=True):
            _write_with_margins(row.parts, out, before, after)

    def unpack(buffer: torch.Tensor) -> torch.Tensor:
        samples = expanded(section.of(buffer), table.of(buffer), working, working)
        if resampling is not None and kernel is not None:
            samples = convolve(samples, kernel.of(buffer), resampling)
        if places is None:
            samples = samples[:, :, skips[0] : skips[0] + length]
        else:
            skip, count = (place.of(buffer)[:, None, None] for place in places)
            index = skip + torch.arange(length, device=samples.device) % count
            index = index.clamp(max=samples.shape[2] - 1).expand(-1, num_channels, -1)
            samples = samples.gather(2, index)
        samples = torch.nn.functional.pad(samples, (0, length - samples.shape[2]))
        _silence(samples, filled.of(buffer))
        return expanded(samples, table.of(buffer), layout.dtype, working)

    cargo.writes.append(write)
    return unpack


def _silence(batch: torch.Tensor, lengths: torch.Tensor) -> None:
    """Zeros behind each clip."""
    positions = torch.arange(batch.shape[2], device=batch.device)
    batch.masked_fill_(positions >= lengths[:, None, None], 0)


def _write_with_margins(parts: Parts, out: torch.Tensor, before: int, after: int) -> None:
    """What was decoded into `out` (num_channels, num_samples), mirrored at both ends as swresample does.

    Its beginning is mirrored at the first sample, its end behind the last. What is short is followed by zeros.
    """
    count, is_short, values = parts.num_decoded, _is_short(parts), as_words(out)
    parts.write(out[:, before:])
    values[:, before + count :] = -1 if out.dtype == torch.uint8 else 0  # mu-law's silence
    if before:
        values[:, :before] = values[:, before + 1 : 2 * before + 1][:, ::-1]
    if after and not is_short:
        end = before + count
        values[:, end : end + after] = values[:, end - after : end][:, ::-1]


def _is_short(parts: Parts) -> bool:
    return parts.pending is not None and parts.num_decoded < parts.pending.resampling.shortest


def _common_stored(rows: list[Row]) -> Stored | None:
    """What all clips may cross as."""
    kinds = {row.parts.stored for row in rows}
    if None in kinds or not kinds:
        return None
    return kinds.pop() if len(kinds) == 1 else "int16"
