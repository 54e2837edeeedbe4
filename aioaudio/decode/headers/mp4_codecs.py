"""How the sound of an MP4 track is encoded, by its sample entry: AAC-LC (ISO/IEC 14496-3) and Apple Lossless."""

from __future__ import annotations

import struct
from typing import NamedTuple

from aioaudio.decode.headers.boxes import Box, boxes, payload
from aioaudio.decode.headers.window import Window

__all__ = ["Codec", "codec_of"]

# Before the boxes in the entry of a track of sound: reserved, data reference, version 0, 16 more bytes.
_ENTRY = struct.Struct(">6xHH18x")

_ONE_ENTRY = struct.pack(">II", 0, 1)

# Boxes beside that with the codec's own header: bit rates, and what iTunes knows of the purchase.
_HARMLESS = frozenset({b"btrt", b"pinf"})

_MPEG4_AUDIO, _AUDIO_STREAM = 0x40, 5
_STREAM_TAG, _CONFIG_TAG, _SPECIFIC_TAG = 3, 4, 5
_AAC_LC, _SBR = 2, 5
_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)

# Where nothing is said of SBR, which doubles the rate, FFmpeg looks for it in the frames. Above this rate nobody uses
# it.
_MAX_DOUBLED_RATE = 24_000

# Version and flags; frame length, version, width, three of the coder's, channels, three sizes, rate.
_ALAC = struct.Struct(">4xIBB3xB10xI")
_MAX_ALAC_FRAME = 1 << 14
_MAX_RATE = 2**31 - 1

_LAYOUTS = {1: "mono", 2: "stereo"}


class Codec(NamedTuple):
    """FFmpeg's name of a codec, and what its header says; `bits_per_sample` as far as FFmpeg tells it."""

    name: str
    sample_rate: int
    num_channels: int
    frame_samples: int
    preroll_seconds: float
    bits_per_sample: int | None = None

    @property
    def channel_layout(self) -> str:
        return _LAYOUTS[self.num_channels]


def codec_of(window: Window, descriptions: Box) -> Codec | None:
    """The codec of a track with these sample descriptions (stsd); None where they are not of the plainest kind."""
    start = descriptions.start
    if bytes(window.read(8, start)) != _ONE_ENTRY:
        return None
    # FFmpeg takes no other form of a size here.
    if int.from_bytes(window.read(4, start + 8), "big") != descriptions.stop - start - 8:
        return None
    entry = next(boxes(window, descriptions, 8), None)
    if entry is None:
        return None
    fields = window.read(_ENTRY.size, entry.start)
    if len(fields) < _ENTRY.size or _ENTRY.unpack(fields) != (1, 0):
        return None
    inner = [box for box in boxes(window, entry, _ENTRY.size) if box.kind not in _HARMLESS]
    if len(inner) != 1 or inner[0].stop > entry.stop:
        return None
    match entry.kind, inner[0].kind:
        case b"mp4a", b"esds":
            return _aac(bytes(payload(window, inner[0])))
        case b"alac", b"alac":
            return _alac(bytes(payload(window, inner[0])))
    return None


def _aac(header: bytes) -> Codec | None:
    """By the elementary stream descriptor, in which each descriptor is the last or the first part of the other."""
    stream = _descriptor(header[4:], _STREAM_TAG)
    if stream is None or len(stream) < 3 or stream[2] & 0xE0:  # fields that hardly a file has
        return None
    config = _descriptor(stream[3:], _CONFIG_TAG)
    if config is None or len(config) < 13 or config[0] != _MPEG4_AUDIO or config[1] >> 2 != _AUDIO_STREAM:
        return None
    specific = _descriptor(config[13:], _SPECIFIC_TAG)
    return None if specific is None else _aac_lc(specific)


def _descriptor(data: bytes, tag: int) -> bytes | None:
    """The payload of the descriptor that `data` begins with, None where it is another than `tag`, or is cut."""
    if not data or data[0] != tag:
        return None
    size = 0
    for at in range(1, min(5, len(data))):
        size = size << 7 | data[at] & 0x7F
        if data[at] < 0x80:
            return data[at + 1 : at + 1 + size] if at + 1 + size <= len(data) else None
    return None


def _aac_lc(specific: bytes) -> Codec | None:
    """By the AudioSpecificConfig."""
    if len(specific) < 2:
        return None
    bits = int.from_bytes(specific[:2], "big")
    object_type, rate_index, num_channels, rest = bits >> 11, bits >> 7 & 15, bits >> 3 & 15, bits & 7
    # The rest: frames of 960 samples, layers, extensions.
    if object_type != _AAC_LC or rate_index >= len(_RATES) or num_channels not in _LAYOUTS or rest:
        return None
    has_no_sbr = _denies_sbr(specific[2:])
    if has_no_sbr is None or (not has_no_sbr and _RATES[rate_index] <= _MAX_DOUBLED_RATE):
        return None
    return Codec("aac", _RATES[rate_index], num_channels, frame_samples=1024, preroll_seconds=0.2)


def _denies_sbr(extension: bytes) -> bool | None:
    """Whether the end of an AudioSpecificConfig says that there is no SBR, False where it is silent, else None."""
    if not extension.strip(b"\0"):
        return False
    bits = int.from_bytes(extension[:3], "big") if len(extension) >= 3 else 0
    sync, object_type, is_present = bits >> 13, bits >> 8 & 31, bits >> 7 & 1
    return True if (sync, object_type, is_present) == (0x2B7, _SBR, 0) else None


def _alac(header: bytes) -> Codec | None:
    """By the magic cookie, behind a version and flags."""
    if len(header) != _ALAC.size:
        return None
    frame_samples, version, num_bits, num_channels, sample_rate = _ALAC.unpack(header)
    if version or not 0 < frame_samples <= _MAX_ALAC_FRAME or num_bits not in (16, 20, 24, 32):
        return None
    if num_channels not in _LAYOUTS or not 0 < sample_rate <= _MAX_RATE:
        return None
    # FFmpeg tells no length of a frame, and widths only where samples fill its own words.
    bits_per_sample = 16 if num_bits == 16 else None
    return Codec("alac", sample_rate, num_channels, 1, 0.0, bits_per_sample)
