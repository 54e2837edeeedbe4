"""Compressed files, byte by byte: what a parser says of them, what FFmpeg gives, and how they are taken apart."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import av
from media import DATA
from pcm_files import CountingBytes

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers import read_facts
from aioaudio.encoded import LocalFile


def parse(data: bytes) -> Facts | None:
    return read_facts(CountingBytes(data), memoryview(data)[:4096])


def parse_file(path: Path) -> Facts | None:
    with LocalFile(path).open() as file:
        return read_facts(file, file.read(4096, 0))


def known(data: bytes | Path) -> Facts:
    facts = parse(data) if isinstance(data, bytes) else parse_file(data)
    assert facts is not None
    return facts


def promise(facts: Facts) -> tuple[Any, ...]:
    """What `facts` say of length and form, as `decode` finds them."""
    form = (facts.codec, facts.container, facts.sample_rate, facts.num_channels, facts.channel_layout)
    return (facts.num_samples, *form)


def decode(data: bytes | Path, demuxer: str | None = None, *, untrimmed: bool = False) -> tuple[Any, ...]:
    """Samples, codec, container, rate, channels and layout by FFmpeg; packets that do not decode are left out."""
    num_samples = 0
    source = io.BytesIO(data) if isinstance(data, bytes) else str(data)
    with av.open(source, format=demuxer) as container:
        stream = container.streams.audio[0]
        stream.codec_context.options = {"flags2": "+skip_manual"} if untrimmed else {}
        for frame in _frames(container, stream):
            num_samples += frame.samples
        context = stream.codec_context
        form = (context.name, container.format.name, context.sample_rate, context.channels, context.layout.name)
        return (num_samples, *form)


def _frames(container: av.container.InputContainer, stream: av.AudioStream) -> Iterator[av.AudioFrame]:
    packets = container.demux(stream)
    for _ in range(100_000):
        try:
            yield from next(packets).decode()
        except StopIteration:
            return
        except av.error.InvalidDataError:
            continue


@cache
def encode(codec: str, muxer: str, sample_format: str, channels: int, **options: str) -> bytes:
    """A second of silence."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    data = io.BytesIO()
    with av.open(data, "w", format=muxer) as container:
        stream = container.add_stream(codec, rate=48_000, layout=layout, format=sample_format, options=options)
        frame = av.AudioFrame(format=sample_format, layout=layout, samples=48_000)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.sample_rate, frame.pts = 48_000, 0
        container.mux([*stream.encode(frame), *stream.encode(None)])
    return data.getvalue()


def id3v2(size: int, flags: int = 0) -> bytes:
    sizes = bytes([size >> 21 & 127, size >> 14 & 127, size >> 7 & 127, size & 127])
    footer = b"3DI\x04\0" + bytes([flags]) + sizes if flags & 0x10 else b""
    return b"ID3\x04\0" + bytes([flags]) + sizes + b"\xff\xfb\x90" * (size // 3) + bytes(size % 3) + footer


ID3V1 = b"TAG" + b"x" * 125


def ape(size: int) -> bytes:
    item = struct.pack("<II", size, 0) + b"Key\0" + b"v" * size
    ends = [struct.pack("<8sIIII8x", b"APETAGEX", 2000, len(item) + 32, 1, flags) for flags in (0xA0000000, 0x80000000)]
    return ends[0] + item + ends[1]


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that hold no chain of frames."""
    return b"".join((seed * 2654435761 + i * 40503 * i & 0xFFFF).to_bytes(2, "big") for i in range(size // 2))


MP3 = (DATA / "ljspeech.mp3").read_bytes()
MP3_FRAMES = MP3[MP3.index(b"\xff\xf3") : -len(ID3V1)]
VORBIS = (DATA / "ljspeech.ogg").read_bytes()
OPUS = (DATA / "jfk.opus").read_bytes()


def pages(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    while data:
        size = 27 + data[26] + sum(data[27 : 27 + data[26]])
        found.append(data[:size])
        data = data[size:]
    return found


def checksum(page: bytes) -> int:
    """Ogg's CRC-32: polynomial 0x04c11db7, not reflected, from 0."""
    crc = 0
    for byte in page:
        crc = crc << 8 & 0xFFFFFFFF ^ _crc_table()[crc >> 24 ^ byte]
    return crc


@cache
def _crc_table() -> list[int]:
    def entry(crc: int) -> int:
        for _ in range(8):
            crc = crc << 1 ^ (0x104C11DB7 if crc & 0x80000000 else 0)
        return crc

    return [entry(byte << 24) for byte in range(256)]


def rewritten(
    data: bytes, *, serial: int | None = None, shift: int = 0, flags: Callable[[int], int] = lambda old: old
) -> bytes:
    """Ogg pages with another serial number, granule positions moved by `shift` and other flags."""
    result = b""
    for page in pages(data):
        old_flags, granule, old_serial = struct.unpack_from("<BqI", page, 5)
        head = struct.pack(
            "<BqI", flags(old_flags), granule + shift * (granule > 0), old_serial if serial is None else serial
        )
        page = page[:5] + head + page[18:22] + bytes(4) + page[26:]
        result += page[:22] + checksum(page).to_bytes(4, "little") + page[26:]
    return result


def pages_serial(data: bytes) -> int:
    return int.from_bytes(data[14:18], "little")
