"""The headers of plain PCM: what they say is found whatever surrounds it, and none of it is trusted."""

from __future__ import annotations

import struct

import av
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pcm_files import (
    GUID_TAIL,
    CountingBytes,
    aiff_file,
    chunk,
    common_chunk,
    extensible_format,
    ffmpeg_decode,
    load,
    parse,
    random_samples,
    riff,
    sound_chunk,
    w64_chunk,
    w64_file,
    wav_file,
    wave_format,
)

from aioaudio.decode import wav
from aioaudio.decode.headers import pcm
from aioaudio.decode.headers.chunks import MAX_CHUNKS
from aioaudio.errors import CorruptAudioError
from aioaudio.options import LoadOptions

DATA = random_samples("s16le", 1_000)
SWAPPED = np.frombuffer(DATA, "<i2").astype(">i2").tobytes()
SAMPLES = torch.from_numpy(np.frombuffer(DATA, "<i2").reshape(1, -1).copy())

# In the order of the bits of WAVEFORMATEXTENSIBLE's mask.
SPEAKERS = ("FL", "FR", "FC", "LFE", "BL", "BR", "FLC", "FRC", "BC", "SL", "SR")


def assert_holds_the_samples(data: bytes) -> None:
    facts, waveform = load(data, dtype=torch.int16)
    assert facts.damage == ()
    assert torch.equal(waveform, SAMPLES)


# What lies before and after the samples


@pytest.mark.parametrize(
    "extra",
    [
        chunk(b"JUNK", bytes(28)),
        chunk(b"LIST", b"INFOISFT\5\0\0\0abcde"),
        chunk(b"LIST", b"INFOISFT\5\0\0\0abcde", pad=False),
        chunk(b"id3 ", b"ID3\4" + bytes(10_001)),
        chunk(b"bext", bytes(602)) + chunk(b"fact", bytes(4)),
        chunk(b"odd1", bytes(3)) + chunk(b"odd2", bytes(5)),
        chunk(b"odd1", b"abc\xff", size=3, pad=False),  # a pad byte that is not 0
        chunk(b"zero", b"") * 50,
    ],
    ids=["junk", "odd", "odd-without-pad", "long-id3", "bext-fact", "two-odd", "pad-of-ff", "empty"],
)
def test_chunks_around_the_samples_do_not_matter(extra: bytes) -> None:
    data = chunk(b"data", DATA)
    assert_holds_the_samples(riff(wave_format(), extra, data))
    assert_holds_the_samples(riff(extra, wave_format(), data))
    assert_holds_the_samples(riff(wave_format(), data, extra))
    assert_holds_the_samples(riff(data, wave_format(), extra))


@given(
    before=st.lists(st.tuples(st.sampled_from([b"JUNK", b"abcd", b"PAD "]), st.binary(max_size=40)), max_size=6),
    sample_format=st.sampled_from(["u8", "s16le", "s24le", "s32le", "f32le", "f64le", "alaw", "mulaw"]),
    num_channels=st.integers(1, 16),
    num_frames=st.integers(1, 40),
)
def test_well_formed_files_give_what_ffmpeg_gives(
    before: list[tuple[bytes, bytes]], sample_format: str, num_channels: int, num_frames: int
) -> None:
    samples = random_samples(sample_format, num_frames * num_channels)
    data = wav_file(samples, sample_format, num_channels, *(chunk(name, body) for name, body in before))
    facts, waveform = load(data)
    assert facts.codec == f"pcm_{sample_format}"
    assert torch.equal(waveform, ffmpeg_decode(data, torch.float32))


@given(
    tag=st.sampled_from([1, 3, 6, 7]),
    num_channels=st.integers(1, 3),
    width=st.integers(1, 8),
    spare_bits=st.integers(0, 8),
    unused_bits=st.none() | st.integers(0, 9),
)
def test_a_format_that_is_understood_is_what_ffmpeg_takes_it_for(
    tag: int, num_channels: int, width: int, spare_bits: int, unused_bits: int | None
) -> None:
    bits = 8 * width - spare_bits
    fields = {"num_channels": num_channels, "bits": bits, "block_align": width * num_channels}
    if unused_bits is None:
        fmt = wave_format(tag, **fields)
    else:
        # Where the bits in use would fit a smaller container, FFmpeg takes them to be in one.
        valid_bits = bits if tag == 3 else max(bits - unused_bits, 8 * width - 7)
        fmt = wave_format(0xFFFE, **fields, more=struct.pack("<HHII", 22, valid_bits, 0, tag) + GUID_TAIL)
    data = riff(fmt, chunk(b"data", DATA))
    if parse(data) is not None:
        assert np.array_equal(load(data)[1], ffmpeg_decode(data, torch.float32), equal_nan=True)


