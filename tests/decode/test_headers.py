"""What the parsers of compressed formats promise is what decoders give, and no bytes lead them astray."""

from __future__ import annotations

import contextlib
import io
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from coded_files import (
    ID3V1,
    MP3,
    MP3_FRAMES,
    OPUS,
    VORBIS,
    ape,
    decode,
    encode,
    id3v2,
    known,
    noise,
    pages,
    pages_serial,
    parse,
    parse_file,
    promise,
    rewritten,
)
from hypothesis import given
from hypothesis import strategies as st
from media import DATA, MediaLibrary
from pcm_files import CountingBytes

from aioaudio.audio import Damage
from aioaudio.decode.facts import Facts
from aioaudio.decode.headers import read_facts
from aioaudio.decode.headers.ogg_codecs import Packets, opus_samples
from aioaudio.errors import AudioError, FetchError

RATES = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000]


def mismatch(path: Path, facts: Facts) -> tuple[Any, ...] | None:
    """What FFmpeg gives, if `facts` do not allow for it."""
    decoded = decode(path, facts.container, untrimmed=facts.untrimmed)
    num_samples, *form = decoded
    if facts.num_samples is not None:
        excess = num_samples - facts.leading_samples - facts.num_samples
        if not 0 <= excess <= facts.slack:
            return decoded
    return None if form == list(promise(facts)[1:]) else decoded


# --- real files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "pattern", "num_files"),
    [
        ("audio/flac-test-files/subset", "*.flac", 52),
        ("audio/librispeech", "*/*.flac", 100),
        ("audio/ljspeech/wavs", "*.flac", 20),
        ("audio/ljspeech/wavs", "*.mp3", 20),
        ("audio/sonic-pi", "*.flac", 32),
        ("audio/torchcodec", "*.mp3", 2),
        ("audio/mpeg-vectors", "*.bit", 10),
        ("audio/vorbis", "*.ogg", 3),
        ("audio/jfk", "*.flac", 1),
    ],
)
def test_facts_of_real_files_are_what_ffmpeg_gives(shared: Path, folder: str, pattern: str, num_files: int) -> None:
    paths = sorted((shared / folder).glob(pattern))
    assert len(paths) == num_files
    facts = {path: parse_file(path) for path in paths}
    assert [path.name for path, found in facts.items() if found is None] == []
    # Its last page does not end the stream: from a broadcast, or an encoder that was killed.
    damaged = {path.name for path, found in facts.items() if found and found.damage}
    assert damaged == ({"eof_issue.ogg"} if folder == "audio/vorbis" else set())
    assert {path.name: mismatch(path, found) for path, found in facts.items() if found and mismatch(path, found)} == {}


def test_speech_of_the_repository_has_the_length_that_ffmpeg_gives() -> None:
    for name in ("jfk.flac", "jfk.mp3", "jfk.opus", "ljspeech.flac", "ljspeech.mp3", "ljspeech.ogg"):
        facts = known(DATA / name)
        assert promise(facts) == decode(DATA / name)
        assert facts.damage == ()


def test_odd_files_hold_what_is_expected_of_them(shared: Path, odd: dict[str, dict[str, Any]]) -> None:
    undamaged = {name: truth for name, truth in odd.items() if "error" not in truth}
    for name, truth in undamaged.items():
        facts = parse_file(shared / "odd" / name)
        if facts is None or facts.pcm is not None:
            continue
        assert bool(facts.damage) == truth.get("damage_listed", False), name
        assert (facts.sample_rate, facts.num_channels) == (truth["sample_rate"], truth["num_channels"]), name
        has_promise = name not in ("cbr_noinfo.mp3", "vbr_noxing.mp3", "midrate.mp3")
        assert facts.num_samples == (truth["num_samples"] if has_promise else None), name


def test_odd_files_are_recognised_by_their_content(shared: Path) -> None:
    codecs = {
        "base.flac": "flac", "cover.flac": "flac", "trunc.flac": "flac", "cbr_info.mp3": "mp3float",
        "id3_giant.mp3": "mp3float", "v.ogg": "vorbis", "o.opus": "opus", "chain.opus": "opus",
        "m.m4a": "aac", "wrongext.mp3": "aac",
    }  # fmt: skip
    assert {name: known(shared / "odd" / name).codec for name in codecs} == codecs
    for name in ("m.aac", "trunc.m4a", "text.mp3", "rand.mp3", "zero.mp3", "two.mkv", "mp3in.wav"):
        assert parse_file(shared / "odd" / name) is None, name


