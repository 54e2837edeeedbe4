"""Native FLAC: the STREAMINFO block, and whether a tag changes the meaning of the channels."""

from __future__ import annotations

import struct

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["parse"]

_STREAMINFO_TYPE, _COMMENT_TYPE, _INVALID_TYPE = 0, 4, 127
_STREAMINFO = struct.Struct(">HH6xQ16s")
_STREAMINFO_BYTES = _STREAMINFO.size

# FFmpeg's names of the channels that the format assigns to each count.
_LAYOUTS = ("mono", "stereo", "3.0", "quad", "5.0(side)", "5.1(side)", "6.1", "7.1")

# A comment of this name assigns others, by a mask; encoders write it for the usual ones, too.
_MASK_COMMENT = b"WAVEFORMATEXTENSIBLE_CHANNEL_MASK="
_LAYOUTS_BY_MASK = {
    (1, 0x4): "mono", (2, 0x3): "stereo", (3, 0x7): "3.0", (4, 0x33): "quad",
    (5, 0x37): "5.0", (5, 0x607): "5.0(side)", (6, 0x3F): "5.1", (6, 0x60F): "5.1(side)",
    (7, 0x70F): "6.1", (8, 0x63F): "7.1",
}  # fmt: skip

# What FFmpeg's decoder takes; any real file has more.
_MIN_BLOCKSIZE = 16

# Real files have a few blocks of metadata and a few kilobytes of comments: others are left to the general way.
_MAX_BLOCKS = 64
_MAX_COMMENT_BYTES = 1 << 16


def parse(file: OpenBytes, head: memoryview, start: int = 0) -> Facts | None:
    """Facts of a FLAC file that begins at `start`, where `head` was read; None where it is no plain one."""
    window = Window(file, head, start)
    header = bytes(window.read(8 + _STREAMINFO_BYTES, start))
    if len(header) < 8 + _STREAMINFO_BYTES or header[:4] != b"fLaC" or header[4] & 0x7F != _STREAMINFO_TYPE:
        return None
    _, max_blocksize, packed, md5 = _STREAMINFO.unpack_from(header, 8)
    sample_rate, num_channels, num_bits = packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1
    if int.from_bytes(header[5:8], "big") != _STREAMINFO_BYTES or max_blocksize < _MIN_BLOCKSIZE or not sample_rate:
        return None
    comments, frames = _metadata(window, start + len(header), is_last=header[4] >= 0x80)
    layout = None if frames is None else _layout(comments, num_channels)
    if frames is None or layout is None:
        return None
    # Cut from another file without being encoded again, it has that one's header: its length, and its MD5.
    is_cut_out = _begins_later(bytes(window.read(5, frames)))
    return Facts(
        container="flac",
        codec="flac",
        sample_rate=sample_rate,
        num_channels=num_channels,
        channel_layout=layout,
        bits_per_sample=num_bits,
        num_samples=None if is_cut_out else packed & (1 << 36) - 1 or None,
        frame_samples=max_blocksize,
        frames_at=frames,
        preroll_seconds=None if is_cut_out else 0.0,
        md5=md5 if any(md5) and not is_cut_out else None,
    )


def _begins_later(frame: bytes) -> bool:
    """Whether the first frame, which begins so, says that it is not the first of its stream."""
    return len(frame) == 5 and frame[0] == 0xFF and frame[1] & 0xFE == 0xF8 and frame[4] != 0


def _metadata(window: Window, offset: int, *, is_last: bool) -> tuple[bytes | None, int | None]:
    """The comments in the metadata blocks from `offset` on, None where there are none, and where the frames begin.

    That is None for blocks that are not sound. `is_last` says that there are no more blocks.
    """
    comments: bytes | None = None
    for _ in range(_MAX_BLOCKS):
        if is_last:
            return comments, offset
        header = int.from_bytes(window.read(4, offset), "big")
        is_last, block_type, num_bytes = header >> 31 == 1, header >> 24 & 0x7F, header & 0xFFFFFF
        offset += 4
        if block_type == _INVALID_TYPE or offset + num_bytes > window.size:
            return comments, None
        if block_type == _COMMENT_TYPE and comments is None:
            comments = bytes(window.read(min(num_bytes, _MAX_COMMENT_BYTES + 1), offset))
        offset += num_bytes
    return comments, offset


def _layout(comments: bytes | None, num_channels: int) -> str | None:
    """The layout that the format assigns, or a comment; None for an unusual one."""
    if comments is not None and len(comments) > _MAX_COMMENT_BYTES:
        # Of one or two channels, what it may say could hardly be anything else.
        return _LAYOUTS[num_channels - 1] if num_channels <= 2 else None
    mask = None if comments is None else _channel_mask(comments)
    return _LAYOUTS[num_channels - 1] if mask is None else _LAYOUTS_BY_MASK.get((num_channels, mask))


def _channel_mask(comments: bytes) -> int | None:
    """The channel mask in a block of comments, 0 where it is no plain number, None where there is none."""
    upper = comments.upper()
    at = upper.find(_MASK_COMMENT)
    if at < 4:
        return None
    stop = at + int.from_bytes(comments[at - 4 : at], "little")
    try:
        return int(upper[at + len(_MASK_COMMENT) : stop], 0) if upper.count(_MASK_COMMENT) == 1 else 0
    except ValueError:
        return 0