def test_the_plainest_file_is_read_from_its_first_bytes_alone() -> None:
    data = wav_file(DATA)
    file = CountingBytes(data)
    assert pcm.parse(file, memoryview(data)[:4096]) is not None
    assert file.reads == []


# Sizes


# What FFmpeg, SoX, arecord and recorders that died leave as the size of the samples.
@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0xFFFFFFDB, 0x7FFFFFFF, 0x7FFFF000, 0x7FFFEFFC, 0x80000000])
def test_a_size_that_was_never_filled_in_means_all_there_is(size: int) -> None:
    assert_holds_the_samples(riff(wave_format(), chunk(b"data", DATA, size=size), size=0))
    assert_holds_the_samples(riff(wave_format(), chunk(b"data", DATA + b"x", size=size, pad=False), size=0))
    rf64 = chunk(b"ds64", struct.pack("<QQQI", 0, 0, 0, 0)), wave_format(), chunk(b"data", DATA, size=size)
    assert_holds_the_samples(riff(*rf64, magic=b"RF64", size=0xFFFFFFFF))


@pytest.mark.parametrize("size", [24, 24 + 2**63 - 1, 2**63 - 1, 2**64 - 1])
def test_a_wave64_size_that_was_never_filled_in_means_all_there_is(size: int) -> None:
    assert_holds_the_samples(w64_file(w64_chunk(b"fmt ", wave_format()[8:]), w64_chunk(b"data", DATA, size=size)))


@pytest.mark.parametrize("size", [0, 0x7F000000, 0x7F000004, 0xFFFFFFFF])
def test_an_aiff_size_that_was_never_filled_in_means_all_there_is(size: int) -> None:
    assert_holds_the_samples(aiff_file(common_chunk(), sound_chunk(SWAPPED, size=size)))


def test_a_size_of_zero_is_meant_where_the_file_ends_where_it_says() -> None:
    tags = chunk(b"LIST", b"INFOISFT\4\0\0\0abcd")
    for data in (
        riff(wave_format(), chunk(b"data", b"")),
        riff(wave_format(), chunk(b"data", b""), tags),
        aiff_file(common_chunk(), sound_chunk(b"")),
        aiff_file(common_chunk(), sound_chunk(b""), chunk(b"NAME", b"silence!", byte_order=">")),
    ):
        facts, waveform = load(data)
        assert waveform.shape == (1, 0)
        assert facts.damage == ()


@pytest.mark.parametrize("missing", [1, 2, 501, 2_000])
def test_a_file_that_ends_early_is_damaged_where_it_ends(missing: int) -> None:
    present = (2_000 - missing) // 2
    cut_files = (
        wav_file(DATA)[:-missing],
        aiff_file(common_chunk(), sound_chunk(SWAPPED))[:-missing],
        w64_file(w64_chunk(b"fmt ", wave_format()[8:]), w64_chunk(b"data", DATA))[:-missing],
    )
    for data in cut_files:
        facts, waveform = load(data, dtype=torch.int16)
        (damage,) = facts.damage
        assert facts.num_samples == 1_000
        assert (damage.kind, damage.at_seconds) == ("truncated", present / 16_000)
        assert torch.equal(waveform, SAMPLES[:, :present])


def test_a_part_of_a_frame_at_the_end_is_no_damage() -> None:
    data = riff(wave_format(num_channels=2), chunk(b"data", DATA + b"abc"))
    for missing in (0, 1, 4):  # the pad byte, and all of the part
        facts, waveform = load(data[: len(data) - missing])
        assert waveform.shape == (2, 500)
        assert facts.damage == ()


def test_more_than_4_gib_from_a_pipe_are_read_to_the_end() -> None:
    data = riff(wave_format(), chunk(b"data", b"", size=0xFFFFFFFF))
    file = CountingBytes(data)
    file.size = 5 * 2**30 + len(data)
    facts = pcm.parse(file, memoryview(data))
    assert facts is not None
    assert facts.num_samples == 5 * 2**29


