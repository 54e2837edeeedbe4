"""Frames of MPEG audio: what a header says, and where runs of frames begin."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from aioaudio.decode.headers.window import Window

__all__ = ["HEADER_BYTES", "Frame", "Search", "frame_at", "frame_sizes", "is_free_format", "leans_back"]

# kbit/s by (MPEG version 1, layer) and the four bits of the header; 0 there is free format, 15 is not allowed.
_KBPS = {
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}

# The bits that all frames of a stream share: sync, version, layer and sample rate.
_STREAM_BITS = 0xFFFE0C00

# Sync, then only versions, layers, bit rates and sample rates that exist.
_HEADER = re.compile(rb"\xff[\xe2-\xe7\xf2-\xff][\x10-\xeb]")

#: Bytes of a header, of which the first three tell how long its frame is.
HEADER_BYTES = 4

# Frames one behind the other that no other bytes look like.
_RUN_LENGTH = 3

_BLOCK_BYTES = 1 << 16


class Frame(NamedTuple):
    """What the header of a frame says; `stream_bits` are those that all frames of its stream share."""

    stream_bits: int
    layer: int
    sample_rate: int
    num_channels: int
    num_samples: int
    num_bytes: int


def frame_at(window: Window, offset: int) -> Frame | None:
    """The frame whose header is at `offset`, None where there is none, or one of free format."""
    return _frame(int.from_bytes(window.read(HEADER_BYTES, offset), "big"))


def leans_back(window: Window, offset: int, frame: Frame) -> bool:
    """Whether the frame at `offset` needs bytes that stand in the frames before it: its side information tells."""
    head = bytes(window.read(HEADER_BYTES + 4, offset))
    at = HEADER_BYTES if head[1] & 1 else HEADER_BYTES + 2  # a checksum
    num_bits = 9 if frame.num_samples == 1152 else 8
    return frame.layer == 3 and int.from_bytes(head[at : at + 2], "big") >> 16 - num_bits > 0


def is_free_format(head: memoryview) -> bool:
    """Whether `head` begins a frame that does not tell its bit rate, and so its size."""
    word = int.from_bytes(head[:HEADER_BYTES], "big")
    return len(head) >= HEADER_BYTES and word >> 12 & 15 == 0 and _frame(word | 1 << 12) is not None


@lru_cache(maxsize=64)
def frame_sizes(stream_bits: int) -> dict[bytes, int]:
    """Bytes of a frame of the stream, by the first three of its header."""
    sizes: dict[bytes, int] = {}
    for other_bits in range(1 << 9):  # checksum or none; bit rate; padding; private
        word = stream_bits | (other_bits >> 8) << 16 | (other_bits >> 4 & 15) << 12 | (other_bits >> 2 & 3) << 8
        frame = _frame(word)
        if frame is not None:
            sizes[word.to_bytes(HEADER_BYTES, "big")[:3]] = frame.num_bytes
    return sizes


def _frame(word: int) -> Frame | None:
    version, layer = word >> 19 & 3, 4 - (word >> 17 & 3)
    kbps_index, rate_index = word >> 12 & 15, word >> 10 & 3
    if word >> 21 != 0x7FF or version == 1 or layer == 4 or kbps_index in (0, 15) or rate_index == 3:
        return None
    sample_rate = _RATES[version][rate_index]
    bit_rate = _KBPS[version == 3, layer][kbps_index] * 1000
    if layer == 1:
        num_samples, num_bytes = 384, 4 * (12 * bit_rate // sample_rate + (word >> 9 & 1))
    else:
        num_samples = 1152 if version == 3 or layer == 2 else 576
        num_bytes = num_samples // 8 * bit_rate // sample_rate + (word >> 9 & 1)
    num_channels = 1 if word >> 6 & 3 == 3 else 2
    return Frame(word & _STREAM_BITS, layer, sample_rate, num_channels, num_samples, num_bytes)


class Search:
    """Looks for runs of frames in a file whose audio ends at `stop`, until `max_candidates` headers led nowhere."""

    def __init__(self, window: Window, stop: int, max_candidates: int) -> None:
        self.window, self.stop = window, stop
        self._candidates_left = max_candidates

    @property
    def is_over(self) -> bool:
        """Whether no more is looked for: that nothing is found then says nothing."""
        return self._candidates_left <= 0

    def find(self, start: int, stop: int, stream_bits: int | None = None) -> int | None:
        """Where in `[start, stop)` the first run of frames begins."""
        for offset in range(start, stop, _BLOCK_BYTES):
            # Two bytes of the next block, for a header that begins at the very end of this one.
            num_bytes = min(_BLOCK_BYTES, stop - offset) + 2
            near = self.window.moved(num_bytes, offset)
            block = bytes(near.read(num_bytes, offset))
            match = _HEADER.search(block)
            while match is not None and not self.is_over:
                self._candidates_left -= 1
                if self.begins_run(offset + match.start(), stream_bits, near):
                    return offset + match.start()
                match = _HEADER.search(block, match.start() + 1)
        return None

    def begins_run(self, offset: int, stream_bits: int | None = None, window: Window | None = None) -> bool:
        """Whether frames of one stream follow one another from `offset` on.

        Where the audio ends, fewer will do, if they are of the stream `stream_bits`: one that ends right there, or
        two, of which the second is cut off.
        """
        first = frame_at(window or self.window, offset)
        for num_frames in range(1, _RUN_LENGTH + 1):
            frame = frame_at(window or self.window, offset)
            if frame is None or first is None or frame.stream_bits != first.stream_bits:
                return False
            offset += frame.num_bytes
            if offset >= self.stop and num_frames < _RUN_LENGTH:
                return first.stream_bits == stream_bits and (offset == self.stop or num_frames > 1)
        return True
