"""Our parser of MP4 says what FFmpeg's probe says of a file, or leaves it to that."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from coded_files import known, parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media import DATA, MediaLibrary
from pcm_files import CountingBytes
from test_mp4 import begun_late, grown

import aioaudio
from aioaudio.decode.facts import Facts
from aioaudio.decode.headers import mp4_facts, read_facts
from aioaudio.decode.job import DecodeJob
from aioaudio.decode.prepare import read_facts_of
from aioaudio.encoded import Encoded
from aioaudio.errors import AudioError, DamagedAudioError
from aioaudio.options import LoadOptions

ENCODERS = {"aac": "fltp", "alac": "s16p", "alac-24": "s32p"}


@pytest.fixture
def probing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Leaves every MP4 to FFmpeg's probe from then on."""
    return lambda: monkeypatch.setattr(mp4_facts, "parse", lambda file, head: None)


def probed(data: bytes) -> Facts:
    with pytest.MonkeyPatch.context() as patch, Encoded(data).open() as file:
        patch.setattr(mp4_facts, "parse", lambda file, head: None)
        return read_facts_of(DecodeJob(Encoded(data), LoadOptions()), file)[0]


@cache
def mp4(folder: Path, codec: str, num_samples: int, rate: int, channels: int, *more: tuple[str, str]) -> bytes:
    """Noise in an MP4 file, its muxer told `more`; `tracks` and `muxer` among that are not for it."""
    options = dict(more)
    num_tracks, muxer = int(options.pop("tracks", "1")), options.pop("muxer", "ipod")
    path, frame_format = folder / "made.m4a", ENCODERS[codec]
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    values = np.random.default_rng(num_samples).uniform(-0.2, 0.2, (channels, num_samples))
    scale, dtype = {"fltp": (1.0, np.float32), "s16p": (2.0**15, np.int16), "s32p": (2.0**31, np.int32)}[frame_format]
    with av.open(str(path), "w", format=muxer, options=options) as container:
        name = codec.partition("-")[0]
        streams = [container.add_stream(name, rate=rate, layout=layout, format=frame_format) for _ in range(num_tracks)]
        for stream in streams:
            frame = av.AudioFrame.from_ndarray((values * scale).astype(dtype), format=frame_format, layout=layout)
            frame.sample_rate, frame.pts = rate, 0
            container.mux([*stream.encode(frame), *stream.encode(None)])
    return path.read_bytes()


