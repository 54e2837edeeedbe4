"""The codecs of Ogg streams whose length we know how to tell: Vorbis, Opus and FLAC."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Packets", "Stream", "identify", "opus_samples", "vorbis_blocks"]

# Magic, version, channels, rate, three bit rates, the two block sizes as powers of two, framing bit.
_VORBIS_HEAD = struct.Struct("<7sIBI12xBB")

# Magic, version, channels, samples to skip, rate of the original, gain, mapping of channels.
_OPUS_HEAD = struct.Struct("<8sBBHIhB")
_OPUS_RATE = 48_000

# Magic, major and minor version, headers that follow, then the start of a FLAC file: magic, the header of STREAMINFO,
# smallest and largest block, (smallest and largest frame), rate, channels, bits and samples in one, MD5.
_FLAC_HEAD = struct.Struct(">5sBBH4sIHH6xQ16s")
_FLAC_STREAMINFO_BYTES = 34

# FFmpeg's names of the channels that Vorbis assigns to each count, and Opus too, and those that FLAC does.
_VORBIS_LAYOUTS = ("mono", "stereo", "3.0", "quad", "5.0", "5.1", "6.1", "7.1")
_FLAC_LAYOUTS = ("mono", "stereo", "3.0", "quad", "5.0(side)", "5.1(side)", "6.1", "7.1")

# Samples of an Opus packet by its first byte, at 48 kHz: of one frame or of two. Where the two low bits are set, the
# next byte counts them.
_OPUS_FRAMES = (480, 960, 1920, 2880) * 3 + (480, 960) * 2 + (120, 240, 480, 960) * 4
_OPUS_PACKETS = tuple(_OPUS_FRAMES[toc >> 3] * (1, 2, 2, 0)[toc & 3] for toc in range(256))
_OPUS_MAX_SAMPLES = 5760


class Stream(NamedTuple):
    """A stream, from its first packet.

    `num_headers` are the packets before the first one of sound. `short_block` and `long_block` are the two sizes of
    Vorbis, or both the longest packet of Opus or block of FLAC. `pre_skip` are samples that the decoder drops.
    `bits_per_sample`, `num_samples` (None where it is not stored) and `md5` are those of FLAC.
    """

    codec: str
    sample_rate: int
    channel_layout: str
    num_channels: int
    num_headers: int
    short_block: int
    long_block: int
    pre_skip: int = 0
    bits_per_sample: int | None = None
    num_samples: int | None = None
    md5: bytes | None = None


def identify(packet: bytes) -> Stream | None:
    """The stream that begins with `packet`, None unless it is Vorbis, Opus or FLAC with channels that have names."""
    if packet[:7] == b"\x01vorbis" and len(packet) >= _VORBIS_HEAD.size:
        return _identify_vorbis(packet)
    if packet[:8] == b"OpusHead" and len(packet) >= _OPUS_HEAD.size:
        return _identify_opus(packet)
    if packet[:5] == b"\x7fFLAC" and len(packet) >= _FLAC_HEAD.size:
        return _identify_flac(packet)
    return None


def _identify_vorbis(packet: bytes) -> Stream | None:
    _, version, num_channels, sample_rate, sizes, framing = _VORBIS_HEAD.unpack_from(packet)
    short, long = sizes & 15, sizes >> 4
    if version or not framing & 1 or not 1 <= num_channels <= 8 or not sample_rate or not 6 <= short <= long <= 13:
        return None
    return Stream("vorbis", sample_rate, _VORBIS_LAYOUTS[num_channels - 1], num_channels, 3, 1 << short, 1 << long)


def _identify_opus(packet: bytes) -> Stream | None:
    _, version, num_channels, pre_skip, _, _, mapping = _OPUS_HEAD.unpack_from(packet)
    max_channels = {0: 2, 1: 8}.get(mapping, 0)
    if version > 15 or not 1 <= num_channels <= max_channels:
        return None
    layout = _VORBIS_LAYOUTS[num_channels - 1]
    return Stream("opus", _OPUS_RATE, layout, num_channels, 2, _OPUS_MAX_SAMPLES, _OPUS_MAX_SAMPLES, pre_skip)


def _identify_flac(packet: bytes) -> Stream | None:
    _, major, _, num_more, magic, block, _, max_blocksize, packed, md5 = _FLAC_HEAD.unpack_from(packet)
    sample_rate, num_channels, num_bits = packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1
    if major != 1 or not num_more or magic != b"fLaC" or block & 0x7FFFFFFF != _FLAC_STREAMINFO_BYTES:
        return None
    if not sample_rate or not max_blocksize:
        return None
    return Stream(
        "flac",
        sample_rate,
        _FLAC_LAYOUTS[num_channels - 1],
        num_channels,
        1 + num_more,
        max_blocksize,
        max_blocksize,
        bits_per_sample=num_bits,
        num_samples=packed & (1 << 36) - 1 or None,
        md5=md5 if any(md5) else None,
    )


class Packets(NamedTuple):
    """Packets, which lie in `data` at `bounds`."""

    data: bytes
    bounds: list[tuple[int, int]]

    @property
    def first_bytes(self) -> bytes:
        """The first byte of each; an empty packet, which holds nothing, is left out."""
        data = self.data
        return bytes([data[start] for start, stop in self.bounds if start < stop])


def opus_samples(packets: Packets) -> int:
    """Samples of Opus packets; 0 if there are none, or one that is not valid."""
    samples = [_OPUS_PACKETS[toc] for toc in packets.first_bytes]
    if 0 in samples:
        samples = [_counted_samples(packets.data[start:stop]) for start, stop in packets.bounds]
    return sum(samples) if all(samples) else 0


def _counted_samples(packet: bytes) -> int:
    """Samples of an Opus packet whose second byte may say how many frames it holds."""
    if len(packet) > 1 and packet[0] & 3 == 3:
        return (packet[1] & 63) * _OPUS_FRAMES[packet[0] >> 3]
    return _OPUS_PACKETS[packet[0]] if packet else 0


def vorbis_blocks(stream: Stream, setup_tail: bytes, packets: Packets) -> list[int]:
    """Block sizes of Vorbis packets, after that of the block which the first says is before it.

    Empty if the packets are no sound. `setup_tail` is the end of the setup header.
    """
    is_long, first_bytes = _long_modes(setup_tail), packets.first_bytes
    if not is_long or not first_bytes:
        return []
    sizes = _block_sizes(stream.short_block, stream.long_block, is_long)
    blocks = [sizes[byte] for byte in first_bytes]
    if 0 in blocks:
        return []
    # A long block says whether the one before it is long, too, in the bit behind its mode.
    flag = first_bytes[0] >> 1 + (len(is_long) - 1).bit_length() & 1
    before = stream.long_block if blocks[0] == stream.long_block and flag else stream.short_block
    return [before, *blocks]


@lru_cache(maxsize=64)
def _block_sizes(short_block: int, long_block: int, is_long: tuple[bool, ...]) -> tuple[int, ...]:
    """The block size of a Vorbis packet by its first byte, 0 where that begins no sound."""
    mode_mask = (1 << (len(is_long) - 1).bit_length()) - 1
    by_mode = [long_block if long else short_block for long in is_long] + [0] * (mode_mask + 1 - len(is_long))
    return tuple(0 if byte & 1 else by_mode[byte >> 1 & mode_mask] for byte in range(256))


def _long_modes(setup_tail: bytes) -> tuple[bool, ...]:
    """For each mode, whether its blocks are long. The modes are the last thing in the setup header; empty if unclear.

    Read backwards: a set bit ends the header, and before it stand the modes, 41 bits each: whether the block is long,
    two fields of 16 bits that are zero, and 8 bits; and before them the number of modes less one, in 6 bits.
    """
    bits = int.from_bytes(setup_tail, "little")
    at = bits.bit_length() - 1
    found: tuple[bool, ...] = ()
    modes: tuple[bool, ...] = ()
    while at >= 47 and len(modes) < 64 and bits >> at - 40 & 0xFFFFFFFF == 0 and bits >> at - 8 & 0xFF < 64:
        at -= 41
        modes = (bool(bits >> at & 1), *modes)
        if bits >> at - 6 & 63 == len(modes) - 1:
            found = modes
    return found
