"""The length of audio that lies in a WAV or Wave64 file in blocks of a fixed number of samples: ADPCM and GSM.

The last block is filled up; how many samples there really are, the "fact" chunk says.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from aioaudio.decode.headers.chunks import chunks
from aioaudio.decode.headers.riff import RIFF_CHUNKS, W64_MAGIC, w64_chunks
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["Blocks", "counted_blocks"]

# Format tags of codecs whose blocks have the number of samples that stands behind the common fields: MS and IMA ADPCM,
# GSM 6.10.
_BLOCK_TAGS = (0x02, 0x11, 0x31)


class Blocks(NamedTuple):
    """`num_samples` in blocks of `block_samples`."""

    num_samples: int
    block_samples: int


def counted_blocks(file: OpenBytes, head: memoryview) -> Blocks | None:
    """How many samples a file that begins with `head` holds; None where its chunks do not agree on a number."""
    window = Window(file, head)
    fmt, fact, data_bytes = b"", b"", 0
    found = w64_chunks(window) if bytes(head[:16]) == W64_MAGIC else chunks(window, "<", RIFF_CHUNKS)
    for chunk in found:
        if chunk.id == b"fmt ":
            fmt = bytes(window.read(min(chunk.size, 20), chunk.offset))
        elif chunk.id == b"fact":
            fact = bytes(window.read(min(chunk.size, 4), chunk.offset))
        elif chunk.id == b"data":
            data_bytes = chunk.size
    if len(fmt) < 20 or len(fact) < 4:
        return None
    tag, block_bytes, block_samples = struct.unpack("<H10xH4xH", fmt)
    num_samples = int.from_bytes(fact, "little")
    if tag not in _BLOCK_TAGS or not block_bytes or not block_samples:
        return None
    most = data_bytes // block_bytes * block_samples
    return Blocks(num_samples, block_samples) if 0 <= most - num_samples < block_samples else None
