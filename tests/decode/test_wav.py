"""The engine for plain PCM gives, to the bit, what FFmpeg gives, and reads no more than it needs."""

from __future__ import annotations

import io
import json
import math
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st
from pcm_files import CountingBytes, ffmpeg_decode, load, random_samples, wav_file

import aioaudio
from aioaudio.decode import wav
from aioaudio.decode.facts import Facts, Pcm
from aioaudio.decode.headers import pcm
from aioaudio.decode.job import Stopped
from aioaudio.decode.mix import remix
from aioaudio.decode.samples import assemble, working_dtype
from aioaudio.encoded import LocalFile
from aioaudio.errors import AudioTimeout, CorruptAudioError, FetchError
from aioaudio.options import DTYPES, SAMPLE_FORMATS, LoadOptions
from aioaudio.workers import Stop


def decode_raw(
    data: bytes, sample_format: str, channels_in: int = 1, start: int = 0, stop: int = 2**62, **options: Any
) -> torch.Tensor:
    """Headerless PCM by the engine."""
    facts = Facts(
        container=sample_format,
        codec=f"pcm_{sample_format}",
        sample_rate=16_000,
        num_channels=channels_in,
        channel_layout={1: "mono", 2: "stereo", 6: "5.1"}.get(channels_in),
        pcm=Pcm(sample_format, 0, 8 * SAMPLE_FORMATS[sample_format]),
    )
    return wav.decode(CountingBytes(data), facts, start, stop, LoadOptions(**options))


@pytest.mark.parametrize("num_channels", [1, 2, 3, 6, 16])
@pytest.mark.parametrize("sample_format", SAMPLE_FORMATS)
def test_every_sample_format_decodes_as_ffmpeg_decodes_it(sample_format: str, num_channels: int) -> None:
    data = random_samples(sample_format, 5_000 * num_channels)
    for dtype in (torch.float32, torch.float64):
        expected = ffmpeg_decode(data, dtype, sample_format, ch_layout=f"{num_channels}C", sample_rate="16000")
        assert torch.equal(decode_raw(data, sample_format, num_channels, dtype=dtype), expected)


@pytest.mark.parametrize("sample_format", ["alaw", "mulaw", "u8", "s8"])
def test_all_256_codes_of_a_byte_decode_as_ffmpeg_decodes_them(sample_format: str) -> None:
    expected = ffmpeg_decode(bytes(range(256)), torch.float32, sample_format, ch_layout="mono")
    assert torch.equal(decode_raw(bytes(range(256)), sample_format), expected)


@pytest.mark.parametrize(
    ("file_format", "endian", "subtypes"),
    [
        ("WAV", "FILE", "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW"),
        ("WAVEX", "FILE", "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW"),
        ("WAV", "BIG", "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE"),
        ("RF64", "FILE", "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW"),
        ("W64", "FILE", "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW"),
        ("AIFF", "FILE", "PCM_S8 PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW"),
        ("AIFF", "LITTLE", "PCM_16"),
        ("AU", "FILE", "PCM_S8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW"),
    ],
)
def test_what_soundfile_writes_is_read_as_soundfile_reads_it(file_format: str, endian: str, subtypes: str) -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, (4_321, 3))
    for subtype in subtypes.split():
        buffer = io.BytesIO()
        soundfile.write(buffer, samples, 22_050, subtype, endian, file_format)
        expected, _ = soundfile.read(io.BytesIO(buffer.getvalue()), dtype="float64")
        facts, waveform = load(buffer.getvalue(), dtype=torch.float64)
        assert (facts.sample_rate, facts.damage) == (22_050, ())
        assert np.array_equal(waveform.numpy(), expected.T), subtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sample_format", SAMPLE_FORMATS)
