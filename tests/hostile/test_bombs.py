"""Small files that promise or hold too much: refused early, with little memory and in little work."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from media import MediaLibrary

import aioaudio

MIB = 1 << 20


class Memory:
    """The peak of resident memory, by the kernel's own count."""

    def reset(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self.before = self._peak()

    def _peak(self) -> float:
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

    @property
    def rose_by(self) -> float:
        """MiB since `reset`."""
        return self._peak() - self.before


@pytest.fixture
def memory() -> Memory:
    try:
        (result := Memory()).reset()
    except OSError:
        pytest.skip("the kernel does not measure peaks anew here")
    return result


def silence(
    muxer: str, encoder: str, sample_format: str, seconds: int, *, rate: int = 48_000, block: int = 48_000
) -> bytes:
    """Hours of silence, encoded."""
    file = io.BytesIO()
    dtype = {"s16": np.int16, "flt": np.float32}[sample_format.removesuffix("p")]
    with av.open(file, "w", format=muxer) as container:
        stream = container.add_stream(encoder, rate=rate, layout="mono", format=sample_format)
        for start in range(0, seconds * rate, block):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, block), dtype), format=sample_format, layout="mono")
            frame.sample_rate, frame.pts = rate, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def without_length(flac: bytes) -> bytes:
    """A FLAC whose header does not tell its length, as that of a stream."""
    return flac[:21] + bytes([flac[21] & 0xF0]) + bytes(4) + flac[26:]


def at_rate(flac: bytes, rate: int) -> bytes:
    """A FLAC whose header tells that rate, and whose frames leave it to the header."""
    return flac[:18] + struct.pack(">I", rate << 12 | int.from_bytes(flac[18:22], "big") & 0xFFF) + flac[22:]


def with_length(flac: bytes, num_samples: int) -> bytes:
    return (
        flac[:21]
        + bytes([flac[21] & 0xF0 | num_samples >> 32])
        + struct.pack(">I", num_samples & 2**32 - 1)
        + flac[26:]
    )