def test_sizes_beyond_32_bits_come_from_ds64() -> None:
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, 2_000, 0, 0))
    data = riff(sizes, wave_format(), chunk(b"data", DATA, size=0xFFFFFFFF), chunk(b"abcd", b"trailing"), magic=b"RF64")
    assert_holds_the_samples(data)
    assert_holds_the_samples(b"BW64" + data[4:])
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, 6 * 2**32, 0, 0))
    facts = parse(riff(sizes, wave_format(), chunk(b"data", DATA, size=0xFFFFFFFF), magic=b"RF64"))
    assert facts is not None
    assert facts.num_samples == 3 * 2**32
    assert [damage.kind for damage in facts.damage] == ["truncated"]


# Formats


def test_big_endian_wave_is_read_as_such() -> None:
    fmt = wave_format(byte_order=">")
    assert_holds_the_samples(riff(fmt, chunk(b"data", SWAPPED, byte_order=">"), magic=b"RIFX"))


@pytest.mark.parametrize(
    ("compression", "bits", "form", "samples"),
    [
        (b"", 16, b"AIFF", SWAPPED),
        (b"NONE", 16, b"AIFC", SWAPPED),
        (b"twos", 16, b"AIFC", SWAPPED),
        (b"sowt", 16, b"AIFC", DATA),
        (b"NONE", 12, b"AIFC", SWAPPED),
        (b"in32", 16, b"AIFC", np.frombuffer(DATA, "<i2").astype(">i4").__lshift__(16).astype(">i4").tobytes()),
        (b"fl32", 32, b"AIFC", (np.frombuffer(DATA, "<i2") / 2.0**15).astype(">f4").tobytes()),
        (b"FL64", 64, b"AIFC", (np.frombuffer(DATA, "<i2") / 2.0**15).astype(">f8").tobytes()),
    ],
)
def test_aiff_of_every_compression_type(compression: bytes, bits: int, form: bytes, samples: bytes) -> None:
    name = b"\x0enot compressed\0" if compression else b""
    data = aiff_file(common_chunk(1, bits, compression + name), sound_chunk(samples), form=form)
    assert_holds_the_samples(data)
    assert torch.equal(load(data)[1], ffmpeg_decode(data, torch.float32))


@pytest.mark.parametrize("bits", range(1, 33))
def test_aiff_integers_of_every_width_are_what_ffmpeg_takes_them_for(bits: int) -> None:
    data = aiff_file(common_chunk(2, bits), sound_chunk(bytes(range(240))))
    assert torch.equal(load(data)[1], ffmpeg_decode(data, torch.float32))


@pytest.mark.parametrize("compression", [b"raw ", b"in24", b"in32", b"alaw", b"ALAW", b"ulaw", b"ULAW"])
def test_aiff_compression_types_are_what_ffmpeg_takes_them_for(compression: bytes) -> None:
    data = aiff_file(common_chunk(2, 8, compression), sound_chunk(bytes(range(240))), form=b"AIFC")
    assert torch.equal(load(data)[1], ffmpeg_decode(data, torch.float32))


def test_au_with_and_without_a_size() -> None:
    for size in (2_000, 0xFFFFFFFF):
        assert_holds_the_samples(b".snd" + struct.pack(">5I", 28, size, 3, 16_000, 1) + b"note" + SWAPPED)
    assert_holds_the_samples(b".snd" + struct.pack(">5I", 24, 2_000, 3, 16_000, 1) + SWAPPED + b"trailing")


def test_aiff_samples_begin_after_the_offset() -> None:
    assert_holds_the_samples(aiff_file(sound_chunk(SWAPPED, offset=10), common_chunk()))


@pytest.mark.parametrize(
    ("rate", "expected"),
    [("400CFA00", 16_000), ("400EAC44", 44_100), ("400EBB80", 48_000), ("400FBB80", 96_000), ("400BAC448000", 5_513)],
)
def test_aiff_rates_are_rounded_floats(rate: str, expected: int) -> None:
    facts = parse(aiff_file(common_chunk(rate=bytes.fromhex(rate)), sound_chunk(SWAPPED)))
    assert facts is not None
    assert facts.sample_rate == expected