def test_shortcuts_equal_the_general_way_over_floats(sample_format: str, dtype: torch.dtype) -> None:
    for num_channels, wanted in (
        (1, {}),
        (1, {"num_channels": 3}),
        (2, {}),
        (2, {"num_channels": 1}),
        (2, {"channels": (1,)}),
        (6, {"num_channels": 1}),
        (6, {"num_channels": 2}),
        (6, {"channels": (5, 0, 5)}),
    ):
        data = random_samples(sample_format, 999 * num_channels)
        options = LoadOptions(dtype=dtype, **wanted)
        floats = decode_raw(data, sample_format, num_channels, dtype=working_dtype(dtype))
        layout = {1: "mono", 2: "stereo", 6: "5.1"}[num_channels]
        mixed = remix(floats, layout, options)
        expected = assemble(deque([mixed.numpy()]), len(mixed), LoadOptions(dtype=dtype))
        waveform = decode_raw(data, sample_format, num_channels, dtype=dtype, **wanted)
        assert waveform.dtype == dtype
        assert waveform.is_contiguous()
        assert torch.equal(waveform, expected)


@pytest.mark.parametrize(
    ("sample_format", "values", "dtype", "expected"),
    [
        ("u1", [0, 128, 255], torch.int16, [-(2**15), 0, 127 << 8]),
        ("u1", [0, 128, 255], torch.int32, [-(2**31), 0, 127 << 24]),
        ("<i2", [-(2**15), 1, 2**15 - 1], torch.int16, [-(2**15), 1, 2**15 - 1]),
        ("<i2", [-(2**15), 1, 2**15 - 1], torch.int32, [-(2**31), 2**16, 2**31 - 2**16]),
        ("<i4", [-(2**31), 1, 2**31 - 1], torch.int32, [-(2**31), 1, 2**31 - 1]),
        # Halves go to the even side; the top, which would round up to 32768, stays in range.
        ("<i4", [-(2**31), 2**15, 3 * 2**15, 2**31 - 1], torch.int16, [-(2**15), 0, 2, 2**15 - 1]),
        ("<f4", [-1, 1, 2, -2, 2.5 / 2**15, math.nan], torch.int16, [-(2**15), 2**15 - 1, 2**15 - 1, -(2**15), 2, 0]),
        ("<f8", [-1, 1, math.inf, 1.5 / 2**31, math.nan], torch.int32, [-(2**31), 2**31 - 1, 2**31 - 1, 2, 0]),
        ("<f4", [math.inf, -math.inf, 3.5], torch.float32, [math.inf, -math.inf, 3.5]),
        ("<f8", [1e300, -1e300, 1 + 2**-30], torch.float32, [math.inf, -math.inf, 1]),
        ("<i4", [2**31 - 1, -(2**31)], torch.float32, [1, -1]),
        ("<i4", [2**31 - 1], torch.float64, [1 - 2**-31]),
    ],
)
def test_the_ends_of_the_ranges_convert(
    sample_format: str, values: list[float], dtype: torch.dtype, expected: list[float]
) -> None:
    name = {"u1": "u8", "<i2": "s16le", "<i4": "s32le", "<f4": "f32le", "<f8": "f64le"}[sample_format]
    waveform = decode_raw(np.array(values, sample_format).tobytes(), name, dtype=dtype)
    assert waveform.tolist() == [expected]


@pytest.mark.parametrize(("sample_format", "order"), [("s24le", "little"), ("s24be", "big")])
def test_24_bit_samples_keep_their_sign_and_every_bit(sample_format: str, order: Any) -> None:
    values = [-(2**23), -1, 0, 1, 0x123456, 2**23 - 1]
    data = b"".join(value.to_bytes(3, order, signed=True) for value in values)
    assert decode_raw(data, sample_format, dtype=torch.int32).tolist() == [[value << 8 for value in values]]
    assert decode_raw(data, sample_format).tolist() == [[value / 2**23 for value in values]]


