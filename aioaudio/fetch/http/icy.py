"""What a radio station says between the bytes of its audio, as SHOUTcast and Icecast send it. Pure.

Behind every so many bytes of audio there is a block: a byte that counts sixteens, and so many bytes of text, such as
`StreamTitle='Somebody - Something';` with zeros behind it. Mostly the count is zero, and nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["Demixer", "fields_of", "header_text", "interval_of"]

_UNIT_BYTES = 16

# A value may hold quotes, so it ends where another name or the end follows; what was cut off ends with the block.
_FIELD = re.compile(r"\s*([\w-]+)='(.*?)(?:';\s*(?=[\w-]+=')|';?\s*\Z|\Z)", re.DOTALL)


class Demixer:
    """Takes the blocks out of what a station sends, one of them behind each `interval` bytes of audio."""

    def __init__(self, interval: int) -> None:
        self._interval = self._audio_left = interval
        self._block_left: int | None = None  # until the count is there
        self._block = bytearray()

    def push(self, data: bytes) -> Iterator[bytes | dict[str, str]]:
        """The audio in `data`, and the fields of the blocks that it completes, each in its place."""
        at, audio = 0, bytearray()
        while at < len(data):
            if self._audio_left:
                part = data[at : at + self._audio_left]
                audio += part
                self._audio_left -= len(part)
                at += len(part)
            elif self._block_left is None:
                self._block_left = data[at] * _UNIT_BYTES
                at += 1
            else:
                part = data[at : at + self._block_left]
                self._block += part
                self._block_left -= len(part)
                at += len(part)
            if self._block_left == 0:
                fields = fields_of(bytes(self._block))
                self._audio_left, self._block_left = self._interval, None
                self._block.clear()
                if fields:
                    if audio:
                        yield bytes(audio)
                    audio.clear()
                    yield fields
        if audio:
            yield bytes(audio)


def fields_of(block: bytes) -> dict[str, str]:
    """What a block says: texts by their names, as far as they can be told."""
    text, at, fields = _text(block.rstrip(b"\0")), 0, {}
    while found := _FIELD.match(text, at):
        fields[found[1]] = found[2]
        at = found.end()
    return fields


def interval_of(headers: Mapping[str, str]) -> int | None:
    """The bytes of audio between two blocks; None where an answer has no blocks."""
    value = headers.get("icy-metaint", "").strip()
    return int(value) or None if re.fullmatch(r"[0-9]{1,9}", value) else None


def header_text(value: str) -> str:
    """A header as the station means it: bytes that are no UTF-8 come as surrogates."""
    return _text(value.encode("utf-8", "surrogateescape"))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