LAYOUTS = (
    *("2.1", "3.0", "3.0(back)", "3.1", "4.0", "4.1", "quad", "quad(side)", "5.0", "5.0(side)", "5.1", "5.1(side)"),
    *("6.0", "6.0(front)", "hexagonal", "6.1", "6.1(back)", "6.1(front)", "7.0", "7.0(front)"),
    *("7.1", "7.1(wide)", "7.1(wide-side)", "octagonal"),
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_that_ffmpeg_names_is_named_so(layout: str) -> None:
    speakers = [channel.name for channel in av.AudioLayout(layout).channels]
    mask = sum(1 << SPEAKERS.index(speaker) for speaker in speakers)
    facts = parse(riff(extensible_format(1, len(speakers), mask=mask), chunk(b"data", DATA)))
    assert facts is not None
    assert facts.channel_layout == layout


@pytest.mark.parametrize(
    ("num_channels", "mask", "expected"),
    [
        (1, 0, "mono"),
        (1, 0x1, "mono"),
        (2, 0x3, "stereo"),
        (2, 0x5, "stereo"),
        (6, 0x3F, "5.1"),
        (6, 0x60F, "5.1(side)"),
        (8, 0x63F, "7.1"),
        (6, 0, None),
        (6, 0x3, None),
    ],
)
def test_the_mask_gives_the_layout(num_channels: int, mask: int, expected: str | None) -> None:
    facts = parse(riff(extensible_format(1, num_channels, mask=mask), chunk(b"data", bytes(480))))
    assert facts is not None
    assert facts.channel_layout == expected


@pytest.mark.parametrize(("num_channels", "expected"), [(1, "mono"), (2, "stereo"), (3, None), (6, None)])
def test_without_a_mask_only_mono_and_stereo_are_known(num_channels: int, expected: str | None) -> None:
    facts = parse(wav_file(bytes(480), "s16le", num_channels))
    assert facts is not None
    assert facts.channel_layout == expected


def test_fewer_bits_than_the_container_fill_its_high_bits() -> None:
    facts, waveform = load(riff(extensible_format(bits=16, valid_bits=12), chunk(b"data", DATA)), dtype=torch.int16)
    assert (facts.bits_per_sample, facts.codec) == (12, "pcm_s16le")
    assert torch.equal(waveform, SAMPLES)
    # FFmpeg takes 24 bits in 32 for floats, or for 24-bit samples without gaps.
    wide = (np.frombuffer(DATA, "<i2").astype("<i4") << 16).tobytes()
    for valid_bits in (20, 24):
        data = riff(extensible_format(bits=32, valid_bits=valid_bits), chunk(b"data", wide))
        assert load(data)[0].bits_per_sample == valid_bits
        assert_holds_the_samples(data)


# What is not for this parser


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        b"RIFF\0\0\0\0AVI LIST",
        b"fLaC" + bytes(100),
        riff(wave_format()),
        riff(chunk(b"data", DATA)),
        riff(wave_format(tag=2, bits=4, block_align=256), chunk(b"data", DATA)),
        riff(wave_format(tag=0x11, bits=4, block_align=256), chunk(b"data", DATA)),
        riff(wave_format(tag=0x55, bits=0, block_align=1), chunk(b"data", DATA)),
        riff(wave_format(bits=0), chunk(b"data", DATA)),
        riff(wave_format(bits=64), chunk(b"data", DATA)),
        riff(wave_format(block_align=3), chunk(b"data", DATA)),
        riff(wave_format(bits=24, block_align=4), chunk(b"data", DATA)),  # 24.0 floats by Audition
        riff(wave_format(bits=32, more=b"\2\0\1\0"), chunk(b"data", DATA)),  # 16.8 floats by Audition
        riff(wave_format(tag=3, bits=16), chunk(b"data", DATA)),
        riff(extensible_format(tail=bytes(12)), chunk(b"data", DATA)),
        riff(extensible_format(1, 4, mask=0xF0000), chunk(b"data", DATA)),
        riff(wave_format(num_channels=2), chunk(b"data", bytes(64) + b"\x72\xf8\x1f\x4e" + DATA)),  # S/PDIF
        riff(wave_format(num_channels=65), chunk(b"data", DATA)),
        riff(wave_format(sample_rate=2**31), chunk(b"data", DATA)),
        aiff_file(common_chunk(compression=b"ima4"), sound_chunk(DATA), form=b"AIFC"),
        aiff_file(common_chunk(3), chunk(b"CHAN", bytes(12), byte_order=">"), sound_chunk(DATA)),
        aiff_file(sound_chunk(DATA)),
        b".snd" + struct.pack(">5I", 24, 2_000, 23, 8_000, 1) + DATA,  # G.722
        w64_file(w64_chunk(b"fmt ", wave_format()[8:]), w64_chunk(b"data", DATA, size=23)),
    ],
)
def test_what_is_not_plain_pcm_is_left_to_ffmpeg(data: bytes) -> None:
    assert parse(data) is None


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (riff(wave_format(num_channels=0), chunk(b"data", DATA)), "0 channels"),
        (riff(wave_format(sample_rate=0), chunk(b"data", DATA)), "sample rate of 0"),
        (aiff_file(common_chunk(0), sound_chunk(SWAPPED)), "0 channels"),
        (aiff_file(common_chunk(rate=bytes(10)), sound_chunk(SWAPPED)), "sample rate of 0"),
        (b".snd" + struct.pack(">5I", 24, 2_000, 3, 8_000, 0) + SWAPPED, "0 channels"),
    ],
)
def test_a_header_that_leaves_nothing_to_decode_says_why(data: bytes, what: str) -> None:
    with pytest.raises(CorruptAudioError) as caught:
        parse(data)
    assert what in caught.value.message


