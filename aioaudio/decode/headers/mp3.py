"""MPEG audio (MP3, MP2, MP1): the first frame, and the Xing or Info tag that it may hold instead of sound."""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

from aioaudio.audio import Damage
from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.window import Window, skip_id3v2
from aioaudio.encoded import OpenBytes

__all__ = ["parse"]

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
_CODECS = {1: "mp1", 2: "mp2", 3: "mp3float"}

# The bits that all frames of a stream share: sync, version, layer and sample rate.
_STREAM_BITS = 0xFFFE0C00

# Candidates for a frame's header, overlapping ones too: sync, then only versions, layers and rates that exist.
_HEADER = re.compile(rb"(?=\xff[\xe2-\xe7\xf2-\xff][\x10-\xeb])")
_MAX_CANDIDATES = 4096

# How far behind the ID3v2 tags the first frame is looked for; FFmpeg looks half as far.
_MAX_JUNK = 1 << 17

# Enough of the end of a file for some frames of the greatest length, 1729 bytes.
_TAIL_BYTES = 8192

# Bytes from a frame's start to where a tag in it ends, and from its header to where it begins.
_TAG_BYTES = 192
_SIDE_INFO_BYTES = {(1152, 2): 32, (1152, 1): 17, (576, 2): 17, (576, 1): 9}

# Less than this behind the frames that a tag counts is no other MP3.
_MIN_APPENDED_BYTES = 256

# The tag counts the encoder's delay alone: the decoder adds this many samples of its own.
_DECODER_DELAY = 529

_PREROLL_SECONDS = 0.6


class _Frame(NamedTuple):
    stream_bits: int
    layer: int
    sample_rate: int
    num_channels: int
    num_samples: int
    num_bytes: int


class _Tag(NamedTuple):
    """Frames and bytes that a tag counts, and samples to be dropped at the start and at the end; 0 is unknown."""

    num_frames: int
    num_bytes: int
    delay: int
    padding: int


_NO_TAG = _Tag(0, 0, 0, 0)


def parse(file: OpenBytes, head: memoryview, start: int = 0) -> Facts | None:
    """Facts of MPEG audio that begins at `start`, where `head` was read; None where anything is unclear."""
    window, offset = Window(file, head, start), start
    frames = _chain(window, offset, 2)
    if not frames and not _is_adts(head):
        window = window.moved(_MAX_JUNK, start)
        offset = _find_frame(window, start)
        frames = _chain(window, offset, 2)
    if not frames:
        return None
    first, second = frames
    tag_frame = bytes(window.read(_TAG_BYTES, offset))
    if tag_frame[36:40] == b"VBRI":  # its encoders differ in whether that frame counts itself
        return None
    tag = _tag(tag_frame, first)
    num_samples = tag.num_frames * first.num_samples - tag.delay - tag.padding
    has_length = num_samples > 0 and tag.num_bytes > 0 and not _goes_on(window, offset + tag.num_bytes)
    return Facts(
        container="mp3",
        codec=_CODECS[first.layer],
        sample_rate=first.sample_rate,
        num_channels=second.num_channels,
        channel_layout="mono" if second.num_channels == 1 else "stereo",
        num_samples=num_samples if has_length else None,
        # Junk at the end makes FFmpeg forget the padding, and may decode to a frame or two.
        slack=tag.padding + 2 * first.num_samples if has_length else 0,
        frame_samples=first.num_samples,
        preroll_seconds=_PREROLL_SECONDS,
        # FFmpeg looks for the tag only right where the ID3v2 tags end.
        pieces=((offset, file.size),) if tag != _NO_TAG and offset > start else None,
        damage=_missing(window, offset, offset + tag.num_bytes, first.stream_bits),
    )


def _is_adts(head: memoryview) -> bool:
    """Whether `head` begins with a frame of AAC, whose sync is the same, with a layer that MPEG audio does not have."""
    return len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0


def _frame(header: memoryview | bytes) -> _Frame | None:
    """The frame that begins with these four bytes, None where they are not a header."""
    word = int.from_bytes(header, "big")
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
    return _Frame(word & _STREAM_BITS, layer, sample_rate, num_channels, num_samples, num_bytes)


def _chain(window: Window, offset: int, length: int) -> list[_Frame]:
    """The `length` frames from `offset` on, each right behind the one before it; empty where there are not so many."""
    frames: list[_Frame] = []
    for _ in range(length):
        frame = _frame(window.read(4, offset))
        if frame is None or (frames and frame.stream_bits != frames[0].stream_bits):
            return []
        frames.append(frame)
        offset += frame.num_bytes
    return frames


def _find_frame(window: Window, start: int) -> int:
    """Where frames begin behind zeros or junk at `start`; the end of the file where there are none near."""
    for match in islice(_HEADER.finditer(window.read(_MAX_JUNK, start)), _MAX_CANDIDATES):
        if _chain(window, start + match.start(), 3):
            return start + match.start()
    return window.size


def _tag(data: bytes, frame: _Frame) -> _Tag:
    """What the Xing or Info tag in the frame that begins `data` says."""
    if frame.layer != 3:
        return _NO_TAG
    at = 4 + _SIDE_INFO_BYTES[frame.num_samples, frame.num_channels]
    if data[at : at + 4] not in (b"Xing", b"Info"):
        return _NO_TAG
    flags = int.from_bytes(data[at + 4 : at + 8], "big")
    has_frames, has_bytes, has_toc, has_quality = (flags >> bit & 1 for bit in range(4))
    at += 8
    num_frames = int.from_bytes(data[at : at + 4], "big") if has_frames else 0
    at += 4 * has_frames
    num_bytes = int.from_bytes(data[at : at + 4], "big") if has_bytes else 0
    at += 4 * has_bytes + 100 * has_toc + 4 * has_quality
    if data[at : at + 4] not in (b"LAME", b"Lavf", b"Lavc"):
        return _Tag(num_frames, num_bytes, 0, 0)
    lengths = int.from_bytes(data[at + 21 : at + 24], "big")
    delay, padding = lengths >> 12, lengths & 0xFFF
    return _Tag(num_frames, num_bytes, delay + _DECODER_DELAY, max(0, padding - _DECODER_DELAY))


def _goes_on(window: Window, stop: int) -> bool:
    """Whether frames follow where the tag says that they end: another MP3 was appended."""
    if stop + _MIN_APPENDED_BYTES > window.size:
        return False
    if bytes(window.read(3, stop)) == b"TAG":
        stop += 128
    stop = skip_id3v2(window, stop)
    return _find_frame(window.moved(_MAX_JUNK, stop), stop) < window.size


def _missing(window: Window, offset: int, stop: int, stream_bits: int) -> tuple[Damage, ...]:
    """The damage if frames from `offset` on should go on to `stop` and the file ends before that, inside a frame.

    A tag that promises too much proves nothing alone: some count bytes of ID3 tags that were taken away since.
    """
    if stop <= window.size:
        return ()
    tail = window.read(_TAIL_BYTES, max(offset, window.size - _TAIL_BYTES))
    for match in islice(_HEADER.finditer(tail), _MAX_CANDIDATES):
        at, num_frames = match.start(), 0
        while (frame := _frame(tail[at : at + 4])) and frame.stream_bits == stream_bits:
            at, num_frames = at + frame.num_bytes, num_frames + 1
        if num_frames > 2 or (num_frames == 2 and at > len(tail)):
            is_cut = at > len(tail) or at < len(tail) < at + 4
            message = f"ends {stop - window.size} bytes before the end that its Xing tag promises"
            return (Damage(None, "truncated", message),) if is_cut else ()
    return ()