@given(
    codec=st.sampled_from([*ENCODERS]),
    num_samples=st.one_of(st.integers(1, 5000), st.integers(1, 60_000)),
    rate=st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]),
    channels=st.sampled_from([1, 2]),
    flags=st.sampled_from([(), (("movflags", "faststart"),), (("moov_size", "20000"),)]),
    editing=st.sampled_from([(), (("use_editlist", "0"),), (("movie_timescale", "44100"),)]),
    muxer=st.sampled_from(["ipod", "mp4"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_facts_are_what_the_probe_gives(
    codec: str,
    num_samples: int,
    rate: int,
    channels: int,
    flags: tuple[tuple[str, str], ...],
    editing: tuple[tuple[str, str], ...],
    muxer: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    data = mp4(folder, codec, num_samples, rate, channels, ("muxer", muxer), *flags, *editing)
    assert known(data) == probed(data)


@pytest.fixture
def plain(tmp_path: Path) -> bytes:
    return mp4(tmp_path, "aac", 30_000, 44_100, 2)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "unchanged": lambda data: data,
    "no edit list": lambda data: data.replace(b"edts", b"free"),
    "begins late": lambda data: begun_late(data, 300),
    "filler at the end": lambda data: data + b"\0\0\0\x0cfreefree",
    "up to the end": lambda data: data + b"\0\0\0\0mdatmore",
    "less than a box": lambda data: data + b"\0\0\0\0",
    "64-bit size": lambda data: data + b"\0\0\0\x01free" + (20).to_bytes(8, "big") + b"last",
}


@pytest.mark.parametrize("change", CHANGES)
def test_facts_of_changed_files_are_what_the_probe_gives(change: str, plain: bytes) -> None:
    data = CHANGES[change](plain)
    assert known(data) == probed(data)


@pytest.mark.parametrize("num_bytes", [1, 10, 5_000])
def test_what_is_cut_off_is_found_as_the_probe_finds_it(num_bytes: int, tmp_path: Path) -> None:
    data = mp4(tmp_path, "aac", 30_000, 44_100, 2, ("movflags", "faststart"))[:-num_bytes]
    facts = known(data)
    assert facts == probed(data)
    assert [damage.kind for damage in facts.damage] == ["truncated"]


LEFT: dict[str, Callable[[Path], bytes]] = {
    "two tracks": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2, ("tracks", "2")),
    "fragments": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2, ("movflags", "frag_keyframe+empty_moov")),
    "surround": lambda folder: mp4(folder, "aac", 5_000, 44_100, 6),
    "QuickTime's entries": lambda folder: mp4(folder, "alac", 5_000, 44_100, 2, ("muxer", "mov")),
    "cut index": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2)[:-9],
    "no data": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"mdat", b"free"),
    "encrypted": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"mp4a", b"enca"),
    "in another file": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"url \0\0\0\1", b"url \0\0\0\0"),
    "text": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"soun", b"text"),
    "references": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"edts", b"tref"),
    "unknown box": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"sgpd", b"ctts"),
    "size of chunks": lambda folder: altered(mp4(folder, "aac", 5_000, 44_100, 2), b"stsc", 12, 1),
    "number of sizes": lambda folder: altered(mp4(folder, "aac", 5_000, 44_100, 2), b"stsz", 15, 1),
    "chunks behind the end": lambda folder: altered(mp4(folder, "aac", 5_000, 44_100, 2), b"stco", 12, 0x70),
    "no rate": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"\x12\x10\x56\xe5", b"\x17\x90\x56\xe5"),
    "SBR": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"\x56\xe5\0", b"\x56\xe5\x88"),
    "perhaps SBR": lambda folder: mp4(folder, "aac", 5_000, 16_000, 2).replace(b"\x56\xe5\0", b"\0\0\0"),
    "frames of 960": lambda folder: mp4(folder, "aac", 5_000, 44_100, 2).replace(b"\x12\x10\x56", b"\x12\x14\x56"),
    "a delay in a tag": lambda folder: tagged(mp4(folder, "aac", 5_000, 44_100, 2).replace(b"edts", b"free")),
}


def altered(data: bytes, kind: bytes, at: int, byte: int) -> bytes:
    position = data.index(kind) + at
    assert data[position] != byte
    return data[:position] + bytes([byte]) + data[position + 1 :]


def tagged(data: bytes) -> bytes:
    at = data.index(b"udta", data.index(b"moov")) + 4
    tag = b"\0\0\0\x10iTunSMPBmore"
    return grown(data[:at] + tag + data[at:], (b"moov", b"udta"), len(tag))


@pytest.mark.parametrize("what", LEFT)
def test_all_that_is_not_plain_is_left_to_the_probe(what: str, tmp_path: Path) -> None:
    assert parse(LEFT[what](tmp_path)) is None


def test_silence_about_sbr_is_believed_at_high_rates(tmp_path: Path) -> None:
    data = mp4(tmp_path, "aac", 5_000, 44_100, 2).replace(b"\x56\xe5\0", b"\0\0\0")
    assert known(data) == probed(data)


def test_shared_files_are_what_the_probe_says(shared: Path) -> None:
    read = []
    for path in sorted({*shared.rglob("*.m4a"), *shared.rglob("*.mp4"), *shared.rglob("*.mov"), DATA / "jfk.m4a"}):
        data = path.read_bytes()
        facts = parse(data)
        if facts is not None:
            assert facts == probed(data), path.name
            read.append(path.name)
    assert {"m.m4a", "m_fast.m4a", "big_moovend.m4a", "jfk.m4a"} <= set(read)


OPTIONS = [
    {},
    {"sample_rate": 16_000, "num_channels": 1},
    {"start_seconds": 0.4, "stop_seconds": 0.9},
    {"start_seconds": 11.0},
    {"start_seconds": 11.2, "stop_seconds": 11.4, "sample_rate": 22_050},
]


