"""How far a file should reach: what its container says, where no parser of ours reads the codec in it.

FFmpeg takes the end of a file for the end of its audio. Most containers tell the size of what they hold, though, by
chunk, block, box or tag; where one of those with audio ends behind the end of the file, the rest has been cut off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from aioaudio.audio import Damage
from aioaudio.decode.headers.aiff import AIFF_CHUNKS
from aioaudio.decode.headers.boxes import boxes, whole
from aioaudio.decode.headers.caf import caf_chunks
from aioaudio.decode.headers.chunks import MAX_CHUNKS, Chunk, chunks, was_never_filled_in
from aioaudio.decode.headers.ogg_pages import page_at
from aioaudio.decode.headers.ogg_walk import find_links
from aioaudio.decode.headers.riff import RIFF_CHUNKS, W64_MAGIC, w64_chunks
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["cut_off", "missing"]

_VOC_MAGIC = b"Creative Voice File\x1a"
_VOC_SOUND = (1, 2, 9)  # types of blocks
_MIN_VOC_BLOCK, _MAX_VOC_BLOCK = 16, 2**24 - 1
_ASF_MAGIC = bytes.fromhex("3026B2758E66CF11 A6D900AA0062CE6C")
_ASF_DATA = bytes.fromhex("3626B2758E66CF11 A6D900AA0062CE6C")
_EBML_MAGIC, _SEGMENT_ID = bytes.fromhex("1A45DFA3"), bytes.fromhex("18538067")

# Tags of an FLV file that are looked at one by one, if its end looks odd: those of some hours.
_MAX_TAGS = 1 << 20


def missing(file: OpenBytes, head: memoryview) -> tuple[Damage, ...]:
    """What the container of a file that begins with `head` shows to be missing; where on the timeline is not known."""
    window = Window(file, head)
    if bytes(head[:4]) == b"OggS":
        return _missing_pages(window)
    read_parts = _reader(bytes(head[:24]))
    if read_parts is None:
        return ()
    return cut_off(read_parts(window), window.size)


def cut_off(parts: Iterable[Chunk], size: int) -> tuple[Damage, ...]:
    """What is missing of `parts` with audio in a file of `size` bytes."""
    for part in parts:
        present = max(0, size - part.offset)
        if part.size > present and not was_never_filled_in(part.size, present):
            return (Damage(None, "truncated", f"{part.size} bytes of audio are promised, the file has {present}"),)
    return ()


def _reader(magic: bytes) -> Callable[[Window], Iterator[Chunk]] | None:
    """What reads the parts with audio of a file that begins with `magic`."""
    if magic[:4] in _READERS:
        return _READERS[magic[:4]]
    if magic[:16] == W64_MAGIC:
        return lambda window: (chunk for chunk in w64_chunks(window) if chunk.id == b"data")
    if magic.startswith(_VOC_MAGIC):
        return _voc_blocks
    if magic[:16] == _ASF_MAGIC:
        return _asf_objects
    return _mp4_boxes if magic[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip") else None


def _riff_chunks(window: Window) -> Iterator[Chunk]:
    byte_order = ">" if bytes(window.read(4, 0)) == b"RIFX" else "<"
    long_size: int | None = None
    for chunk in chunks(window, byte_order, RIFF_CHUNKS):
        if chunk.id == b"ds64":
            long_size = int.from_bytes(window.read(8, chunk.offset + 8), "little")
        elif chunk.id == b"data" and chunk.size == 2**32 - 1 and long_size is not None:
            yield chunk._replace(size=long_size)
        elif chunk.id in (b"data", b"LIST", b"RIFF") and not _is_info(window, chunk):
            yield chunk


def _is_info(window: Window, chunk: Chunk) -> bool:
    """Whether a list is one of tags; in AVI, lists hold the audio, and further RIFF files follow the first."""
    return chunk.id == b"LIST" and bytes(window.read(4, chunk.offset)) != b"movi"


def _iff_chunks(window: Window) -> Iterator[Chunk]:
    return (chunk for chunk in chunks(window, ">", AIFF_CHUNKS) if chunk.id in (b"SSND", b"BODY", b"MDAT"))


def _caf_chunks(window: Window) -> Iterator[Chunk]:
    return (chunk for chunk in caf_chunks(window) if chunk.id == b"data")


def _voc_blocks(window: Window) -> Iterator[Chunk]:
    offset = int.from_bytes(window.read(2, 20), "little")
    for _ in range(_MAX_TAGS):
        header = bytes(window.read(4, offset))
        # SoX counts some bytes too few: what stands behind its block is no header.
        if window.size - offset < _MIN_VOC_BLOCK or header[0] == 0:
            return
        size = int.from_bytes(header[1:], "little")
        if header[0] in _VOC_SOUND and size != _MAX_VOC_BLOCK:  # which means up to the end, or more than fits
            yield Chunk(header[:1], offset + 4, size)
        offset += 4 + size


def _sphere_samples(window: Window) -> Iterator[Chunk]:
    """The samples of NIST SPHERE, whose header is text: a name, a type and a value in each line."""
    lines = [line.split() for line in bytes(window.read(1 << 12, 0)).split(b"\n")]
    if len(lines) < 2 or not lines[1] or not lines[1][0].isdigit():
        return
    fields = {line[0]: line[2] for line in lines if len(line) == 3}
    numbers = [fields.get(name, b"") for name in (b"sample_count", b"channel_count", b"sample_n_bytes")]
    if fields.get(b"sample_coding", b"pcm") in (b"pcm", b"ulaw", b"alaw", b"mu-law") and all(
        map(bytes.isdigit, numbers)
    ):
        count, num_channels, width = map(int, numbers)
        yield Chunk(b"", int(lines[1][0]), count * num_channels * width)


def _sox_samples(window: Window) -> Iterator[Chunk]:
    form = "<IQ" if bytes(window.read(4, 0)) == b".SoX" else ">IQ"
    fields = window.read(12, 4)
    if len(fields) == 12:
        header_bytes, num_values = struct.unpack(form, fields)
        yield Chunk(b"", 4 + header_bytes, 4 * num_values)


def _au_samples(window: Window) -> Iterator[Chunk]:
    fields = window.read(8, 4)
    if len(fields) == 8:
        yield Chunk(b"", *struct.unpack(">II", fields))


def _mp4_boxes(window: Window) -> Iterator[Chunk]:
    return (
        Chunk(box.kind, box.start, box.stop - box.start)
        for box in boxes(window, whole(window))
        if box.kind in (b"mdat", b"moof")
    )


def _asf_objects(window: Window) -> Iterator[Chunk]:
    offset = 0
    for _ in range(MAX_CHUNKS):
        header = bytes(window.read(24, offset))
        size = int.from_bytes(header[16:], "little")
        if len(header) < 24 or size < 24:
            return
        if header[:16] == _ASF_DATA:
            yield Chunk(b"", offset + 24, size - 24)
        offset += size


def _matroska_segment(window: Window) -> Iterator[Chunk]:
    size, offset = _ebml_size(window, 4)
    offset += size or 0
    if size is None or bytes(window.read(4, offset)) != _SEGMENT_ID:
        return
    size, offset = _ebml_size(window, offset + 4)
    if size is not None:
        yield Chunk(_SEGMENT_ID, offset, size)


def _ebml_size(window: Window, offset: int) -> tuple[int | None, int]:
    """The size of an element, which stands at `offset`, and where it ends; None where it is not known."""
    first = int.from_bytes(window.read(1, offset), "big")
    if not first:
        return None, offset
    num_bytes = 9 - first.bit_length()
    size = int.from_bytes(window.read(num_bytes, offset), "big") & (1 << 7 * num_bytes) - 1
    return None if size == (1 << 7 * num_bytes) - 1 else size, offset + num_bytes


def _flv_tags(window: Window) -> Iterator[Chunk]:
    """The tag that the file ends in; none where it ends with a whole one."""
    tail = int.from_bytes(window.read(4, max(0, window.size - 4)), "big")
    if 11 <= tail <= window.size - 4 and _flv_size(window, window.size - 4 - tail) == tail - 11:
        return
    offset = int.from_bytes(window.read(4, 5), "big") + 4
    for _ in range(_MAX_TAGS):
        size = _flv_size(window, offset)
        if size is None:
            if window.size != offset and -4 < window.size - offset < 11:  # cut between two tags, or in a header
                yield Chunk(b"", offset, 11)
            return
        if offset + 11 + size > window.size:
            yield Chunk(b"", offset + 11, size)
        offset += 11 + size + 4


def _flv_size(window: Window, offset: int) -> int | None:
    """Bytes of the tag at `offset`: one of audio, video or script data; None where there is none."""
    header = bytes(window.read(11, offset))
    if len(header) < 11 or header[0] & 0xDF not in (8, 9, 18) or any(header[8:]):
        return None
    return int.from_bytes(header[1:4], "big")


_READERS: dict[bytes, Callable[[Window], Iterator[Chunk]]] = {
    **dict.fromkeys((b"RIFF", b"RIFX", b"RF64", b"BW64"), _riff_chunks),
    b"FORM": _iff_chunks,
    b"caff": _caf_chunks,
    b"NIST": _sphere_samples,
    b".SoX": _sox_samples,
    b"XoS.": _sox_samples,
    b".snd": _au_samples,
    b"FLV\x01": _flv_tags,
    _EBML_MAGIC: _matroska_segment,
}


def _missing_pages(window: Window) -> tuple[Damage, ...]:
    """What is missing in an Ogg file with one stream, of a codec whose length is not known here."""
    first = page_at(window, 0)
    links = [] if first is None else find_links(window, first)
    if len(links) != 1:
        return ()
    return tuple(Damage(None, kind, message) for _, kind, message in links[0].faults)
