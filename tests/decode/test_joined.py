"""FLAC and WavPack files joined end to end, with tags behind them, and cut out of others: all operations agree."""

from __future__ import annotations

import av
import pytest
import torch
from coded_files import ID3V1, ape, known
from media import MediaLibrary
from pcm_files import CountingBytes

import aioaudio
from aioaudio.decode.headers.flac_frames import run_through
from aioaudio.decode.headers.window import Window

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

KINDS = ["flac", "wavpack"]


def parts(media: MediaLibrary, kind: str, *seconds: float) -> tuple[bytes, torch.Tensor]:
    made = [media.make(kind, seconds=length, seed=i) for i, length in enumerate(seconds)]
    return b"".join(one.path.read_bytes() for one in made), torch.cat([one.samples for one in made], dim=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [(2.0, 1.0), (1.0, 1.0, 1.0), (0.002, 0.003), (1.3, 0.01, 2.2)])
async def test_joined_files_are_one(kind: str, lengths: tuple[float, ...], media: MediaLibrary) -> None:
    data, samples = parts(media, kind, *lengths)
    whole = await aioaudio.load(data)
    assert whole.waveform.equal(samples.float())
    assert whole.damage == ()
    for exact in (False, True):
        info = await aioaudio.info(data, exact=exact)
        assert info.num_samples == samples.shape[1]
        assert info.duration_seconds == whole.duration_seconds
    checked = await aioaudio.load(data, verify=True)
    assert checked.waveform.equal(whole.waveform)
    assert checked.verified == "crc"
    at_16k = await aioaudio.load(data, sample_rate=16_000)
    assert abs(at_16k.num_samples - samples.shape[1] / 3) <= 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_channels_of_one_file_are_no_files(kind: str, media: MediaLibrary) -> None:
    """WavPack has a block for each pair of them."""
    made = media.make(kind, channels=6, seconds=1.5)
    for options in ({}, {"verify": True}, {"start_seconds": 0.5, "stop_seconds": 9.0}):
        audio = await aioaudio.load(made.path, **options)
        assert audio.waveform.equal(made.samples[:, round(audio.start_seconds * 48_000) :].float())
    twice = await aioaudio.load(made.path.read_bytes() * 2, start_seconds=1.0, stop_seconds=2.0)
    assert twice.waveform.equal(torch.cat([made.samples[:, 48_000:], made.samples[:, :24_000]], dim=1).float())
    assert (await aioaudio.info(made.path.read_bytes() * 2, exact=True)).num_samples == 2 * made.num_samples


@pytest.mark.parametrize("kind", KINDS)
async def test_a_range_of_joined_files_is_that_of_the_whole(kind: str, media: MediaLibrary) -> None:
    data, samples = parts(media, kind, 2.0, 1.0, 2.0)
    for start, stop in ((0.0, 1.0), (1.5, 2.5), (2.25, 2.75), (2.5, 4.0), (4.5, 9.0), (4.999, None), (5.0, 6.0)):
        audio = await aioaudio.load(data, start_seconds=start, stop_seconds=stop)
        end = None if stop is None else round(stop * 48_000)
        assert audio.waveform.equal(samples[:, round(start * 48_000) : end].float()), (start, stop)


async def test_a_range_far_behind_the_first_of_two_joined_files(media: MediaLibrary) -> None:
    """Where a seek would go by the first one's timestamps."""
    data, samples = parts(media, "flac", 14.0, 13.0)
    audio = await aioaudio.load(data, start_seconds=20.0, stop_seconds=21.0)
    assert audio.waveform.equal(samples[:, 20 * 48_000 : 21 * 48_000].float())


async def test_joined_files_may_have_forms_of_their_own(media: MediaLibrary) -> None:
    first = media.make("flac", sample_format="s24")
    second = media.make("flac", sample_rate=24_000, channels=2, seconds=1.0)
    data = first.path.read_bytes() + second.path.read_bytes()
    audio = await aioaudio.load(data)
    assert (audio.sample_rate, audio.num_channels, audio.num_samples) == (48_000, 1, 3 * 48_000)
    assert audio.waveform[:, :96_000].equal(first.samples.float())
    assert (await aioaudio.info(data, exact=True)).num_samples == audio.num_samples