def test_flac_facts_say_what_streaminfo_says(shared: Path) -> None:
    folder = shared / "audio" / "flac-test-files"
    facts = known(folder / "subset" / "22 - 12 bit per sample.flac")
    assert (facts.bits_per_sample, facts.frame_samples, facts.preroll_seconds) == (12, 4096, 0.0)
    assert facts.md5 is not None
    assert known(folder / "subset" / "45 - no total number of samples set.flac").num_samples is None
    for path in sorted((folder / "faulty").glob("0[6789] - *.flac")):
        assert parse_file(path) is None, path.name


# --- made files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("sample_rate", RATES)
def test_mp3_length_is_what_ffmpeg_gives(media: MediaLibrary, sample_rate: int, channels: int) -> None:
    for seconds in (0.003, 0.2, 2.3):
        for how in ({"bit_rate": 32_000}, {"quality": 4.0}):
            made = media.make("mp3", seconds=seconds, sample_rate=sample_rate, channels=channels, **how)
            facts = known(made.path)
            assert promise(facts) == decode(made.path)
            assert facts.damage == ()


@pytest.mark.parametrize("sample_rate", RATES)
def test_mp3_without_a_tag_promises_no_length(media: MediaLibrary, sample_rate: int) -> None:
    made = media.make("mp3", sample_rate=sample_rate, tag=False)
    facts = known(made.path)
    assert (facts.num_samples, facts.slack, facts.pieces) == (None, 0, None)
    assert promise(facts)[1:] == decode(made.path)[1:]


def test_layer_two_is_known_and_promises_no_length(media: MediaLibrary) -> None:
    made = media.make("mp2", sample_rate=48_000, channels=2)
    facts = known(made.path)
    assert promise(facts) == (None, *decode(made.path)[1:])
    assert facts.frame_samples == 1152


@pytest.mark.parametrize("kind", ["vorbis", "opus"])
@pytest.mark.parametrize("sample_rate", [8_000, 16_000, 24_000, 48_000])
def test_ogg_length_is_what_was_encoded(media: MediaLibrary, kind: str, sample_rate: int) -> None:
    for channels in (1, 2):
        for seconds in (0.01, 0.3, 1.0, 7.9):
            made = media.make(kind, seconds=seconds, sample_rate=sample_rate, channels=channels)
            facts = known(made.path)
            assert mismatch(made.path, facts) is None
            assert facts.damage == ()
            assert facts.num_samples is not None
            assert facts.num_samples == made.num_samples * facts.sample_rate // sample_rate


@pytest.mark.parametrize("channels", range(1, 9))
@pytest.mark.parametrize("kind", ["vorbis", "opus", "flac-ogg"])
def test_ogg_of_many_channels_is_what_ffmpeg_gives(media: MediaLibrary, kind: str, channels: int) -> None:
    for seconds in (0.02, 0.7, 2.3):
        made = media.make(kind, seconds=seconds, channels=channels)
        facts = known(made.path)
        assert facts.damage == ()
        assert facts.num_samples == made.num_samples
        assert mismatch(made.path, facts) is None


@pytest.mark.parametrize("channels", range(1, 9))
def test_flac_layout_is_what_ffmpeg_names_it(media: MediaLibrary, channels: int) -> None:
    made = media.make("flac", seconds=0.5, channels=channels)
    facts = known(made.path)
    assert promise(facts) == decode(made.path)


def flac_with_comment(channels: int, comment: bytes) -> bytes:
    """A second of FLAC frames that FFmpeg made, behind a STREAMINFO and one comment."""
    data = encode("flac", "flac", "s16", channels)
    at, is_last = 4, False
    while not is_last:
        is_last, size = data[at] >= 0x80, int.from_bytes(data[at + 1 : at + 4], "big")
        at += 4 + size
    entries = struct.pack("<I3sII", 3, b"abc", 1, len(comment)) + comment + b"5"
    return data[:4] + b"\0" + data[5:42] + b"\x84" + len(entries).to_bytes(3, "big") + entries + data[at:]


