"""What the parsers of compressed formats promise is what decoders give, and no bytes lead them astray."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import av
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from media import DATA, MediaLibrary
from pcm_files import CountingBytes

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers import read_facts
from aioaudio.decode.headers.ogg_codecs import Packets, opus_samples
from aioaudio.encoded import LocalFile
from aioaudio.errors import AudioError, FetchError

RATES = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000]


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
        assert facts.damage == (), name
        assert (facts.sample_rate, facts.num_channels) == (truth["sample_rate"], truth["num_channels"]), name
        has_promise = name not in ("cbr_noinfo.mp3", "vbr_noxing.mp3", "midrate.mp3")
        assert facts.num_samples == (truth["num_samples"] if has_promise else None), name


def test_odd_files_are_recognised_by_their_content(shared: Path) -> None:
    codecs = {
        "base.flac": "flac", "cover.flac": "flac", "trunc.flac": "flac", "cbr_info.mp3": "mp3float",
        "id3_giant.mp3": "mp3float", "v.ogg": "vorbis", "o.opus": "opus", "chain.opus": "opus",
    }  # fmt: skip
    assert {name: known(shared / "odd" / name).codec for name in codecs} == codecs
    for name in ("m.aac", "m.m4a", "wrongext.mp3", "text.mp3", "rand.mp3", "zero.mp3", "two.mkv", "mp3in.wav"):
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


# --- MP3: tags, junk, cuts -------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("tail", [b"", ID3V1, ape(3000), ape(100) + ID3V1, bytes(4096), noise(70_000), id3v2(500)])
@pytest.mark.parametrize(
    "tags", [b"", id3v2(300), id3v2(300) + id3v2(5_000), id3v2(700_000), id3v2(300, flags=0x10)], ids=len
)
def test_tags_around_an_mp3_change_nothing(tags: bytes, tail: bytes) -> None:
    facts, expected = known(tags + MP3_FRAMES + tail), known(MP3_FRAMES)
    assert facts == expected
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


def test_junk_before_frames_without_a_tag_needs_no_cut(media: MediaLibrary) -> None:
    frames = media.make("mp3", tag=False).path.read_bytes()
    facts = known(id3v2(100) + bytes(500) + frames)
    assert (facts.num_samples, facts.pieces) == (None, None)


@pytest.mark.parametrize("between", [b"", ID3V1, ID3V1 + id3v2(2_000), id3v2(200_000), ape(500), bytes(1_000)], ids=len)
def test_mp3s_in_a_row_promise_no_length(between: bytes) -> None:
    facts = known(MP3_FRAMES + between + MP3_FRAMES)
    assert (facts.num_samples, facts.slack, facts.damage) == (None, 0, ())


def test_a_cut_mp3_is_known_to_be_damaged() -> None:
    whole = known(MP3)
    for stop in range(2_000, len(MP3) - len(ID3V1), 997):
        facts = known(MP3[:stop])
        assert facts.num_samples == whole.num_samples
        assert [damage.kind for damage in facts.damage] == ["truncated"], stop


def test_a_tag_that_counts_too_many_bytes_proves_no_damage() -> None:
    at = MP3_FRAMES.index(b"Info") + 12
    num_bytes = int.from_bytes(MP3_FRAMES[at : at + 4], "big")
    assert num_bytes == len(MP3_FRAMES)
    facts = known(MP3_FRAMES[:at] + (num_bytes + 5_000).to_bytes(4, "big") + MP3_FRAMES[at + 4 :])
    assert facts.damage == ()
    assert facts.num_samples == known(MP3_FRAMES).num_samples


def test_what_only_looks_like_mp3_is_left_to_ffmpeg(media: MediaLibrary) -> None:
    adts = media.make("adts").path.read_bytes()
    assert parse(adts) is None
    assert parse(id3v2(100) + adts) is None
    assert parse(id3v2(100)) is None
    assert parse(MP3_FRAMES[:24]) is None
    assert parse(b"\xff\xfb\x00\xc4" + bytes(5_000)) is None  # free format
    vbri = MP3_FRAMES[:36] + b"VBRI\0\x01" + MP3_FRAMES[42:]
    assert parse(vbri) is None


# --- Ogg: links, cuts, starts ----------------------------------------------------------------------------------------

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


def pages_serial(data: bytes) -> int:
    return int.from_bytes(data[14:18], "little")


def test_links_of_different_rates_promise_no_common_length() -> None:
    facts = known(VORBIS + OPUS)
    assert (facts.num_samples, facts.codec) == (None, "vorbis")
    assert facts.pieces == ((0, len(VORBIS)), (len(VORBIS), len(VORBIS + OPUS)))


def test_streams_at_once_are_left_to_ffmpeg() -> None:
    first, *others = pages(VORBIS)
    skeleton = rewritten(first, serial=99)
    assert parse(first + skeleton + b"".join(others)) is None
    assert parse(skeleton + first + b"".join(others)) is None


def test_codecs_of_other_ogg_files_are_left_to_ffmpeg(media: MediaLibrary) -> None:
    assert parse_file(media.make("flac-ogg").path) is None
    assert parse_file(media.make("vorbis", channels=6, seconds=0.5).path) is None
    assert parse_file(media.make("opus", channels=6, seconds=0.5).path) is None


@pytest.mark.parametrize("data", [VORBIS, OPUS], ids=["vorbis", "opus"])
def test_a_cut_ogg_file_is_known_to_be_damaged_and_promises_what_is_left(data: bytes) -> None:
    bounds = {0}
    for page in pages(data):
        bounds.add(max(bounds) + len(page))
    for stop in [*range(8_000, len(data), 997), *(bound + 2 for bound in sorted(bounds)[3:-1])]:
        facts = known(data[:stop])
        assert [damage.kind for damage in facts.damage] == ["truncated"], stop
        assert facts.num_samples == decode(data[:stop])[0], stop
    for stop in sorted(bounds)[3:]:
        facts = known(data[:stop])
        assert facts.damage == ()
        assert facts.num_samples == decode(data[:stop])[0], stop


@pytest.mark.parametrize("tail", [b"O", b"OggS", b"OggS\0\0\0"])
def test_the_beginning_of_a_page_is_a_cut_page(tail: bytes) -> None:
    assert [damage.kind for damage in known(VORBIS + tail).damage] == ["truncated"]


@pytest.mark.parametrize("tail", [ID3V1, bytes(5_000), b"Og is no page", noise(20_000)])
def test_junk_behind_the_last_page_is_no_damage(tail: bytes) -> None:
    assert known(VORBIS + tail) == known(VORBIS)


def test_no_end_flag_is_no_damage() -> None:
    # Recordings of broadcasts, and those of killed encoders, have none.
    facts = known(rewritten(VORBIS, flags=lambda old: old & ~4))
    assert facts.damage == ()
    assert facts.num_samples == known(VORBIS).num_samples


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


# --- hostile bytes ---------------------------------------------------------------------------------------------------

SEEDS = {
    "flac": encode("flac", "flac", "s16", 2),
    "wavpack": encode("wavpack", "wv", "s16p", 2),
    "mp3": MP3,
    "junk before mp3": id3v2(100) + bytes(2_000) + MP3_FRAMES,
    "vorbis": VORBIS,
    "opus": OPUS,
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
    assert sum(min(stop, file.size) - min(start, file.size) for start, stop in file.reads) < 1 << 20
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
        assert sum(stop - start for start, stop in file.reads) < 4 * len(data)


@pytest.mark.parametrize("kind", [kind for kind in SEEDS if kind != "wavpack"])
def test_a_read_error_is_raised(kind: str) -> None:
    data = id3v2(5_000) + SEEDS[kind] if kind in ("flac", "mp3") else SEEDS[kind]
    with pytest.raises(FetchError):
        read_facts(CountingBytes(data, fail_at=4_096), memoryview(data)[:4096])
