"""The packet table of a Core Audio file: how many samples are valid, and what lies before and behind them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from aioaudio.decode.headers.chunks import MAX_CHUNKS, Chunk
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["PacketTable", "caf_chunks", "packet_table"]

_TABLE = struct.Struct(">qqii")


class PacketTable(NamedTuple):
    """`num_samples` are valid, after `priming` that the encoder put before them, and before `remainder` of its own."""

    num_samples: int
    priming: int
    remainder: int


def packet_table(file: OpenBytes, head: memoryview) -> PacketTable | None:
    """The packet table of a file that begins with `head`.

    None where there is none, and where nothing is to be dropped: some writers then count whole packets as valid.
    """
    window = Window(file, head)
    for chunk in caf_chunks(window):
        if chunk.id == b"pakt":
            fields = window.read(_TABLE.size, chunk.offset)
            if len(fields) < _TABLE.size:
                return None
            _, num_samples, priming, remainder = _TABLE.unpack(fields)
            is_sound = num_samples > 0 and priming >= 0 and remainder >= 0 and priming + remainder > 0
            return PacketTable(num_samples, priming, remainder) if is_sound else None
    return None


def caf_chunks(window: Window) -> Iterator[Chunk]:
    """The chunks of a Core Audio file; one without a size, which goes up to the end, is left out."""
    offset = 8
    for _ in range(MAX_CHUNKS):
        header = window.read(12, offset)
        if len(header) < 12:
            return
        name, size = struct.unpack(">4sq", header)
        if size < 0:
            return
        yield Chunk(name, offset + 12, size)
        offset += 12 + size
