"""Real audio that this project did not make, against references that other decoders or its makers wrote."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import aioaudio

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


def stream_info(path: Path) -> tuple[int, bytes]:
    """Width of the samples, and their MD5, as a FLAC file's STREAMINFO says (RFC 9639, section 8.2)."""
    data = path.read_bytes()
    block = data[data.index(b"fLaC") + 8 :][:34]
    return ((block[12] & 1) << 4 | block[13] >> 4) + 1, block[18:]


def md5_of(audio: aioaudio.Audio, bits_per_sample: int) -> bytes:
    """The MD5 that STREAMINFO would hold for samples loaded as int32."""
    samples = (audio.waveform >> (32 - bits_per_sample)).T.contiguous().numpy().astype("<i4")
    num_bytes = -(-bits_per_sample // 8)
    used = np.ascontiguousarray(samples.reshape(-1).view(np.uint8).reshape(-1, 4)[:, :num_bytes])
    return hashlib.md5(used.tobytes(), usedforsecurity=False).digest()


@pytest.mark.parametrize("pattern", ["flac-test-files/subset/*.flac", "librispeech/*/*.flac", "sonic-pi/*.flac"])
async def test_flac_equals_its_md5(pattern: str, shared: Path) -> None:
    paths = sorted((shared / "audio").glob(pattern))
    assert len(paths) > 30
    loaded = await asyncio.gather(*(aioaudio.load(path, dtype=torch.int32) for path in paths))
    verified = await asyncio.gather(*(aioaudio.load(path, verify=True) for path in paths))
    for path, audio, checked in zip(paths, loaded, verified, strict=True):
        bits_per_sample, md5 = stream_info(path)
        assert md5_of(audio, bits_per_sample) == md5, path.name
        assert checked.verified == "md5", path.name
        assert audio.damage == checked.damage == ()


# What is unusual or wrong in each file is in the README.txt beside it. A number is that of the samples; "md5" says that
# they equal STREAMINFO's besides; an error is the one that load raises.
UNUSUAL: dict[str, int | str | tuple[type[aioaudio.AudioError], int | None]] = {
    # The rate falls from 48 to 44.1, 32, 24, 16 and 8 kHz; STREAMINFO says 32 kHz, the first frame too.
    "uncommon/01 - changing samplerate.flac": 605336,
    "uncommon/02 - increasing number of channels.flac": 638856,
    "uncommon/03 - decreasing number of channels.flac": 375226,
    # FFmpeg's decoder does not follow a change of the width of samples.
    "uncommon/04 - changing bitdepth.flac": (aioaudio.DamagedAudioError, None),
    "uncommon/05 - 32bps audio.flac": "md5",
    "uncommon/07 - 15 bit per sample.flac": "md5",
    "uncommon/08 - blocksize 65535.flac": "md5",
    "uncommon/09 - Rice partition order 15.flac": "md5",
    # No metadata at all: FFmpeg finds the frames.
    "uncommon/10 - file starting at frame header.flac": 664669,
    # Nothing but its name says that it is FLAC, and the bytes decide.
    "uncommon/11 - file starting with unparsable data.flac": (aioaudio.CorruptAudioError, None),
    "faulty/01 - wrong max blocksize.flac": (aioaudio.DamagedAudioError, None),
    "faulty/02 - wrong maximum framesize.flac": "md5",
    "faulty/03 - wrong bit depth.flac": (aioaudio.CorruptAudioError, None),
    "faulty/04 - wrong number of channels.flac": "md5",
    "faulty/05 - wrong total number of samples.flac": "md5",
    "faulty/06 - missing streaminfo metadata block.flac": (aioaudio.CorruptAudioError, None),
    "faulty/07 - other metadata blocks preceding streaminfo metadata block.flac": (aioaudio.CorruptAudioError, None),
    "faulty/08 - blocksize 65536.flac": (aioaudio.CorruptAudioError, None),
    "faulty/09 - blocksize 1.flac": (aioaudio.CorruptAudioError, None),
    "faulty/10 - invalid vorbis comment metadata block.flac": "md5",
    "faulty/11 - incorrect metadata block length.flac": (aioaudio.CorruptAudioError, None),
}


async def test_every_unusual_flac_is_listed(shared: Path) -> None:
    folder = shared / "audio" / "flac-test-files"
    found = {
        str(path.relative_to(folder)) for kind in ("uncommon", "faulty") for path in (folder / kind).glob("*.flac")
    }
    assert found == set(UNUSUAL)


@pytest.mark.parametrize("name", UNUSUAL)
async def test_unusual_flac_gives_the_right_samples_or_a_named_error(name: str, shared: Path) -> None:
    path, expected = shared / "audio" / "flac-test-files" / name, UNUSUAL[name]
    if isinstance(expected, tuple):
        with pytest.raises(expected[0]) as caught:
            await aioaudio.load(path)
        assert path.name in str(caught.value)
        return
    audio = await aioaudio.load(path, dtype=torch.int32)
    if expected == "md5":
        bits_per_sample, md5 = stream_info(path)
        assert md5_of(audio, bits_per_sample) == md5
    else:
        assert audio.num_samples == expected


async def test_one_flipped_byte_in_a_flac_is_reported(shared: Path, soak: Callable[[int], int]) -> None:
    """With verify=True, whole or as a range over the fault, wherever in the audio the byte lies."""
    rng = random.Random(3)
    paths = [*(shared / "audio" / "librispeech").glob("*/*.flac"), *(shared / "audio" / "sonic-pi").glob("*.flac")]
    for path in rng.choices(sorted(paths), k=soak(200)):
        data = bytearray(path.read_bytes())
        place = rng.randrange(len(data) // 4, len(data))
        data[place] ^= rng.randrange(1, 256)
        with pytest.raises(aioaudio.DamagedAudioError) as caught:
            await aioaudio.load(bytes(data), verify=True)
        assert caught.value.damage
        # The fault lies at about this share of the time; a quarter to each side is far more than a frame.
        whole = await aioaudio.load(path)
        at_seconds = place / len(data) * whole.duration_seconds
        start, stop = max(0.0, at_seconds - whole.duration_seconds / 4), at_seconds + whole.duration_seconds / 4
        with pytest.raises(aioaudio.DamagedAudioError):
            await aioaudio.load(bytes(data), verify=True, start_seconds=start, stop_seconds=stop)


async def test_mpeg_vectors_are_within_their_tolerance(shared: Path) -> None:
    paths = sorted((shared / "audio" / "mpeg-vectors").glob("*.bit"))
    assert len(paths) == 10
    for path in paths:
        audio = await aioaudio.load(path, on_damage="conceal")
        reference = np.fromfile(path.with_suffix(".pcm"), "<i2").reshape(-1, audio.num_channels).T
        expected = torch.from_numpy(reference / 32768.0).float()
        assert audio.waveform.shape == expected.shape, path.name
        assert (audio.waveform - expected).abs().max() < 1e-4, path.name


async def test_torchcodec_references_are_equal(shared: Path) -> None:
    folder = shared / "audio" / "torchcodec"
    for name, track, tolerance in (
        ("sine_mono_s16.wav", None, 0.0),
        ("sine_mono_s32.wav", None, 1e-7),
        ("nasa_13013.mp4.audio.mp3", None, 1e-6),
        ("nasa_13013.mp4", 1, 1e-6),
    ):
        stream = 0 if track is None else 4
        reference = torch.load(folder / f"{name}.stream{stream}.all_frames.pt", weights_only=True)
        audio = await aioaudio.load(folder / name, track=track)
        expected = torch.cat([frame.view(audio.num_channels, -1) for frame in reference], dim=1)
        assert audio.waveform.shape == expected.shape, name
        assert (audio.waveform - expected).abs().max() <= tolerance, name


async def test_vorbis_equals_its_raw_reference(shared: Path) -> None:
    audio = await aioaudio.load(shared / "audio" / "vorbis" / "test.ogg")
    reference = torch.from_numpy(np.fromfile(shared / "audio" / "vorbis" / "test.raw", "<f4"))
    expected = reference.view(-1, audio.num_channels).T
    assert audio.waveform.shape == expected.shape  # FFmpeg alone gives 128 samples less
    assert (audio.waveform - expected).abs().max() < 2e-5


async def test_speech_as_wav_equals_it_as_flac(shared: Path) -> None:
    paths = sorted((shared / "audio" / "ljspeech" / "wavs").glob("*.wav"))
    assert len(paths) == 20
    wavs = await asyncio.gather(*(aioaudio.load(path) for path in paths))
    flacs = await asyncio.gather(*(aioaudio.load(path.with_suffix(".flac")) for path in paths))
    for wav, flac_audio in zip(wavs, flacs, strict=True):
        assert wav.waveform.equal(flac_audio.waveform)
        assert wav.sample_rate == flac_audio.sample_rate
