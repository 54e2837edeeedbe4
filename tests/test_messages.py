"""What errors say of sources that do not decode, and what is taken for a source or an option."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from media import DATA, MediaLibrary

import aioaudio

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

WAV = (DATA / "ljspeech.wav").read_bytes()
MP3 = (DATA / "ljspeech.mp3").read_bytes()


def png() -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header)) + bytes(50)


async def message_of(source: bytes | str, kind: type[aioaudio.AudioError], format: str | None = None) -> str:
    with pytest.raises(kind) as caught:
        await aioaudio.load(source, format=format)
    return caught.value.message


async def test_no_message_speaks_of_zero_channels(media: MediaLibrary) -> None:
    free = bytearray(media.make("mp3", sample_rate=48_000, bit_rate=96_000).path.read_bytes())
    for start in range(free.index(b"\xff\xfb"), len(free), 288):
        free[start + 2] &= 0x0F
    for data in (bytes(free), bytes(free[free.index(b"\xff\xfb") :])):
        assert "free format" in await message_of(data, aioaudio.UnsupportedAudioError)
    for data, name, seems in ((MP3, "ac3", "ID3"), (WAV, "amr", "RIFF")):
        message = await message_of(data, aioaudio.CorruptAudioError, name)
        assert "0 channels" not in message
        assert f"format={name!r}" in message
        assert seems in message


async def test_pictures_and_scripts_are_called_so() -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>'
    for data, words in ((png(), "a PNG picture"), (svg, "an SVG picture"), (b'<?xml version="1.0"?>' + svg, "an SVG")):
        message = await message_of(data, aioaudio.AudioError)
        assert words in message
        assert "playlist" not in message
    script = b"ffconcat version 1.0\nfile talk.mp3\n"
    assert "ffconcat" in await message_of(script, aioaudio.UnsupportedAudioError)


async def test_audio_that_does_not_say_what_it_is_needs_a_format() -> None:
    data = np.random.default_rng(1).bytes(4_000)
    assert "format=" in await message_of(data, aioaudio.CorruptAudioError)
    assert (await aioaudio.load(data, format="g722")).num_samples == 8_000
    assert "format=" not in await message_of(b"<!doctype html>", aioaudio.CorruptAudioError)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
async def test_a_file_whose_size_is_not_known_is_read_to_its_end() -> None:
    assert "text" in await message_of("/proc/self/status", aioaudio.CorruptAudioError)
    assert (await aioaudio.fetch("/proc/self/status")).num_bytes > 0


async def test_a_closed_file_is_named(data: Path) -> None:
    file = (data / "ljspeech.wav").open("rb")
    file.close()
    with pytest.raises(ValueError, match=r"ljspeech\.wav is closed"):
        await aioaudio.load(file)


async def test_a_closed_session_names_the_source(data: Path) -> None:
    session = aioaudio.Session()
    await session.aclose()
    for source in (data / "ljspeech.wav", WAV, io.BytesIO(WAV)):
        with pytest.raises(aioaudio.ClosedError) as caught:
            await session.load(source)
        assert caught.value.source


async def test_out_must_be_writable_everywhere_once(data: Path) -> None:
    path, length = data / "ljspeech.wav", 113_309
    with torch.inference_mode():
        inference = torch.zeros(1, length)
    memory = torch.zeros(5 * length)
    for out in (inference, memory.as_strided((2, length), (1, 1)), memory.as_strided((3, length), (2, 1))):
        with pytest.raises(ValueError, match=r"^out must not"):
            await aioaudio.load(path, out=out)
    expected = (await aioaudio.load(path, num_channels=2)).waveform
    for strides in ((1, 2), (3, 2), (length, 1), (2 * length, 2)):
        out = memory.as_strided((2, length), strides)
        assert (await aioaudio.load(path, num_channels=2, out=out)).waveform is out
        assert out.equal(expected)


async def test_numbers_of_numpy_are_numbers(data: Path) -> None:
    path = data / "jfk.flac"
    plain = await aioaudio.load(path, sample_rate=16_000, channels=[1, 0], track=0, max_bytes=10**7)
    numpy = await aioaudio.load(
        path, sample_rate=np.int64(16_000), channels=np.array([1, 0]), track=np.int32(0), max_bytes=np.int64(10**7)
    )
    assert plain.waveform.equal(numpy.waveform)
    assert type(numpy.sample_rate) is int
    assert aioaudio.RawPCM("s16le", np.int64(8_000), np.uint8(1)) == aioaudio.RawPCM("s16le", 8_000, 1)
    for value in (16_000.0, True, "16000"):
        with pytest.raises(TypeError, match="sample_rate"):
            await aioaudio.load(path, sample_rate=value)


async def test_an_info_can_be_hashed_and_does_not_change(data: Path) -> None:
    info, again = await aioaudio.info(data / "jfk.flac"), await aioaudio.info(data / "jfk.flac")
    assert len({info, again, pickle.loads(pickle.dumps(info))}) == 1
    assert info.tags["artist"] == "John F. Kennedy"
    assert info.tags == dict(info.tags)
    with pytest.raises(TypeError):
        info.tags["artist"] = "x"  # type: ignore[index]


@pytest.mark.parametrize(
    ("encoded", "decoded"),
    [
        ("u8", "u8"),
        ("s8", "u8"),
        ("s16be", "s16"),
        ("s24le", "s32"),
        ("f32le", "flt"),
        ("f64be", "dbl"),
        ("alaw", "s16"),
    ],
)
async def test_the_info_of_headerless_pcm_names_what_ffmpeg_decodes_to(encoded: str, decoded: str) -> None:
    info = await aioaudio.info(bytes(800), format=aioaudio.RawPCM(encoded, 8_000, 1))
    assert (info.codec, info.sample_format) == (f"pcm_{encoded}", decoded)