@given(
    sample_format=st.sampled_from(sorted(SAMPLE_FORMATS)),
    num_channels=st.integers(1, 5),
    bounds=st.tuples(st.integers(0, 120), st.integers(0, 120)).map(sorted),
)
def test_a_range_is_a_slice_and_touches_no_other_byte(sample_format: str, num_channels: int, bounds: list[int]) -> None:
    start, stop = bounds
    offset, frame_bytes = 44, SAMPLE_FORMATS[sample_format] * num_channels
    data = bytes(offset) + random_samples(sample_format, 100 * num_channels) + bytes(50)
    facts = Facts(
        container="wav",
        codec=f"pcm_{sample_format}",
        sample_rate=8_000,
        num_channels=num_channels,
        num_samples=100,
        pcm=Pcm(sample_format, offset, 8),
    )
    whole = wav.decode(CountingBytes(data), facts, 0, 100, LoadOptions())
    file = CountingBytes(data)
    assert torch.equal(wav.decode(file, facts, start, stop, LoadOptions()), whole[:, start:stop])
    wanted = range(offset + start * frame_bytes, offset + min(stop, 100) * frame_bytes)
    assert all(first >= wanted.start and last <= wanted.stop for first, last in file.reads)


@pytest.mark.parametrize("wanted", [{}, {"num_channels": 1}, {"num_channels": 2}, {"dtype": torch.int16}], ids=str)
def test_blocks_join_without_a_seam(monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any]) -> None:
    data = random_samples("s24le", 6 * 1_000)
    whole = decode_raw(data, "s24le", 6, **wanted)
    monkeypatch.setattr(wav, "_BLOCK_SAMPLES", 6 * 77)
    assert torch.equal(decode_raw(data, "s24le", 6, **wanted), whole)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_result_is_written_into_out_whatever_its_strides(dtype: torch.dtype) -> None:
    data = random_samples("s16le", 2 * 500)
    expected = decode_raw(data, "s16le", 2, dtype=dtype)
    memory = torch.zeros((1_000, 5), dtype=dtype)
    out = memory[::2, 1:3].T
    assert decode_raw(data, "s16le", 2, dtype=dtype, out=out) is out
    assert torch.equal(out, expected)
    assert not memory[1::2].any()
    assert not memory[:, 3:].any()


def test_out_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="out has the shape"):
        decode_raw(bytes(200), "s16le", out=torch.zeros((1, 99)))


def test_a_channel_that_the_source_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="channels"):
        decode_raw(bytes(200), "s16le", 2, channels=(2,))


class ShrunkBytes(CountingBytes):
    """A file that became shorter after it was opened, and then grew again."""

    def __init__(self, data: bytes, end: int) -> None:
        super().__init__(data)
        self._end = end

    def read(self, num_bytes: int, offset: int) -> memoryview:
        view = super().read(num_bytes, offset)
        return view[: self._end - offset] if offset <= self._end else view


def test_a_file_that_shrinks_while_it_is_read_gives_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_samples("s16le", 2 * 1_000)
    monkeypatch.setattr(wav, "_BLOCK_SAMPLES", 2 * 200)
    facts = Facts(
        container="s16le",
        codec="pcm_s16le",
        sample_rate=8_000,
        num_channels=2,
        num_samples=1_000,
        pcm=Pcm("s16le", 0, 16),
    )
    waveform = wav.decode(ShrunkBytes(data, 4 * 500 + 3), facts, 0, 1_000, LoadOptions())
    assert waveform.is_contiguous()
    assert torch.equal(waveform, decode_raw(data, "s16le", 2)[:, :500])


def test_a_read_error_is_an_error_and_never_a_short_result() -> None:
    data = wav_file(random_samples("s16le", 10_000))
    file = CountingBytes(data, fail_at=len(data) - 10)
    facts = pcm.parse(file, memoryview(data)[:4096])
    assert facts is not None
    with pytest.raises(FetchError):
        wav.decode(file, facts, 0, 10_000, LoadOptions())