@pytest.mark.parametrize("key", ["WAVEFORMATEXTENSIBLE_CHANNEL_MASK", "WaveFormatExtensible_Channel_Mask"])
@pytest.mark.parametrize(
    ("channels", "mask"),
    [(1, "0x4"), (1, "0x1"), (2, "0x3"), (2, "0x0003"), (2, "0x30"), (6, "0x3f"), (6, "0x60F"), (6, "63"), (6, "0x1")],
)
def test_flac_channel_mask_gives_the_layout_of_ffmpeg_or_none(channels: int, mask: str, key: str) -> None:
    data = flac_with_comment(channels, f"{key}={mask}".encode())
    facts = parse(data)
    layout = decode(data)[-1]
    if facts is None:
        assert mask in ("0x1", "0x30")
    else:
        assert facts.channel_layout == layout


@pytest.mark.parametrize(("sample_format", "bits"), [("s16", 16), ("u8", 8), ("s32", 32), ("f32", 32)])
def test_wavpack_facts_are_what_ffmpeg_gives(media: MediaLibrary, sample_format: str, bits: int) -> None:
    for channels in (1, 2):
        made = media.make("wavpack", sample_rate=44_100, channels=channels, sample_format=sample_format)
        facts = known(made.path)
        assert promise(facts) == decode(made.path)
        assert (facts.bits_per_sample, facts.preroll_seconds) == (bits, 0.0)


def test_wavpack_that_the_first_block_does_not_describe_is_left_to_ffmpeg(media: MediaLibrary) -> None:
    assert parse_file(media.make("wavpack", seconds=0.5, channels=6).path) is None
    assert parse_file(media.make("wavpack", seconds=0.5, sample_rate=12_345).path) is None
    plain = bytearray(media.make("wavpack").path.read_bytes())
    flags = int.from_bytes(plain[24:28], "little")
    assert parse(bytes(plain[:24]) + (flags | 1 << 31).to_bytes(4, "little") + bytes(plain[28:])) is None  # DSD
    unknown_total = known(bytes(plain[:12]) + b"\xff" * 4 + bytes(plain[16:]))
    assert unknown_total.num_samples is None
    many = known(bytes(plain[:11]) + b"\x01" + bytes(plain[12:]))
    assert many.num_samples == 96_000 + 0xFFFFFFFF


# --- MP3: tags, junk, files in a row ---------------------------------------------------------------------------------


def without_damage(facts: Facts) -> Facts:
    assert all(damage.kind == "junk" for damage in facts.damage)
    return replace(facts, damage=())


@pytest.mark.parametrize("tail", [b"", ID3V1, ape(3000), ape(100) + ID3V1, bytes(4096), noise(70_000), id3v2(500)])
@pytest.mark.parametrize(
    "tags", [b"", id3v2(300), id3v2(300) + id3v2(5_000), id3v2(700_000), id3v2(300, flags=0x10)], ids=len
)
def test_tags_around_an_mp3_change_nothing(tags: bytes, tail: bytes) -> None:
    facts, expected = known(tags + MP3_FRAMES + tail), known(MP3_FRAMES)
    assert without_damage(facts) == expected
    assert bool(facts.damage) == (len(tail) == 70_000)
    num_samples = decode(tags + MP3_FRAMES + tail, "mp3")[0]
    assert expected.num_samples is not None
    assert 0 <= num_samples - expected.num_samples <= expected.slack


@pytest.mark.parametrize("junk", [bytes(1000), bytes(100_000), noise(3_000), b"\xff\xfb" * 100])
@pytest.mark.parametrize("tags", [b"", id3v2(300)], ids=len)
def test_junk_before_the_first_frame_is_cut_off_where_it_hides_the_tag(tags: bytes, junk: bytes) -> None:
    data = tags + junk + MP3_FRAMES
    if not tags and junk == noise(3_000):
        assert parse(data) is None  # nothing at its beginning looks like MPEG audio
        return
    facts = known(data)
    assert facts.num_samples == known(MP3_FRAMES).num_samples
    assert facts.pieces == ((len(tags + junk), len(data)),)
    assert decode(data[len(tags + junk) :], "mp3")[0] == facts.num_samples
    message = f"{len(junk)} bytes before the first frame that are no MPEG audio"
    assert facts.damage == ((Damage(0.0, "junk", message),) if any(junk) else ())


