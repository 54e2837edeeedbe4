"""The tag that an encoder puts into the first frame of an MP3 instead of sound: Xing, Info or VBRI."""

from __future__ import annotations

from typing import NamedTuple

from aioaudio.decode.headers.mp3_frames import HEADER_BYTES, Frame
from aioaudio.decode.headers.window import Window

__all__ = ["EncoderTag", "encoder_tag"]

# Bytes from a frame's start to where a tag in it ends, and from its header to where it begins.
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
    if data[_VBRI_OFFSET : _VBRI_OFFSET + 6] == b"VBRI\0\1":
        at = _VBRI_OFFSET + 10  # behind delay and quality; FFmpeg drops no delay
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
