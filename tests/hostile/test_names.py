"""Any file name works, and none says anything to FFmpeg."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media import KINDS, MediaLibrary

import aioaudio
from aioaudio.decode.probe import probe
from aioaudio.encoded import LocalFile
from aioaudio.ffmpeg import filename_option, open_graph

special = st.sampled_from([b"'", b":", b";", b",", b"[", b"]", b"=", b"\\", b"|", b"%", b"{", b'"', b"\n", b"@", b" "])
injections = st.sampled_from(
    [
        *(b"[out0];amovie=x", b"'[o];anullsrc[p]'", b":format_name=hls", b"file:", b"concat:", b"http:", b".m3u8"),
        *(b"%d", b"%03d.png", b"*.jpg", b"?", b"{a,b}.png"),  # sequences of pictures
        *(b"-i", b"~", b"$HOME", b"\r", b"\xff\xfe", b"\xc3\x28", "é音".encode()),
    ]
)
pieces = special | injections | st.characters(codec="utf-8").map(str.encode) | st.binary(min_size=1, max_size=2)
names = (
    st.lists(pieces, min_size=1, max_size=30)
    .map(b"".join)
    .filter(lambda name: not set(name) & {0, ord("/")} and name not in (b".", b"..") and len(name) < 256)
)


@given(name=names, kind=st.sampled_from(["wav", "flac", "mp3", "vorbis", "aac", "adts", "flac-mka", "tta", "caf"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_name_of_a_file_works(name: bytes, kind: str, media: MediaLibrary) -> None:
    made = media.make(kind, seconds=0.1)
    intact = aioaudio.sync.load(made.path, sample_rate=16_000)
    folder = made.path.parent / "names"
    folder.mkdir(exist_ok=True)
    path = os.fsencode(folder) + b"/" + name
    with open(path, "wb") as file:
        file.write(made.path.read_bytes())
    try:
        for source in (os.fsdecode(path), Path(os.fsdecode(path))):
            assert aioaudio.sync.load(source, sample_rate=16_000).waveform.equal(intact.waveform)
            assert aioaudio.sync.load(source, sample_rate=16_000, verify=True).waveform.equal(intact.waveform)
        assert aioaudio.sync.info(Path(os.fsdecode(path))) == aioaudio.sync.info(made.path)
    finally:
        os.unlink(path)


@given(name=names)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_name_can_stand_in_the_text_of_a_graph(name: bytes, media: MediaLibrary) -> None:
    """As it does where files cannot be opened by descriptor, and for those that FFmpeg knows by their ending alone."""
    folder = media.make("flac", seconds=0.1).path.parent / "graphs"
    folder.mkdir(exist_ok=True)
    path = os.fsencode(folder) + b"/" + name
    with open(path, "wb") as file:
        file.write(media.make("flac", seconds=0.1).path.read_bytes())
    try:
        text = f"amovie=filename={filename_option(path)}:format_name=flac[out0]"
        with open_graph(text) as container:
            assert len(container.streams) == 1
            assert sum(frame.samples for frame in container.decode(audio=0)) == 4_800
    finally:
        os.unlink(path)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_ending_of_the_name_plays_no_part(kind: str, media: MediaLibrary, tmp_path: Path) -> None:
    made = media.make(kind)
    intact = await aioaudio.load(made.path)
    for name in ("x.png", "x%d.png", "x*.jpg", "x.m3u8", "x.ac3", "x.yuv", "x.wav", "x.txt", "x.s16le", "x"):
        path = tmp_path / name
        path.write_bytes(made.path.read_bytes())
        assert (await aioaudio.load(path)).waveform.equal(intact.waveform), name


async def test_what_has_no_header_is_known_by_its_ending_or_its_format(tmp_path: Path) -> None:
    path = tmp_path / "x.g722"
    path.write_bytes(bytes(range(250)) * 40)
    audio = await aioaudio.load(path)
    assert (audio.sample_rate, audio.num_samples) == (16_000, 20_000)
    assert (await aioaudio.load(path.read_bytes(), format="g722")).waveform.equal(audio.waveform)


def test_a_name_that_is_given_to_another_file_meanwhile_does_no_harm(media: MediaLibrary, tmp_path: Path) -> None:
    path, other = tmp_path / "x", tmp_path / "other"
    path.write_bytes(media.make("aac").path.read_bytes())
    other.write_text("#EXTM3U\n")
    with LocalFile(path).open() as file:
        os.replace(other, path)
        assert probe(file.ffmpeg_path(), "x").facts.codec == "aac"
