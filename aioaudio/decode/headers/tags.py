"""Tags and padding around the audio of a file: ID3, APE and Lyrics3 tags, and zeros."""

from __future__ import annotations

from aioaudio.decode.headers.window import Window, skip_id3v2

__all__ = ["audio_stop", "skip_filler"]

_MAX_TAGS = 16
_BLOCK_BYTES = 1 << 16

_ID3V1_BYTES, _ENHANCED_BYTES, _APE_BYTES = 128, 227, 32
_APE_MAGIC = b"APETAGEX"
_LYRICS_START, _LYRICS_STOP = b"LYRICSBEGIN", b"LYRICS200"
_LYRICS_SIZE_DIGITS = 6


def audio_stop(window: Window, start: int) -> int:
    """Where the tags begin that end the file: ID3v1, APE and Lyrics3, behind `start`."""
    stop = window.size
    for _ in range(_MAX_TAGS):
        begin = _tag_start(window, stop)
        if not start <= begin < stop:
            break
        stop = begin
    return stop


def _tag_start(window: Window, stop: int) -> int:
    """Where the tag begins that ends at `stop`; `stop` where there is none."""
    begin = max(0, stop - _ID3V1_BYTES - _ENHANCED_BYTES)
    tail = bytes(window.read(stop - begin, begin))
    if tail[-_ID3V1_BYTES:][:3] == b"TAG":
        return stop - (_ID3V1_BYTES + _ENHANCED_BYTES if tail[:4] == b"TAG+" else _ID3V1_BYTES)
    begin, magic = stop, b""
    if tail[-_APE_BYTES:].startswith(_APE_MAGIC):
        # Tags of version 1 have no header.
        begin, magic = stop - _ape_bytes(tail[-_APE_BYTES:]), _APE_MAGIC if tail[-9] >> 7 else b""
    elif tail.endswith(_LYRICS_STOP) and (size := tail[: -len(_LYRICS_STOP)][-_LYRICS_SIZE_DIGITS:]).isdigit():
        begin, magic = stop - len(_LYRICS_STOP) - _LYRICS_SIZE_DIGITS - int(size), _LYRICS_START
    return begin if begin >= 0 and bytes(window.read(len(magic), begin)) == magic else stop


def skip_filler(window: Window, start: int, stop: int) -> tuple[int, bool]:
    """Where tags (ID3v2, ID3v1, APE) and zeros that begin at `start` end, at most at `stop`, and whether there was a
    tag."""
    at = _skip_zeros(window, start, stop)
    num_tags = 0
    while at < stop and num_tags < _MAX_TAGS:
        after = _skip_tag(window, at)
        if not at < after <= stop:
            break
        at, num_tags = _skip_zeros(window, after, stop), num_tags + 1
    return at, num_tags > 0


def _skip_tag(window: Window, start: int) -> int:
    """Where the tag that begins at `start` ends; `start` where there is none."""
    head = bytes(window.read(_APE_BYTES, start))
    if head[:3] == b"TAG":
        return start + (_ENHANCED_BYTES if head[:4] == b"TAG+" else _ID3V1_BYTES)
    if head.startswith(_APE_MAGIC):
        return start + _ape_bytes(head)
    return skip_id3v2(window, start)


def _ape_bytes(end: bytes) -> int:
    """Bytes of the APE tag of which `end` is the header or the footer; the size in it counts the footer alone."""
    size, flags = int.from_bytes(end[12:16], "little"), int.from_bytes(end[20:24], "little")
    return size + _APE_BYTES * (flags >> 31)


def _skip_zeros(window: Window, start: int, stop: int) -> int:
    """Where the zeros that begin at `start` end, at most at `stop`."""
    while start < stop:
        block = bytes(window.read(min(_BLOCK_BYTES, stop - start), start))
        if not block:  # the file has become shorter
            break
        rest = block.lstrip(b"\0")
        start += len(block) - len(rest)
        if rest:
            break
    return start