def test_a_block_size_of_zero_is_worked_out() -> None:
    assert_holds_the_samples(riff(wave_format(block_align=0), chunk(b"data", DATA)))


# Hostile input

FILES = (
    wav_file(DATA, "s16le", 1, chunk(b"LIST", b"INFOISFT\5\0\0\0abcde")),
    riff(extensible_format(1, 2, 24, valid_bits=20, mask=3), chunk(b"fact", bytes(4)), chunk(b"data", DATA)),
    riff(chunk(b"ds64", bytes(28)), wave_format(), chunk(b"data", DATA), magic=b"RF64"),
    riff(wave_format(byte_order=">"), chunk(b"data", SWAPPED, byte_order=">"), magic=b"RIFX"),
    w64_file(w64_chunk(b"fmt ", wave_format()[8:]), w64_chunk(b"junk", bytes(9)), w64_chunk(b"data", DATA)),
    aiff_file(common_chunk(), chunk(b"NAME", b"abc", byte_order=">"), sound_chunk(SWAPPED, offset=4)),
    aiff_file(common_chunk(2, 32, b"fl32\0\0"), sound_chunk(SWAPPED), form=b"AIFC"),
    b".snd" + struct.pack(">5I", 28, 2_000, 3, 8_000, 1) + bytes(4) + SWAPPED,
)


@given(
    data=st.sampled_from(FILES),
    changes=st.lists(st.tuples(st.integers(0, 110), st.sampled_from([0, 1, 2, 127, 128, 254, 255])), max_size=8),
    end=st.integers(0, 3_000),
)
def test_no_header_makes_the_engine_fail(data: bytes, changes: list[tuple[int, int]], end: int) -> None:
    mutated = bytearray(data)
    for position, value in changes:
        if position < len(mutated):
            mutated[position] = value
    mutated = mutated[: max(end, 1)]
    file = CountingBytes(bytes(mutated))
    try:
        facts = pcm.parse(file, memoryview(mutated)[:4096])
    except CorruptAudioError:
        return
    if facts is None:
        return
    assert facts.pcm is not None
    assert facts.num_samples is not None
    waveform = wav.decode(file, facts, 0, facts.num_samples, LoadOptions())
    assert waveform.shape[0] == facts.num_channels
    assert waveform.numel() <= len(mutated)
    assert (waveform.shape[1] < facts.num_samples) == bool(facts.damage)


@pytest.mark.parametrize("end", range(60))
def test_a_header_cut_anywhere_is_left_to_ffmpeg_or_has_no_samples(end: int) -> None:
    facts = parse(wav_file(DATA)[:end])
    assert facts is None if end < 44 else facts is not None


@pytest.mark.parametrize(
    "beginning", [b"RIFF\0\0\0\0WAVE", b"FORM\0\0\0\0AIFF", w64_file()], ids=["riff", "aiff", "w64"]
)
def test_the_walk_over_chunks_ends(beginning: bytes) -> None:
    empty = w64_chunk(b"junk", b"") if beginning[:4] == b"riff" else b"junk\0\0\0\0"
    file = CountingBytes(beginning + empty * (2 * MAX_CHUNKS))
    assert pcm.parse(file, file.read(4096, 0)) is None
    assert MAX_CHUNKS // 2 < len(file.reads) <= MAX_CHUNKS + 1
