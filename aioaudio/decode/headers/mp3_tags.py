"""Tags around MPEG audio, and the tag of its encoder, which stands in the first frame instead of sound."""

from __future__ import annotations

from typing import NamedTuple

from aioaudio.decode.headers.mp3_frames import HEADER_BYTES, Frame
from aioaudio.decode.headers.window import Window, skip_id3v2

__all__ = ["EncoderTag", "audio_stop", "encoder_tag", "skip_filler"]

_MAX_TAGS = 16
_BLOCK_BYTES = 1 << 16

_ID3V1_BYTES, _ENHANCED_BYTES, _APE_BYTES = 128, 227, 32
_APE_MAGIC = b"APETAGEX"
_LYRICS_START, _LYRICS_STOP = b"LYRICSBEGIN", b"LYRICS200"
_LYRICS_SIZE_DIGITS = 6

# Bytes from a frame's start to where an encoder's tag in it ends, and from its header to where it begins.
_TAG_BYTES = 192
_SIDE_INFO_BYTES = {(1152, 2): 32, (1152, 1): 17, (576, 2): 17, (576, 1): 9}
_VBRI_OFFSET = 36

# The tag counts the encoder's delay alone: the decoder adds this many samples of its own.
_DECODER_DELAY = 529


class EncoderTag(NamedTuple):
    """Frames and bytes that a tag counts, and samples to be dropped at the start and at the end; 0 is unknown."""

    num_frames: int = 0
    num_bytes: int = 0
    delay: int = 0
    padding: int = 0


def encoder_tag(window: Window, offset: int, frame: Frame) -> EncoderTag | None:
    """What the Xing, Info or VBRI tag in the frame at `offset` says, None where there is none."""
    if frame.layer != 3:
        return None
    data = bytes(window.read(_TAG_BYTES, offset))
    if data[_VBRI_OFFSET : _VBRI_OFFSET + 4] == b"VBRI":
        at = _VBRI_OFFSET + 10  # version, delay and quality; FFmpeg drops no delay
        return EncoderTag(int.from_bytes(data[at + 4 : at + 8], "big"), int.from_bytes(data[at : at + 4], "big"))
    at = HEADER_BYTES + _SIDE_INFO_BYTES[frame.num_samples, frame.num_channels]
    if data[at : at + 4] not in (b"Xing", b"Info"):
        return None
    flags = int.from_bytes(data[at + 4 : at + 8], "big")
    has_frames, has_bytes, has_toc, has_quality = (flags >> bit & 1 for bit in range(4))
    at += 8
    num_frames = int.from_bytes(data[at : at + 4], "big") if has_frames else 0
    at += 4 * has_frames
    num_bytes = int.from_bytes(data[at : at + 4], "big") if has_bytes else 0
    at += 4 * has_bytes + 100 * has_toc + 4 * has_quality
    if data[at : at + 4] not in (b"LAME", b"Lavf", b"Lavc"):
        return EncoderTag(num_frames, num_bytes)
    lengths = int.from_bytes(data[at + 21 : at + 24], "big")
    delay, padding = lengths >> 12, lengths & 0xFFF
    return EncoderTag(num_frames, num_bytes, delay + _DECODER_DELAY, max(0, padding - _DECODER_DELAY))


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
    for num_tags in range(_MAX_TAGS):
        after = _skip_tag(window, at)
        if not at < after <= stop:
            return at, num_tags > 0
        at = _skip_zeros(window, after, stop)
    return at, True


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
        rest = block.lstrip(b"\0")
        start += len(block) - len(rest)
        if rest:
            break
    return start