@pytest.mark.parametrize("error", [Stopped, AudioTimeout])
def test_it_stops_between_blocks(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Stop()

    class StoppedInTheThirdBlock(CountingBytes):
        def read(self, num_bytes: int, offset: int) -> memoryview:
            if len(self.reads) == 2:
                stop.is_set, stop.deadline = error is Stopped, 0.0
            return super().read(num_bytes, offset)

    file = StoppedInTheThirdBlock(random_samples("s16le", 10_000))
    facts = Facts(container="s16le", codec="pcm_s16le", sample_rate=8_000, num_channels=1, pcm=Pcm("s16le", 0, 16))
    monkeypatch.setattr(wav, "_BLOCK_SAMPLES", 1_000)
    with pytest.raises(error):
        wav.decode(file, facts, 0, 10_000, LoadOptions(), stop)
    assert len(file.reads) == 3


def test_odd_files_give_what_they_hold(shared: Path, odd: Mapping[str, Mapping[str, Any]]) -> None:
    left_to_ffmpeg = {"mp3in.wav", "w_adpcm_ima_wav.wav", "zero.wav"}
    for name, expected in odd.items():
        path = shared / "odd" / name
        if path.suffix not in (".wav", ".aiff"):
            continue
        if name in left_to_ffmpeg:
            with LocalFile(path).open() as file:
                assert pcm.parse(file, file.read(4096, 0)) is None
        elif "error" in expected:
            with pytest.raises(CorruptAudioError):
                load(LocalFile(path))
        else:
            facts, waveform = load(LocalFile(path))
            assert tuple(waveform.shape) == (expected["num_channels"], expected["num_samples"]), name
            assert facts.sample_rate == expected["sample_rate"]
            assert facts.damage == ()


def test_odd_variants_of_one_sound_hold_the_same_samples(shared: Path) -> None:
    _, base = load(LocalFile(shared / "odd" / "base.wav"))
    for name in (
        "data0.wav",
        "extensible16.wav",
        "id3chunk.wav",
        "list_odd_nopad.wav",
        "list_odd_pad.wav",
        "pipe_ffff.wav",
        "rf64.wav",
        "trail_chunk.wav",
        "ünï 音.wav",
    ):
        assert torch.equal(load(LocalFile(shared / "odd" / name))[1], base), name


def test_torchcodec_files_equal_the_tensors_of_another_decoder(shared: Path) -> None:
    folder = shared / "audio" / "torchcodec"
    for name in ("sine_mono_s16.wav", "sine_mono_s32.wav"):
        frames = torch.load(folder / f"{name}.stream0.all_frames.pt", weights_only=True)
        expected = frames if isinstance(frames, torch.Tensor) else torch.cat(frames, dim=1)
        _, waveform = load(LocalFile(folder / name))
        assert torch.equal(waveform, expected)


def test_torchcodec_files_have_the_length_of_their_frame_tables(shared: Path) -> None:
    for table in sorted((shared / "audio" / "torchcodec").glob("*.wav.*.json")):
        last = json.loads(table.read_text("utf-8"))[-1]
        facts, waveform = load(LocalFile(table.with_name(table.name.split(".stream0")[0])))
        end = float(last["pts_time"]) + float(last["duration_time"])
        assert waveform.shape[1] == round(end * facts.sample_rate)


def test_real_files_equal_what_ffmpeg_gives(shared: Path) -> None:
    paths = sorted((shared / "audio").glob("torchcodec/*.wav")) + sorted((shared / "audio").glob("ljspeech/wavs/*.wav"))
    assert len(paths) > 20
    for path in paths:
        _, waveform = load(LocalFile(path))
        assert torch.equal(waveform, ffmpeg_decode(path.read_bytes(), torch.float32)), path.name


@pytest.mark.parametrize("num_samples", [601, 5_001])
def test_what_follows_the_samples_is_not_resampled_with_them(num_samples: int) -> None:
    data = random_samples("alaw", num_samples)  # an odd number of bytes, so that one of padding follows
    wanted = aioaudio.sync.load(data, format=aioaudio.RawPCM("alaw", 8_000), sample_rate=16_000).waveform
    for tail in (b"", b"LIST\xc8\0\0\0INFO" + bytes(196)):
        file = wav_file(data, "alaw", 1, tail)
        rate = aioaudio.sync.info(file).sample_rate
        assert aioaudio.sync.load(file, sample_rate=2 * rate).waveform.equal(wanted)
