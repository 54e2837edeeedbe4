"""What is cut off shows by the sizes that a container promises, in formats whose codec only FFmpeg reads."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable

import av
import numpy as np
import pytest
import soundfile
from coded_files import VORBIS, pages, rewritten
from media import MediaLibrary
from pcm_files import CountingBytes, chunk, riff
from signals import make_signal

import aioaudio
from aioaudio.decode.headers import missing

SPEECH = make_signal("speech", 16_000, 8_000, 1, 0)


def by_ffmpeg(codec: str, muxer: str, sample_format: str = "s16", *, rate: int = 48_000, **options: str) -> bytes:
    """Two seconds of noise."""
    data = io.BytesIO()
    with av.open(data, "w", format=muxer, options=options) as container:
        stream = container.add_stream(codec, rate=rate, layout="mono", format=sample_format)
        samples = np.random.default_rng(0).normal(0, 0.1, (1, 2 * rate))
        if sample_format.startswith("flt"):
            array = samples.astype(np.float32)
        elif sample_format.startswith("u8"):
            array = (samples * 127 + 128).astype(np.uint8)
        else:
            array = (samples * 32_767).astype(np.int16)
        for start in range(0, 2 * rate, 4096):
            block = np.ascontiguousarray(array[:, start : start + 4096])
            frame = av.AudioFrame.from_ndarray(block, format=sample_format, layout="mono")
            frame.sample_rate, frame.pts = rate, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return data.getvalue()


def by_libsndfile(container: str, subtype: str, samples: np.ndarray = SPEECH) -> bytes:
    data = io.BytesIO()
    soundfile.write(data, samples.T, 8_000, format=container, subtype=subtype)
    return data.getvalue()


def voc(samples: bytes, *blocks: bytes) -> bytes:
    """A Creative Voice file of 8-bit samples at 8 kHz."""
    head = b"Creative Voice File\x1a" + struct.pack("<HHH", 26, 0x010A, 0x1129)
    sound = b"\x01" + (len(samples) + 2).to_bytes(3, "little") + bytes([131, 0]) + samples
    return head + sound + b"".join(blocks) + b"\0"


def sphere(samples: bytes) -> bytes:
    fields = f"sample_count -i {len(samples) // 2}\nsample_n_bytes -i 2\nchannel_count -i 1\n"
    fields += "sample_byte_format -s2 01\nsample_rate -i 8000\nsample_coding -s3 pcm\nend_head\n"
    return f"NIST_1A\n   1024\n{fields}".encode().ljust(1024) + samples


def svx(samples: bytes) -> bytes:
    """An IFF file of 8-bit samples at 8 kHz."""
    header = chunk(b"VHDR", struct.pack(">IIIHBBI", len(samples), 0, 0, 8_000, 1, 0, 0x10000), byte_order=">")
    body = b"8SVX" + header + chunk(b"BODY", samples, byte_order=">")
    return b"FORM" + struct.pack(">I", len(body)) + body


def sox(samples: bytes) -> bytes:
    """SoX's own format, of 32-bit samples at 8 kHz."""
    return b".SoX" + struct.pack("<IQdII", 28, len(samples) // 4, 8_000.0, 1, 0) + samples


def noise(num_bytes: int) -> bytes:
    return random.Random(1).randbytes(num_bytes)


MAKERS: dict[str, Callable[[], bytes]] = {
    "mp3 in wav": lambda: by_ffmpeg("libmp3lame", "wav", "s16p"),
    "ima adpcm in wav": lambda: by_ffmpeg("adpcm_ima_wav", "wav", "s16p"),
    "ms adpcm in wav": lambda: by_ffmpeg("adpcm_ms", "wav"),
    "ms adpcm in w64": lambda: by_ffmpeg("adpcm_ms", "w64"),
    "g726 in wav": lambda: by_ffmpeg("g726", "wav", rate=8_000),
    "g722 in wav": lambda: by_ffmpeg("adpcm_g722", "wav", rate=16_000),
    "gsm in wav": lambda: by_libsndfile("WAV", "GSM610"),
    "gsm in aiff": lambda: by_libsndfile("AIFF", "GSM610"),
    "ima adpcm in aiff": lambda: by_ffmpeg("adpcm_ima_qt", "aiff", "s16p"),
    "g721 in au": lambda: by_libsndfile("AU", "G721_32"),
    "pcm in avi": lambda: by_ffmpeg("pcm_s16le", "avi"),
    "mp3 in avi": lambda: by_ffmpeg("libmp3lame", "avi", "s16p"),
    "pcm in caf": lambda: by_ffmpeg("pcm_s16be", "caf"),
    "mp3 in flv": lambda: by_ffmpeg("libmp3lame", "flv", "s16p", rate=44_100),
    "aac in flv": lambda: by_ffmpeg("aac", "flv", "fltp"),
    "adpcm in flv": lambda: by_ffmpeg("adpcm_swf", "flv", rate=22_050),
    "opus in webm": lambda: by_ffmpeg("libopus", "webm", "flt"),
    "aac in pieces": lambda: by_ffmpeg("aac", "mp4", "fltp", movflags="frag_keyframe+empty_moov"),
    "sox": lambda: sox(noise(64_000)),
    "8svx": lambda: svx(noise(16_000)),
    "voc": lambda: voc(noise(16_000)),
    "voc of two blocks": lambda: voc(noise(8_000), b"\x02" + (8_000).to_bytes(3, "little") + noise(8_000)),
    "sphere": lambda: sphere(noise(32_000)),
}


@pytest.fixture(params=MAKERS)
def whole(request: pytest.FixtureRequest) -> bytes:
    return MAKERS[request.param]()


async def test_a_whole_file_is_not_damaged(whole: bytes) -> None:
    assert (await aioaudio.load(whole)).damage == ()
    assert missing(CountingBytes(whole), memoryview(whole)[:4096]) == ()


async def test_a_file_cut_off_anywhere_behind_its_middle_is_truncated(whole: bytes) -> None:
    num_samples = (await aioaudio.load(whole)).num_samples
    rng = random.Random(2)
    for stop in [rng.randrange(len(whole) // 2, len(whole) * 9 // 10) for _ in range(6)]:
        with pytest.raises(aioaudio.DamagedAudioError) as caught:
            await aioaudio.load(whole[:stop])
        audio = caught.value.audio
        assert audio is not None
        assert 0 < audio.num_samples < num_samples
        last = caught.value.damage[-1]
        assert (last.kind, last.at_seconds) == ("truncated", audio.duration_seconds)


async def test_a_range_before_the_cut_is_not_damaged(whole: bytes) -> None:
    expected = await aioaudio.load(whole, start_seconds=0.1, stop_seconds=0.5)
    audio = await aioaudio.load(whole[: len(whole) * 3 // 4], start_seconds=0.1, stop_seconds=0.5)
    assert audio.damage == ()
    assert audio.waveform.equal(expected.waveform)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x80000000])
async def test_a_size_that_was_never_filled_in_promises_nothing(size: int) -> None:
    data = MAKERS["ms adpcm in wav"]()
    at = data.index(b"data") + 4
    audio = await aioaudio.load(data[:at] + struct.pack("<I", size) + data[at + 4 :])
    assert audio.damage == ()
    assert audio.num_samples >= 96_000


async def test_a_list_of_tags_that_is_cut_off_is_no_audio() -> None:
    data = MAKERS["ms adpcm in wav"]() + chunk(b"LIST", b"INFOICMT" + struct.pack("<I", 400) + b"x" * 400)
    assert (await aioaudio.load(data[:-100])).damage == ()


async def test_an_ogg_file_of_another_codec_is_walked_over() -> None:
    """Speex, by the pages of Vorbis with a first packet that our parsers do not know."""
    data = rewritten(VORBIS)
    renamed = rewritten(data.replace(b"\x01vorbis", b"Speex  ", 1))
    assert missing(CountingBytes(renamed), memoryview(renamed)[:4096]) == ()
    cut = b"".join(pages(renamed)[:-1])
    (damage,) = missing(CountingBytes(cut), memoryview(cut)[:4096])
    assert (damage.kind, damage.at_seconds) == ("truncated", None)


async def test_a_name_for_the_format_changes_nothing(media: MediaLibrary) -> None:
    for kind, name in (("wav", "wav"), ("mp3", "mp3"), ("flac", "flac"), ("vorbis", "ogg")):
        data = media.make(kind).path.read_bytes()
        plain, named = await aioaudio.load(data), await aioaudio.load(data, format=name)
        assert plain.waveform.equal(named.waveform)
        with pytest.raises(aioaudio.DamagedAudioError):
            await aioaudio.load(data[: len(data) * 2 // 3], format=name)


@pytest.mark.parametrize(("container", "subtype"), [("WAV", "GSM610"), ("W64", "GSM610"), ("WAV", "MS_ADPCM")])
@pytest.mark.parametrize("num_samples", [8_003, 16_000])
async def test_blocks_are_cut_to_the_number_of_samples_that_the_file_tells(
    container: str, subtype: str, num_samples: int
) -> None:
    data = by_libsndfile(container, subtype, SPEECH[:, :num_samples])
    info, audio = await aioaudio.info(data), await aioaudio.load(data)
    assert info.num_samples == audio.num_samples == num_samples
    assert audio.damage == ()


async def test_a_pad_byte_behind_gsm_is_nothing_to_speak_of() -> None:
    data = by_libsndfile("AIFF", "GSM610", SPEECH[:, :8_000])
    assert (await aioaudio.load(data)).damage == ()


async def test_headerless_gsm_cut_inside_a_frame_is_damaged() -> None:
    data = by_libsndfile("RAW", "GSM610")
    assert (await aioaudio.load(data, format="gsm")).num_samples == 100 * 160
    assert (await aioaudio.load(data[:-33], format="gsm")).num_samples == 99 * 160
    with pytest.raises(aioaudio.DamagedAudioError) as caught:
        await aioaudio.load(data[:-20], format="gsm")
    assert [damage.kind for damage in caught.value.damage] == ["truncated"]


async def test_what_ffmpeg_takes_for_another_codec_is_refused() -> None:
    for subtype in ("NMS_ADPCM_16", "NMS_ADPCM_24", "NMS_ADPCM_32"):
        with pytest.raises(aioaudio.UnsupportedAudioError, match="NMS ADPCM"):
            await aioaudio.load(by_libsndfile("WAV", subtype))


@pytest.mark.parametrize("num_samples", [1, 1_000, 4_095, 4_097, 8_191, 12_345])
async def test_alac_in_caf_has_the_valid_frames_of_its_packet_table(num_samples: int) -> None:
    samples = SPEECH[:, :num_samples]
    data = by_libsndfile("CAF", "ALAC_16", samples)
    info, audio = await aioaudio.info(data), await aioaudio.load(data)
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    assert info.num_samples == audio.num_samples == num_samples
    assert np.array_equal(audio.waveform.numpy(), expected.T)
    part = await aioaudio.load(data, start_seconds=num_samples // 2 / 8_000, stop_seconds=9.0)
    assert part.waveform.equal(audio.waveform[:, num_samples // 2 :])


def test_headers_of_nothing_end() -> None:
    """Whatever the sizes say, they are read in bounded time and raise nothing."""
    rng = random.Random(3)
    for maker in MAKERS.values():
        data = maker()
        for _ in range(40):
            broken = bytearray(data[: rng.randrange(4, 300)])
            for _ in range(rng.randrange(6)):
                broken[rng.randrange(4, len(broken) + 1) - 1] = rng.randrange(256)
            missing(CountingBytes(bytes(broken)), memoryview(bytes(broken))[:4096])
    file = riff(chunk(b"data", b"", size=5), magic=b"RF64")
    assert missing(CountingBytes(file), memoryview(file))[0].kind == "truncated"