@pytest.mark.parametrize("kind", ["aac", "alac"])
@pytest.mark.parametrize("seconds", [0.01, 1.0, 12.0])
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_loads_and_infos_are_those_of_the_probe(
    kind: str, seconds: float, media: MediaLibrary, probing: Callable[[], None]
) -> None:
    data = media.make(kind, seconds=seconds, sample_rate=44_100, channels=2).path.read_bytes()
    ours = [await aioaudio.load(data, **options) for options in OPTIONS]
    info, counted = await aioaudio.info(data), await aioaudio.info(data, exact=True)
    probing()
    for audio, options in zip(ours, OPTIONS, strict=True):
        theirs = await aioaudio.load(data, **options)
        assert audio.waveform.equal(theirs.waveform)
        assert (audio.sample_rate, audio.damage) == (theirs.sample_rate, theirs.damage)
    assert (info, counted) == (await aioaudio.info(data), await aioaudio.info(data, exact=True))


@pytest.mark.parametrize("num_bytes", [100, 5_000])
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_loads_of_what_is_cut_off_are_those_of_the_probe(
    num_bytes: int, tmp_path: Path, probing: Callable[[], None]
) -> None:
    data = mp4(tmp_path, "aac", 60_000, 44_100, 2, ("movflags", "faststart"))[:-num_bytes]
    with pytest.raises(DamagedAudioError):
        await aioaudio.load(data)
    ours = await aioaudio.load(data, on_damage="conceal")
    probing()
    theirs = await aioaudio.load(data, on_damage="conceal")
    assert ours.waveform.equal(theirs.waveform)
    assert ours.damage == theirs.damage


@pytest.mark.parametrize("name", ["mov", "mp4", "m4a"])
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_a_format_that_is_asked_for_changes_nothing(name: str, plain: bytes) -> None:
    asked, found = await aioaudio.load(plain, format=name), await aioaudio.load(plain)
    assert asked.waveform.equal(found.waveform)


def test_little_of_a_long_file_is_read(tmp_path: Path) -> None:
    """Neither the samples nor their sizes nor a picture among the tags."""
    data = mp4(tmp_path, "aac", 400_000, 8_000, 1, ("movflags", "faststart"))
    at = data.index(b"udta", data.index(b"moov")) + 4
    picture = (8 + 3_000_000).to_bytes(4, "big") + b"covr" + bytes(3_000_000)
    data = moved(grown(data[:at] + picture + data[at:], (b"moov", b"udta"), len(picture)), len(picture))
    file = CountingBytes(data)
    facts = read_facts(file, memoryview(data)[:4096])
    assert facts is not None
    assert facts.num_samples == 400_000
    assert sum(stop - start for start, stop in file.reads) < 1 << 17


def moved(data: bytes, num_bytes: int) -> bytes:
    """The file with its only chunk said to be so much further on."""
    at = data.index(b"stco") + 12
    return data[:at] + (int.from_bytes(data[at : at + 4], "big") + num_bytes).to_bytes(4, "big") + data[at + 4 :]


@pytest.mark.parametrize("codec", [*ENCODERS])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_files_raise_nothing_and_are_read_in_part(
    codec: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(mp4(tmp_path_factory.getbasetemp(), codec, 5_000, 44_100, 2))
    index = whole.index(b"moov")
    positions = st.one_of(st.integers(0, 60), st.integers(index - 4, len(whole) - 1))
    for at, byte in data.draw(st.lists(st.tuples(positions, st.integers(0, 255)), max_size=6)):
        whole[at] = byte
    cut = bytes(whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))])
    file = CountingBytes(cut)
    facts = read_facts(file, memoryview(cut)[:4096])
    assert len(file.reads) < 500
    if facts is not None:
        assert facts.num_samples
        assert facts.sample_rate > 0


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 2**31, 2**32 - 1])
@pytest.mark.parametrize("kind", [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"mp4a", b"stts", b"elst"])
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_absurd_sizes_give_a_load_or_an_error(kind: bytes, size: int, plain: bytes) -> None:
    at = plain.index(kind, plain.index(b"moov")) - 4
    data = plain[:at] + size.to_bytes(4, "big") + plain[at + 4 :]
    try:
        audio = await aioaudio.load(data, timeout=30)
    except AudioError:
        return
    assert audio.num_samples > 0