LONG = 400  # seconds
BOMBS: dict[str, Callable[[], bytes]] = {
    "flac": lambda: silence("flac", "flac", "s16", LONG),
    "flac without a length": lambda: without_length(silence("flac", "flac", "s16", LONG)),
    "flac with too short a length": lambda: with_length(silence("flac", "flac", "s16", LONG), 48_000),
    "flac in ogg": lambda: silence("ogg", "flac", "s16", LONG),
    "flac in matroska": lambda: silence("matroska", "flac", "s16", LONG),
    "wavpack": lambda: silence("wv", "wavpack", "s16p", LONG),
    "alac": lambda: silence("ipod", "alac", "s16p", LONG),
    "opus": lambda: silence("ogg", "libopus", "flt", LONG // 8, block=960),
    "opus in matroska": lambda: silence("matroska", "libopus", "flt", LONG // 8, block=960),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_max_seconds_stops_silence_without_an_end(bomb: str, memory: Memory) -> None:
    data = BOMBS[bomb]()
    assert len(data) < 4 * MIB
    ways: list[dict[str, Any]] = [
        {},
        {"sample_rate": 16_000},
        {"verify": True},
        {"on_damage": "conceal", "dtype": torch.float64},
        {"start_seconds": 5.0},
    ]
    for options in ways:
        memory.reset()
        with pytest.raises(aioaudio.LimitError, match="max_seconds"):
            await aioaudio.load(data, max_seconds=10, **options)
        assert memory.rose_by < 64, options
    memory.reset()
    behind = await aioaudio.load(data, max_seconds=10, start_seconds=1e6, stop_seconds=1e6 + 1)
    assert behind.num_samples == 0
    counted = await aioaudio.info(data, exact=True)
    assert counted.duration_seconds is not None
    assert counted.duration_seconds > 40
    assert memory.rose_by < 64


def png(width: int, height: int) -> bytes:
    """A black picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + 3 * width)) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def id3_size(num_bytes: int) -> bytes:
    return bytes(num_bytes >> shift & 0x7F for shift in (21, 14, 7, 0))


def id3(body: bytes, *, size: int | None = None) -> bytes:
    return b"ID3\x04\0\0" + id3_size(len(body) if size is None else size) + body


def id3_frame(kind: bytes, body: bytes) -> bytes:
    return kind + id3_size(len(body)) + bytes(2) + body


def comments(count: int, *, claim: int | None = None) -> bytes:
    """Vorbis comments, each of another name."""
    entries = [b"name%d=value" % i for i in range(count)]
    head = struct.pack("<I1sI", 1, b"x", count if claim is None else claim)
    return head + b"".join(struct.pack("<I", len(entry)) + entry for entry in entries)


def with_blocks(flac: bytes, *blocks: tuple[int, bytes]) -> bytes:
    """A FLAC file with more metadata blocks behind its STREAMINFO."""
    more = b"".join(bytes([kind]) + len(body).to_bytes(3, "big") + body for kind, body in blocks)
    return flac[:4] + b"\0" + flac[5:42] + more + flac[42:]


def picture(image: bytes, *, claim: int | None = None) -> bytes:
    size = len(image) if claim is None else claim
    return struct.pack(">II9sIIIIII", 3, 9, b"image/png", 0, 2**31, 2**31, 24, 0, size) + image


def box(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", 8 + len(body)) + kind + body


# What to make of intact files (mp3, flac, wav, m4a): each loads as if nothing were there.
BURDENS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "a huge tag": ("mp3", lambda mp3: id3(bytes(20 * MIB)) + mp3),
    "a chain of tags": ("mp3", lambda mp3: id3(b"") * 50_000 + mp3),
    "a thousand tags": (
        "mp3",
        lambda mp3: id3(b"".join(id3_frame(b"TXXX", b"\3k%d\0v" % i) for i in range(1_000))) + mp3,
    ),
    "a huge cover": ("mp3", lambda mp3: id3(id3_frame(b"APIC", b"\0image/png\0\3\0" + png(5_000, 5_000))) + mp3),
    "comments": ("flac", lambda flac: with_blocks(flac, (4, comments(3_000)))),
    "comments that are not there": ("flac", lambda flac: with_blocks(flac, (4, comments(3, claim=2**32 - 1)))),
    "a picture": ("flac", lambda flac: with_blocks(flac, (6, picture(png(5_000, 5_000))))),
    "a picture that is not there": ("flac", lambda flac: with_blocks(flac, (6, picture(png(8, 8), claim=2**32 - 1)))),
    "blocks": ("flac", lambda flac: with_blocks(flac, *[(1, b"")] * 100_000)),
    "chunks": ("wav", lambda wav: wav[:12] + b"junk\0\0\0\0" * 100_000 + wav[12:]),
    "boxes": ("aac", lambda m4a: m4a + box(b"free") * 100_000),
}


@pytest.mark.parametrize("burden", BURDENS)
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_what_stands_beside_the_sound_takes_no_memory(burden: str, memory: Memory, media: MediaLibrary) -> None:
    kind, add = BURDENS[burden]
    intact = media.make(kind, seconds=0.5)
    data = add(intact.path.read_bytes())
    expected = await aioaudio.load(intact.path)
    for options in ({}, {"verify": True}):
        memory.reset()
        audio = await aioaudio.load(data, on_damage="conceal", **options)
        # The header as FFmpeg keeps it, and the bytes once more in a file that it can open.
        assert memory.rose_by < 32 + 3 * len(data) / MIB
        assert audio.waveform.equal(expected.waveform)
    await aioaudio.info(data)
    assert memory.rose_by < 32 + 3 * len(data) / MIB


def wav(rate: int, channels: int, data: bytes, *, bits: int = 16, tag: int = 1, align: int = 0) -> bytes:
    align = align or channels * bits // 8 & 0xFFFF
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def au(size: int, rate: int, channels: int, data: bytes) -> bytes:
    return b".snd" + struct.pack(">5I", 24, size, 3, rate, channels) + data


def rf64(data: bytes) -> bytes:
    ds64 = b"ds64" + struct.pack("<IQQQI", 28, 2**63 - 1, 2**63 - 1, 2**63 - 1, 0)
    return b"RF64\xff\xff\xff\xffWAVE" + ds64 + wav(48_000, 1, data)[12:]


def caf(media: MediaLibrary, rate: float) -> bytes:
    return (
        media.make("caf", seconds=0.5).path.read_bytes().replace(struct.pack(">d", 48_000.0), struct.pack(">d", rate))
    )


ABSURD: dict[str, Callable[[MediaLibrary], bytes]] = {
    "1 Hz": lambda _: wav(1, 1, bytes(100_000)),
    "0 Hz": lambda _: wav(0, 1, bytes(100_000)),
    "4 GHz": lambda _: wav(2**32 - 1, 1, bytes(100_000)),
    "2 GHz, ADPCM": lambda _: wav(2**31 - 1, 1, bytes(100_000), bits=4, tag=17, align=512),
    "1 Hz, ADPCM": lambda _: wav(1, 1, bytes(100_000), bits=4, tag=17, align=512),
    "65535 channels": lambda _: wav(48_000, 65_535, bytes(655_350), bits=8),
    "65535 channels, ADPCM": lambda _: wav(48_000, 65_535, bytes(100_000), bits=4, tag=17, align=512),
    "255 channels": lambda _: au(100_000, 48_000, 255, bytes(102_000)),
    "4 GHz, AU": lambda _: au(2**32 - 1, 2**32 - 1, 1, bytes(100_000)),
    "537 MHz, AU": lambda _: au(2**32 - 1, 0x2000BB80, 1, bytes(100_000)),
    "2^31 channels, AU": lambda _: au(2**32 - 1, 8_000, 2**31, bytes(100_000)),
    "2^63 bytes": lambda _: rf64(bytes(48_000)),
    "1e300 Hz": lambda media: caf(media, 1e300),
    "2 GHz, CAF": lambda media: caf(media, 2e9),
    "NaN Hz": lambda media: caf(media, float("nan")),
    "1 Hz, FLAC": lambda media: at_rate(media.make("flac", seconds=0.5).path.read_bytes(), 1),
    "2^36 samples": lambda media: with_length(media.make("flac", seconds=0.5).path.read_bytes(), 2**36 - 1),
    "a tag of 256 MB": lambda media: id3(b"", size=2**28 - 1) + media.make("mp3", seconds=0.5).path.read_bytes(),
}


@pytest.mark.parametrize("limit", [{}, {"max_seconds": 10}], ids=["", "max_seconds"])
@pytest.mark.parametrize("absurd", ABSURD)
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_absurd_numbers_end_in_an_error_or_in_what_is_there(
    absurd: str, limit: dict[str, Any], memory: Memory, media: MediaLibrary
) -> None:
    data = ABSURD[absurd](media)
    for options in ({}, {"sample_rate": 16_000}, {"num_channels": 1, "sample_rate": 8_000}, {"verify": True}):
        memory.reset()
        if absurd.startswith("1 Hz") and not limit and "sample_rate" in options:
            continue  # that is a result of hours, as the header says
        with contextlib.suppress(aioaudio.AudioError):
            audio = await aioaudio.load(data, on_damage="conceal", **options, **limit)
            assert audio.duration_seconds <= limit.get("max_seconds", 1e6)
            assert audio.waveform.nbytes < 8 * len(data)
        assert memory.rose_by < 64, options
    with contextlib.suppress(aioaudio.AudioError):
        await aioaudio.info(data, exact=True)
    if absurd.startswith("1 Hz") and limit:
        with pytest.raises((aioaudio.LimitError, aioaudio.UnsupportedAudioError)):
            await aioaudio.load(data, sample_rate=16_000, **limit)


async def test_more_channels_than_can_be_resampled_are_unsupported() -> None:
    data = au(100_000, 48_000, 255, bytes(102_000))
    assert (await aioaudio.load(data)).num_channels == 255
    with pytest.raises(aioaudio.UnsupportedAudioError, match="255 channels"):
        await aioaudio.load(data, sample_rate=16_000)
