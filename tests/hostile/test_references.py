"""Playlists, scripts and references reach no other file and no host, whatever opens them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import av
import av.error
import pytest
import torch
from media import MediaLibrary

sys.path.insert(0, str(Path(__file__).parent))

from canaries import Canaries, canaries
from references import hostile_files, targets

import aioaudio
from aioaudio.decode.facts import Facts
from aioaudio.decode.frames import FrameDecode, decode_frames
from aioaudio.decode.graph import Member, decode_members
from aioaudio.decode.plan import make_plan
from aioaudio.decode.prepare import Piece
from aioaudio.decode.probe import probe
from aioaudio.options import CONTAINERS, LoadOptions

TARGETS = list(targets(Path("canary.wav"), 1))
ENDINGS = ["", ".mp3", ".wav", ".m4a", ".m3u8"]

# Demuxers that open what their input names, by FFmpeg's documentation and sources.
FOLLOWERS = "applehttp concat dash hls image2 imf lavfi rtp rtsp sap sdp vapoursynth vobsub webm_dash_manifest".split()


@pytest.fixture
def birds(media: MediaLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    monkeypatch.chdir(tmp_path)  # for names that are relative to it
    with canaries(tmp_path, media.make("wav", seconds=0.5).path) as birds:
        yield birds


def files(birds: Canaries, target: str, media: MediaLibrary) -> list[tuple[str, bytes]]:
    m4a = media.make("aac", seconds=0.5).path.read_bytes()
    return list(hostile_files(targets(birds.file, birds.port)[target], m4a))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_no_load_reaches_what_a_file_names(
    target: str, birds: Canaries, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    folder, num_endings = birds.file.parent, soak(len(ENDINGS))
    for i, (kind, data) in enumerate(files(birds, target, media)):
        for ending in (ENDINGS[i % len(ENDINGS) :] + ENDINGS)[:num_endings]:
            path = folder / f"hostile{ending}"
            path.write_bytes(data)
            with path.open("rb") as file:
                for source in (path, data, file):
                    for options in ({}, {"verify": True, "on_damage": "conceal"}):
                        await attempt(aioaudio.load(source, **options), kind)
                    file.seek(0)
            await attempt(aioaudio.info(path, exact=True), kind)
            assert birds.touched() == [], (kind, ending)


async def attempt(operation: Awaitable[object], kind: str) -> None:
    """It must fail; only an MP4 may hold its sound itself, beside the reference."""
    try:
        await operation
    except aioaudio.AudioError:
        return
    assert kind.startswith("dref")


@pytest.mark.asyncio(loop_factories=["asyncio"])
@pytest.mark.parametrize("target", ["relative", "absolute", "http"])
async def test_no_name_of_a_format_opens_a_way(
    target: str, birds: Canaries, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    path, step = birds.file.parent / "hostile", 10 // soak(10)
    for i, (kind, data) in enumerate(files(birds, target, media)):
        path.write_bytes(data)
        for name in CONTAINERS[i % step :: step]:
            # Some demuxers take any bytes for sound: of a script, as of anything.
            with contextlib.suppress(aioaudio.AudioError):
                await aioaudio.load(path, format=name, max_seconds=10)
            assert birds.touched() == [], (kind, name)
        await aioaudio.load(data, format=aioaudio.RawPCM("u8", 8_000))
        assert birds.touched() == [], kind
    for name in FOLLOWERS:
        with pytest.raises(ValueError, match="format must be one of"):
            await aioaudio.load(path, format=name)


def test_no_demuxer_that_follows_names_is_on_the_list() -> None:
    assert set(FOLLOWERS) & set(CONTAINERS) == set()
    assert set(FOLLOWERS) & set(av.formats_available) >= {"hls", "concat", "dash", "sdp", "image2", "lavfi"}


@pytest.mark.parametrize("target", ["relative", "absolute", "file", "http"])
def test_no_engine_opens_what_a_file_names(target: str, birds: Canaries, media: MediaLibrary) -> None:
    """Each engine for itself, as if what goes before it had let the file pass."""
    facts = Facts(container="wav", codec="pcm_s16le", sample_rate=48_000, num_channels=1)
    plan, options = make_plan(facts, LoadOptions()), LoadOptions()
    path = birds.file.parent / "hostile"
    for kind, data in files(birds, target, media):
        path.write_bytes(data)
        (outcome,) = decode_members(
            [Member(path=str(path), facts=facts, plan=plan, matrix=None, double=False)], [Flag()]
        )
        held = kind.startswith("dref")
        assert held or outcome.num_samples == 0
        job = FrameDecode(
            pieces=[Piece(str(path), facts)], name=kind, facts=facts, options=options, dtype=torch.float32
        )
        with contextlib.suppress(aioaudio.AudioError):
            decode_frames(job, Flag())
            assert held
        with contextlib.suppress(aioaudio.AudioError):
            probe(str(path), kind)
            assert held
        assert birds.touched() == [], kind


class Flag:
    """A stop flag that is never set."""

    is_set = False
    deadline = None


@pytest.mark.parametrize(
    ("kind", "target", "reached"),
    [
        ("m3u8", "relative", "file"),
        ("m3u8", "http", "host"),
        ("ffconcat", "relative", "file"),
    ],
)
def test_canaries_tell_of_ffmpeg_without_whitelists(
    kind: str, target: str, reached: str, birds: Canaries, media: MediaLibrary
) -> None:
    path = birds.file.parent / "hostile.m3u8"
    path.write_bytes(dict(files(birds, target, media))[kind])
    # Nobody answers at the host: the connection is what counts.
    protocols = {"protocol_whitelist": "file,http,tcp", "allowed_extensions": "ALL", "extension_picky": "0"}
    with contextlib.suppress(av.error.FFmpegError):
        av.open(str(path), timeout=0.2, options=protocols).close()
    assert reached in birds.touched()


@pytest.mark.parametrize(
    "name",
    [
        *("ftp://127.0.0.1:{port}/x.wav", "tcp://127.0.0.1:{port}", "concat:{file}", "file:{file}", "cache:{file}"),
        *("subfile,,start,0,end,0,,:{file}", "data:audio/wav;base64,UklGRg==", "pipe:0", "fd:", "amovie={file}"),
    ],
)
async def test_a_str_that_is_no_url_of_http_is_a_path(name: str, birds: Canaries) -> None:
    with pytest.raises(ValueError if "//" in name else aioaudio.SourceNotFound):
        await aioaudio.load(name.format(port=birds.port, file=birds.file.name))
    assert birds.touched() == []
