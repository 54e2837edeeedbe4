"""The header of PCM in RIFF/WAVE: also RIFX (big-endian), RF64 and BW64 (64-bit sizes), and Sony Wave64."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.chunks import MAX_CHUNKS, Chunk, Encoding, chunks, pcm_facts
from aioaudio.decode.headers.window import Window
from aioaudio.errors import UnsupportedAudioError

__all__ = ["RIFF_CHUNKS", "W64_MAGIC", "parse_riff", "parse_w64", "w64_chunks"]

W64_MAGIC = bytes.fromhex("72696666 2E91CF11 A5D628DB 04C10000")
_W64_TAIL = bytes.fromhex("F3ACD311 8CD100C0 4F8EDB8A")  # of the GUIDs of all chunks but the first

#: Names of chunks that are in use.
RIFF_CHUNKS = frozenset(
    b"fmt ,data,LIST,fact,bext,iXML,axml,aXML,JUNK,junk,PAD ,FLLR,id3 ,ID3 ,cue ,smpl,inst,PEAK,acid,cart,chna,ds64,"
    b"DISP,LGWV,MD5 ,_PMX,afsp,levl,minf,elm1,regn,umid,strc,plst,slnt,wavl".split(b",")
)

_PCM, _IEEE_FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_NMS_ADPCM, _NMS_BLOCK_BYTES = 0x38, (42, 62, 82)
_GUID_TAIL = bytes.fromhex("00001000 800000AA 00389B71")  # of a sub-format that is a format tag

# By format tag and bytes per sample. Formats of several bytes also have a byte order.
_SAMPLE_FORMATS = {
    (_PCM, 1): "u8",
    (_PCM, 2): "s16",
    (_PCM, 3): "s24",
    (_PCM, 4): "s32",
    (_IEEE_FLOAT, 4): "f32",
    (_IEEE_FLOAT, 8): "f64",
    (_ALAW, 1): "alaw",
    (_MULAW, 1): "mulaw",
}

# FFmpeg's names of the masks of WAVEFORMATEXTENSIBLE, for more than two channels.
_LAYOUTS = {
    0x00B: "2.1",
    0x007: "3.0",
    0x103: "3.0(back)",
    0x107: "4.0",
    0x033: "quad",
    0x603: "quad(side)",
    0x00F: "3.1",
    0x037: "5.0",
    0x607: "5.0(side)",
    0x10F: "4.1",
    0x03F: "5.1",
    0x60F: "5.1(side)",
    0x707: "6.0",
    0x6C3: "6.0(front)",
    0x137: "hexagonal",
    0x70F: "6.1",
    0x13F: "6.1(back)",
    0x6CB: "6.1(front)",
    0x637: "7.0",
    0x6C7: "7.0(front)",
    0x63F: "7.1",
    0x0FF: "7.1(wide)",
    0x6CF: "7.1(wide-side)",
    0x737: "octagonal",
}

# S/PDIF and DTS are carried in files that claim to be 16-bit stereo; FFmpeg looks for these and decodes them.
_BITSTREAM_SYNCS = tuple(map(bytes.fromhex, ("72F81F4E", "FE7F0180", "7FFE8001", "FF1F00E8", "1FFFE800")))
_SYNC_BYTES = 2048


def parse_riff(window: Window, magic: bytes) -> Facts | None:
    """The facts of a file that begins with `magic`: "RIFF", "RIFX", "RF64" or "BW64", and "WAVE" after the size."""
    byte_order = ">" if magic == b"RIFX" else "<"
    encoding: Encoding | None = None
    data: Chunk | None = None
    long_size: int | None = None
    for chunk in chunks(window, byte_order, RIFF_CHUNKS):
        if chunk.id == b"fmt " and encoding is None:
            encoding = _encoding(window.read(min(chunk.size, 40), chunk.offset), byte_order)
            if encoding is None:
                return None
        elif chunk.id == b"data" and data is None:
            data = chunk
        elif chunk.id == b"ds64":
            sizes = window.read(16, chunk.offset)
            long_size = int.from_bytes(sizes[8:], "little") if len(sizes) == 16 else None
        if encoding is not None and data is not None:
            if data.size == 2**32 - 1 and long_size is not None:
                data = data._replace(size=long_size)
            if data.size == 0 and _ends_where_it_says(window, byte_order):
                return pcm_facts("wav", encoding, offset=data.offset, promised=0, present=0)
            return _facts("wav", window, encoding, data)
    return None


def parse_w64(window: Window) -> Facts | None:
    """The facts of a Sony Wave64 file."""
    encoding: Encoding | None = None
    data: Chunk | None = None
    for chunk in w64_chunks(window):
        if chunk.id == b"fmt " and encoding is None:
            encoding = _encoding(window.read(min(chunk.size, 40), chunk.offset), "<")
            if encoding is None:
                return None
        elif chunk.id == b"data" and data is None:
            data = chunk
        if encoding is not None and data is not None:
            return _facts("w64", window, encoding, data)
    return None


def w64_chunks(window: Window) -> Iterator[Chunk]:
    """The chunks of a Sony Wave64 file, named by the first four bytes of their GUIDs; b"" for an unusual one."""
    offset = 40
    for _ in range(MAX_CHUNKS):
        data = bytes(window.read(24, offset))
        size = int.from_bytes(data[16:], "little")  # with these 24 bytes
        if len(data) < 24 or size < 24:
            return
        yield Chunk(data[:4] if data[4:16] == _W64_TAIL else b"", offset + 24, size - 24)
        offset += (size + 7) & ~7


def _facts(container: str, window: Window, encoding: Encoding, data: Chunk) -> Facts | None:
    if encoding.sample_format == "s16le" and encoding.num_channels == 2:
        beginning = bytes(window.read(_SYNC_BYTES, data.offset))
        for sync in _BITSTREAM_SYNCS:  # a loop, since any() over a generator takes longer than the searches
            if sync in beginning:
                return None
    present = max(0, window.size - data.offset)
    return pcm_facts(container, encoding, offset=data.offset, promised=data.size, present=present)


def _ends_where_it_says(window: Window, byte_order: str) -> bool:
    """Whether the writer came back to fill in the sizes: then a size of 0 means that there are no samples."""
    size = int.from_bytes(window.read(4, 4), "big" if byte_order == ">" else "little")
    return abs(size + 8 - window.size) <= 1


def _encoding(fmt: memoryview, byte_order: str) -> Encoding | None:
    """What a "fmt " chunk says; None where it is not plain PCM, or says what only FFmpeg has a rule for."""
    if len(fmt) < 16:
        return None
    tag, num_channels, sample_rate, _, block_align, num_bits = struct.unpack_from(f"{byte_order}HHIIHH", fmt)
    mask = 0
    valid_bits = num_bits
    if tag == _NMS_ADPCM and block_align in _NMS_BLOCK_BYTES:
        # FFmpeg takes it for AMR, and makes noise of it.
        raise UnsupportedAudioError("there is no decoder for its codec, NMS ADPCM")
    if tag == _EXTENSIBLE:
        if len(fmt) < 40 or byte_order == ">" or bytes(fmt[28:]) != _GUID_TAIL:
            return None
        valid_bits, mask, tag = struct.unpack_from("<HII", fmt, 18)
    elif tag == _PCM and num_bits == 32 and bytes(fmt[16:18]) == b"\2\0":
        return None  # Audition's 16.8 floats bear the tag of integers, and two bytes more
    width = 1 if tag in (_ALAW, _MULAW) else (num_bits + 7) // 8
    if block_align not in (0, width * num_channels):
        return None
    name = _SAMPLE_FORMATS.get((tag, width))
    if name is None or (tag == _IEEE_FLOAT and num_bits % 8):
        return None
    if tag != _PCM or not 0 < valid_bits <= num_bits:
        valid_bits = 8 * width
    channel_layout = _LAYOUTS.get(mask)
    if mask.bit_count() != num_channels or num_channels <= 2:
        channel_layout = None
    elif channel_layout is None:
        return None
    if width > 1:
        name += "be" if byte_order == ">" else "le"
    return Encoding(name, valid_bits, sample_rate, num_channels, channel_layout)
