"""Frames of FLAC (RFC 9639, section 9.1): whether their numbers run through a file from its beginning to its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from aioaudio.decode.headers.window import Window

__all__ = ["run_through"]

# Sync and a size of blocks, a rate and a width of samples that exist.
_HEADER = re.compile(rb"\xff[\xf8\xf9][\x10-\xfe][\x00-\xaf]")
_MAX_HEADER_BYTES = 16

# Some frames, mostly; where none is found in so many bytes, nothing is said.
_NEAR_BYTES = 1 << 15
_NUM_PLACES = 6


class _Frame(NamedTuple):
    """`number` counts frames, or samples where blocks are of several sizes; `form` is what all frames share."""

    number: int
    form: tuple[int, int, int]


def run_through(window: Window, start: int, num_samples: int, block_samples: int) -> bool:
    """Whether frames at some places of a file, which begin at `start`, are in order, and the last one ends it.

    False where that is not clear, and for a small file, which is looked through as quickly. `num_samples` and
    `block_samples` are what the file's header tells.
    """
    first = _frame(bytes(window.read(_MAX_HEADER_BYTES, start)), 0)
    step = (window.size - start) // _NUM_PLACES
    if first is None or first.number or step <= _NEAR_BYTES:
        return False
    numbers: list[int] = []
    for offset in [start + i * step for i in range(1, _NUM_PLACES)]:
        frame = next(_frames(window, offset, first.form), None)
        if frame is None:
            return False
        numbers.append(frame.number)
    ending = [frame.number for frame in _frames(window, window.size - _NEAR_BYTES, first.form)]
    if not ending:
        return False
    numbers.append(ending[-1])
    scale = 1 if first.form[0] & 1 else block_samples
    is_end = num_samples - block_samples <= ending[-1] * scale < num_samples
    return is_end and all(before < after for before, after in pairwise(numbers))


def _frames(window: Window, offset: int, form: tuple[int, int, int]) -> Iterator[_Frame]:
    """The frames of this form whose headers lie in the bytes from `offset` on."""
    data = bytes(window.read(_NEAR_BYTES, offset))
    for match in _HEADER.finditer(data):
        frame = _frame(data, match.start())
        if frame is not None and frame.form == form:
            yield frame


def _frame(data: bytes, at: int) -> _Frame | None:
    """The frame whose header is in `data` at `at`; None where its checksum says that it is none."""
    if not _HEADER.match(data, at):
        return None
    size_code, rate_code, width_code = data[at + 2] >> 4, data[at + 2] & 15, data[at + 3] & 15
    more = _more_bytes(data[at + 4]) if at + 4 < len(data) else -1
    size = 5 + more + {6: 1, 7: 2}.get(size_code, 0) + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if more < 0 or at + size >= len(data) or _crc8(data[at : at + size]) != data[at + size]:
        return None
    number = data[at + 4] & (0x7F if not more else 0x3F >> more)
    for byte in data[at + 5 : at + 5 + more]:
        number = number << 6 | byte & 0x3F
    return _Frame(number, (data[at + 1], rate_code, width_code))


def _more_bytes(first: int) -> int:
    """How many bytes follow the first of a number that is coded like a character in UTF-8; -1 if none begins so."""
    ones = 8 - (first ^ 0xFF).bit_length()
    return 0 if ones == 0 else ones - 1 if 2 <= ones <= 7 else -1


def _crc8(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def _crc8_entry(crc: int) -> int:
    for _ in range(8):
        crc = crc << 1 ^ (0x107 if crc & 0x80 else 0)
    return crc


# The checksum of a header: polynomial x^8 + x^2 + x + 1.
_CRC8 = [_crc8_entry(byte) for byte in range(256)]