def test_before_frames_without_a_tag_junk_is_cut_off_and_zeros_are_not(media: MediaLibrary) -> None:
    frames = media.make("mp3", tag=False).path.read_bytes()
    facts = known(id3v2(100) + bytes(500) + frames)
    assert (facts.num_samples, facts.pieces) == (None, None)
    start = len(id3v2(100)) + 600
    assert known(id3v2(100) + noise(600) + frames).pieces == ((start, start + len(frames)),)


@pytest.mark.parametrize(
    "between",
    [ID3V1, ID3V1 + id3v2(2_000), id3v2(200_000), ape(500), bytes(1_000), noise(3_000), ape(9) + bytes(99) + id3v2(9)],
    ids=len,
)
def test_mp3s_in_a_row_are_pieces(between: bytes) -> None:
    facts, one = known(MP3_FRAMES + between + MP3_FRAMES), known(MP3_FRAMES)
    assert one.num_samples is not None
    assert (facts.num_samples, facts.preroll_seconds) == (2 * one.num_samples, None)
    start = len(MP3_FRAMES + between)
    assert facts.pieces == ((0, len(MP3_FRAMES)), (start, start + len(MP3_FRAMES)))
    assert [damage.kind for damage in facts.damage] == (["junk"] if len(between) == 3_000 else [])


def test_an_mp3_right_behind_another_promises_no_length() -> None:
    facts = known(MP3_FRAMES + MP3_FRAMES)
    assert (facts.num_samples, facts.slack, facts.pieces, facts.damage) == (None, 0, None, ())


def test_mp3s_in_a_row_of_which_one_has_no_tag_promise_no_length(media: MediaLibrary) -> None:
    untagged = media.make("mp3", sample_rate=22_050, tag=False).path.read_bytes()
    for first, second in ((MP3_FRAMES, untagged), (untagged, MP3_FRAMES), (untagged, untagged)):
        facts = known(first + ID3V1 + second)
        assert (facts.num_samples, facts.damage) == (None, ())
        assert facts.pieces == ((0, len(first)), (len(first + ID3V1), len(first + ID3V1 + second)))


def test_mp3s_of_two_rates_in_a_row_are_pieces_with_no_common_length(media: MediaLibrary) -> None:
    other = media.make("mp3", sample_rate=48_000).path.read_bytes()
    facts = known(MP3_FRAMES + other)
    assert (facts.num_samples, facts.sample_rate, facts.damage) == (None, 22_050, ())
    assert facts.pieces is not None
    assert len(facts.pieces) == 2