@pytest.mark.parametrize("kind", KINDS)
async def test_the_last_of_joined_files_cut_off_is_truncated(kind: str, media: MediaLibrary) -> None:
    data, samples = parts(media, kind, 2.0, 2.0)
    for start in (0.0, 3.9):
        with pytest.raises(aioaudio.DamagedAudioError) as caught:
            await aioaudio.load(data[: len(data) * 9 // 10], start_seconds=start)
        assert "truncated" in [damage.kind for damage in caught.value.damage]
    audio = await aioaudio.load(data[: len(data) * 9 // 10], stop_seconds=2.5)
    assert audio.waveform.equal(samples[:, : 48_000 * 5 // 2].float())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tail", [ID3V1, ape(200), ape(200) + ID3V1, ID3V1 + ape(100)])
async def test_tags_behind_the_audio_are_no_junk(kind: str, tail: bytes, media: MediaLibrary) -> None:
    data, _ = parts(media, kind, 1.0)
    for options in ({}, {"verify": True}, {"start_seconds": 0.5}, {"sample_rate": 16_000}):
        plain = await aioaudio.load(data, **options)
        tagged = await aioaudio.load(data + tail, **options)
        assert tagged.damage == ()
        assert tagged.verified == plain.verified
        assert tagged.waveform.equal(plain.waveform)
    assert (await aioaudio.load(data + bytes([1, 2, 3]) * 99)).damage[0].kind == "junk"


@pytest.mark.parametrize("first", [1, 5, 20])
async def test_a_flac_cut_out_of_another_has_no_length_in_its_header(first: int, media: MediaLibrary) -> None:
    """The frames from one on behind the first one's header, as a tool makes it that copies packets."""
    made = media.make("flac", seconds=4.0)
    data = made.path.read_bytes()
    with av.open(str(made.path)) as container:
        packets = [bytes(packet) for packet in container.demux(audio=0) if packet.size]
    start = first * block_samples(data)
    copied = data[: data.index(packets[0])] + b"".join(packets[first:])
    audio = await aioaudio.load(copied)
    assert audio.waveform.equal(made.samples[:, start:].float())
    assert audio.damage == ()
    info = await aioaudio.info(copied, exact=True)
    assert info.num_samples == audio.num_samples
    part = await aioaudio.load(copied, start_seconds=0.5, stop_seconds=1.5)
    assert part.waveform.equal(audio.waveform[:, 24_000:72_000])
    checked = await aioaudio.load(copied, verify=True)
    assert checked.waveform.equal(audio.waveform)
    assert checked.verified == "crc"


def block_samples(data: bytes) -> int:
    """Samples of a block, as STREAMINFO says."""
    return int.from_bytes(data[8:10], "big")


@pytest.mark.parametrize("lengths", [(14, 13), (13, 30), (15, 15)])
async def test_a_seek_into_joined_files_finds_the_right_one(lengths: tuple[int, int], media: MediaLibrary) -> None:
    """Their timestamps begin anew with each."""
    data, samples = parts(media, "flac", *lengths)
    for start in (10, 12, lengths[0], sum(lengths) - 2):
        audio = await aioaudio.load(data, start_seconds=start, stop_seconds=start + 0.5)
        assert audio.waveform.equal(samples[:, start * 48_000 : start * 48_000 + 24_000].float())


async def test_frames_run_through_one_file_and_not_through_joined_ones(media: MediaLibrary) -> None:
    data, other = (media.make("flac", seconds=20.0, seed=seed).path.read_bytes() for seed in (0, 1))

    def is_one(data: bytes) -> bool:
        facts, window = known(data), Window(CountingBytes(data), memoryview(data)[:4096])
        assert facts.frames_at is not None
        assert facts.num_samples is not None
        return run_through(window, facts.frames_at, facts.num_samples, facts.frame_samples)

    assert is_one(data)
    assert is_one(data + ID3V1)
    for joined in (data + data, data + other, data + data + data, data + other[: len(other) // 2], data[:-20_000]):
        assert not is_one(joined)