def test_a_tag_inside_a_stream_makes_no_piece() -> None:
    # Most frames lean on bytes of those before them, so that none can be decoded without these.
    middle = MP3_FRAMES.index(b"\xff\xf3", len(MP3_FRAMES) // 2)
    facts = known(MP3_FRAMES[:middle] + id3v2(60) + MP3_FRAMES[middle:])
    assert facts == known(MP3_FRAMES)


def test_a_tag_that_counts_too_many_bytes_or_its_own_frame_proves_no_damage() -> None:
    at = MP3_FRAMES.index(b"Info") + 8
    num_frames, num_bytes = struct.unpack_from(">II", MP3_FRAMES, at)
    assert num_bytes == len(MP3_FRAMES)
    for counts in ((num_frames, num_bytes + 5_000), (num_frames + 1, num_bytes), (num_frames, 0)):
        facts = known(MP3_FRAMES[:at] + struct.pack(">II", *counts) + MP3_FRAMES[at + 8 :])
        assert facts == known(MP3_FRAMES)


def test_the_older_tag_of_a_variable_bit_rate_counts_frames_and_drops_none() -> None:
    at = MP3_FRAMES.index(b"Info") + 8
    num_frames, num_bytes = struct.unpack_from(">II", MP3_FRAMES, at)
    vbri = MP3_FRAMES[:13] + bytes(23) + b"VBRI" + struct.pack(">HHHII", 1, 0, 0, num_bytes, num_frames)
    data = vbri + MP3_FRAMES[len(vbri) :]
    assert known(data).num_samples == decode(data)[0] == 576 * num_frames
    assert known(data).damage == ()


def test_what_only_looks_like_mp3_is_left_to_ffmpeg(media: MediaLibrary) -> None:
    adts = media.make("adts").path.read_bytes()
    assert parse(adts) is None
    assert parse(id3v2(100) + adts) is None
    assert parse(id3v2(100)) is None
    assert parse(MP3_FRAMES[:24]) is None
    assert parse(b"\xff\xfb\x00\xc4" + bytes(5_000)) is None  # free format


# --- Ogg: links, starts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [VORBIS, OPUS], ids=["vorbis", "opus"])
def test_links_of_a_chain_are_pieces(data: bytes) -> None:
    one = known(data)
    for chain in (data + data, rewritten(data, serial=7) + data, data + rewritten(data, serial=7) + data):
        facts = known(chain)
        count = len(chain) // len(data)
        assert facts.pieces == tuple((i * len(data), (i + 1) * len(data)) for i in range(count))
        assert one.num_samples is not None
        assert facts.num_samples == one.num_samples * count
        assert facts.preroll_seconds is None


def test_a_long_stream_that_is_appended_to_itself_is_a_chain(media: MediaLibrary) -> None:
    long = media.make("opus", seconds=40.0, bit_rate=64_000, channels=2, signal="noise").path.read_bytes()
    assert len(long) > 200_000
    for chain in (long + long, OPUS + rewritten(long, serial=pages_serial(OPUS))):
        facts = known(chain)
        assert facts.pieces is not None
        assert len(facts.pieces) == 2
    assert known(long).pieces is None


def test_links_of_different_rates_promise_no_common_length() -> None:
    facts = known(VORBIS + OPUS)
    assert (facts.num_samples, facts.codec) == (None, "vorbis")
    assert facts.pieces == ((0, len(VORBIS)), (len(VORBIS), len(VORBIS + OPUS)))


def test_streams_at_once_are_left_to_ffmpeg() -> None:
    first, *others = pages(VORBIS)
    skeleton = rewritten(first, serial=99)
    assert parse(first + skeleton + b"".join(others)) is None
    assert parse(skeleton + first + b"".join(others)) is None


@pytest.mark.parametrize("data", [VORBIS, OPUS], ids=["vorbis", "opus"])
@pytest.mark.parametrize("shift", [1, 960, 1_000_000])
def test_a_stream_cut_from_a_longer_one_has_its_own_length(data: bytes, shift: int) -> None:
    moved = rewritten(data, shift=shift)
    facts = known(moved)
    assert facts.num_samples == known(data).num_samples
    assert facts.num_samples == decode(moved)[0]


def test_vorbis_that_begins_before_zero_has_leading_samples() -> None:
    moved = rewritten(VORBIS, shift=-100)
    facts = known(moved)
    whole = known(VORBIS).num_samples
    assert whole is not None
    assert (facts.num_samples, facts.leading_samples) == (whole - 100, 100)
    assert decode(moved)[0] == whole


def with_early_packet(data: bytes, *, copied: bool) -> bytes:
    """Vorbis with a packet of sound behind the headers, on their page: the first one, or a copy of it."""
    first, headers, sound, *others = pages(data)
    sizes, bodies = sound[27 : 27 + sound[26]], sound[27 + sound[26] :]
    size = sizes[0]
    early = headers[:26] + bytes([headers[26] + 1]) + headers[27 : 27 + headers[26]] + bytes([size])
    early += headers[27 + headers[26] :] + bodies[:size]
    if not copied:
        sound = sound[:26] + bytes([len(sizes) - 1]) + sizes[1:] + bodies[size:]
    return rewritten(b"".join([first, early, sound, *others]))


def test_the_first_packet_of_sound_may_stand_behind_the_headers() -> None:
    early = with_early_packet(VORBIS, copied=False)
    assert known(early) == known(VORBIS)
    assert decode(early)[0] == known(VORBIS).num_samples


def test_a_packet_behind_the_headers_that_granule_positions_do_not_count_is_leading() -> None:
    # Many files of libvorbis from 2009 are like this.
    early = with_early_packet(VORBIS, copied=True)
    facts = known(early)
    assert facts.num_samples == known(VORBIS).num_samples
    assert facts.leading_samples > 0
    assert decode(early)[0] == facts.num_samples + facts.leading_samples
    expected, _ = soundfile.read(io.BytesIO(VORBIS))
    samples, _ = soundfile.read(io.BytesIO(early))
    assert (samples == expected).all()


@pytest.mark.parametrize("frame", [2.5, 5, 10, 20, 40, 60])
def test_opus_of_any_packet_length_has_the_length_that_was_encoded(frame: float) -> None:
    data = encode("libopus", "ogg", "s16", 2, frame_duration=str(frame))
    facts = known(data)
    assert facts.num_samples == 48_000
    assert decode(data)[0] == 48_000
    moved = rewritten(data, shift=480)
    assert known(moved).num_samples == decode(moved)[0]


def test_opus_packets_of_several_frames_count_them_all() -> None:
    # RFC 6716, section 3.1: 16 frames of 2.5 ms and, at most, 120 ms, counted in the second byte; then one of 20 ms.
    for second, num_samples in ((16, 1920), (48 | 0x80, 5760)):
        packets = Packets(bytes([0xE3, second, 0, 0x98]), [(0, 3), (3, 4)])
        assert opus_samples(packets) == num_samples + 960
    for bounds in ([], [(0, 0)], [(0, 1)], [(0, 4), (4, 4)]):
        assert opus_samples(Packets(bytes([0xE3, 16, 0, 0x98]), bounds)) == 0


def test_a_timeline_that_begins_too_early_promises_no_length() -> None:
    assert known(rewritten(VORBIS, shift=-5_000)).num_samples is None
    assert known(rewritten(OPUS, shift=-5_000)).num_samples is None


def ogg_flac(*, num_more: int = 1, num_samples: int = 0, md5: bytes = bytes(16)) -> bytes:
    """FLAC in Ogg, of a second at 48 kHz, with its STREAMINFO changed."""
    data = encode("flac", "ogg", "s16", 2)
    at = data.index(b"fLaC")
    packed = int.from_bytes(data[at + 18 : at + 26], "big") >> 36 << 36 | num_samples
    info = data[at : at + 18] + packed.to_bytes(8, "big") + md5
    return rewritten(data[: at - 2] + num_more.to_bytes(2, "big") + info + data[at + len(info) :])


def test_ogg_flac_facts_say_what_streaminfo_says() -> None:
    plain = known(ogg_flac())
    assert (plain.num_samples, plain.bits_per_sample, plain.md5, plain.preroll_seconds) == (48_000, 16, None, None)
    full = known(ogg_flac(num_samples=50_000, md5=b"0123456789abcdef"))
    assert (full.num_samples, full.md5) == (50_000, b"0123456789abcdef")
    assert parse(ogg_flac(num_more=0)) is None  # then nothing says where sound begins


def test_ogg_flac_whose_stored_length_is_there_lacks_nothing_without_an_end() -> None:
    for num_samples, kind in ((0, "truncated"), (48_000, "junk"), (48_001, "truncated")):
        (damage,) = known(rewritten(ogg_flac(num_samples=num_samples), flags=lambda old: old & ~4)).damage
        assert (damage.at_seconds, damage.kind) == (1.0, kind)


def test_ogg_flac_cut_from_a_longer_stream_promises_no_length(media: MediaLibrary) -> None:
    whole = pages(media.make("flac-ogg", seconds=3.3, channels=2).path.read_bytes())
    facts = known(b"".join(whole[:2] + whole[3:]))
    assert facts.num_samples is None
    assert [(damage.at_seconds, damage.kind) for damage in facts.damage] == [(0.0, "undecodable")]


def test_a_page_of_sound_that_is_not_intact_tells_no_length() -> None:
    for data in (VORBIS, OPUS):
        first, comment, sound, *others = pages(data)
        assert known(b"".join([first, comment, sound[:-1] + bytes([sound[-1] ^ 1]), *others])).num_samples is None


def test_opus_channels_without_names_are_left_to_ffmpeg() -> None:
    at = OPUS.index(b"OpusHead") + 18
    assert OPUS[at] == 0
    for mapping, is_known in ((1, True), (2, False), (255, False)):
        assert (parse(rewritten(OPUS[:at] + bytes([mapping]) + OPUS[at + 1 :])) is not None) == is_known


# --- hostile bytes ---------------------------------------------------------------------------------------------------

SEEDS = {
    "flac": encode("flac", "flac", "s16", 2),
    "wavpack": encode("wavpack", "wv", "s16p", 2),
    "mp3": MP3,
    "junk before mp3": id3v2(100) + bytes(2_000) + MP3_FRAMES,
    "vorbis": VORBIS,
    "opus": OPUS,
    "flac in ogg": encode("flac", "ogg", "s16", 6),
    "mp3s in a row": MP3_FRAMES[:9_000] + ID3V1 + MP3_FRAMES[:9_000] + id3v2(90) + MP3_FRAMES[:9_000],
    "chain": VORBIS + rewritten(VORBIS, serial=3),
    "long chain": OPUS * 6,
}


@pytest.mark.parametrize("kind", SEEDS)
@given(data=st.data())
def test_mutated_files_raise_nothing_but_audio_errors_and_are_read_in_part(kind: str, data: st.DataObject) -> None:
    mutated = bytearray(SEEDS[kind])
    size = len(mutated)
    # Mostly in the headers, where every byte counts.
    positions = st.one_of(st.integers(0, 300), st.integers(0, 8_000), st.integers(0, size - 1))
    for at, byte in data.draw(st.lists(st.tuples(positions, st.integers(0, 255)), max_size=8)):
        mutated[min(at, size - 1)] = byte
    at, count = data.draw(positions), data.draw(st.integers(0, 64))
    mutated[at : at + count] = data.draw(st.binary(max_size=8)) * data.draw(st.integers(0, 500))
    mutated = mutated[: data.draw(st.one_of(st.just(size), st.integers(0, size)))]
    file = CountingBytes(bytes(mutated))
    try:
        facts = read_facts(file, memoryview(bytes(mutated))[:4096])
    except AudioError:
        return
    # What only looks like the start of a page is read up to its end, some hundred times at most.
    assert sum(min(stop, file.size) - min(start, file.size) for start, stop in file.reads) < 1 << 25
    assert len(file.reads) < 5_000
    if facts is not None:
        assert facts.sample_rate > 0
        assert facts.num_channels > 0
        assert facts.num_samples is None or facts.num_samples >= 0
        for start, stop in facts.pieces or ():
            assert 0 <= start < stop <= len(mutated)


@pytest.mark.parametrize(
    "unit",
    [b"OggS", b"OggS\0\x02", b"\xff\xfb\x90\xc4", b"\xff", b"ID3\x04\0\0\0\0\0\0", b"fLaC\0\0\0\x22", b"TAG"],
)
def test_repeated_magic_is_read_in_part(unit: bytes) -> None:
    for prefix in (b"", VORBIS[:4096], OPUS[:1000], MP3[:1000], id3v2(20), SEEDS["flac"][:42]):
        data = prefix + unit * (3_000_000 // len(unit))
        file = CountingBytes(data)
        read_facts(file, memoryview(data)[:4096])
        assert len(file.reads) < 20_000
        assert sum(stop - start for start, stop in file.reads) < 32 * len(data)


@pytest.mark.parametrize("kind", [kind for kind in SEEDS if len(SEEDS[kind]) > 8_000 and kind != "wavpack"])
def test_a_read_error_is_raised(kind: str) -> None:
    data = id3v2(5_000) + SEEDS[kind] if kind in ("flac", "mp3") else SEEDS[kind]
    with pytest.raises(FetchError):
        read_facts(CountingBytes(data, fail_at=4_096), memoryview(data)[:4096])


class ShrinkingBytes:
    """A file that is cut off while it is read: it says that it has all bytes, and gives those up to `stop`."""

    def __init__(self, data: bytes, stop: int) -> None:
        self._data, self._stop = data, stop
        self.size = len(data)

    def read(self, num_bytes: int, offset: int) -> memoryview:
        return memoryview(self._data)[offset : min(self._stop, offset + num_bytes)]

    def ffmpeg_path(self) -> str:
        raise AssertionError


@pytest.mark.parametrize(
    "kind", ["wav", "w64", "aiff", "flac", "mp3", "mp2", "vorbis", "opus", "flac-ogg", "wavpack", "aac"]
)
def test_a_file_that_shrinks_is_read_to_an_end(media: MediaLibrary, kind: str) -> None:
    data = media.make(kind, seconds=1.0).path.read_bytes()
    for padded in (data, data + bytes(3000)):
        for stop in (len(data) - 1, len(data), len(data) // 2, 4096, 100):
            with contextlib.suppress(AudioError):
                read_facts(ShrinkingBytes(padded, stop), memoryview(data)[:4096])
