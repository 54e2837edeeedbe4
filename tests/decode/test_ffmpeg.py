"""How FFmpeg is spoken to: names in graph text, whitelists, errors, messages, threads."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from pathlib import Path

import av
import av.error
import av.logging
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media import MediaLibrary

import aioaudio
from aioaudio import ffmpeg
from aioaudio.errors import AudioError

FFMPEG_ERRORS = [
    error
    for _, error in inspect.getmembers(av.error, inspect.isclass)
    if issubclass(error, av.error.FFmpegError) and error is not av.error.FFmpegError
]


@pytest.mark.parametrize("error", FFMPEG_ERRORS, ids=lambda error: error.__name__)
def test_every_error_of_ffmpeg_becomes_one_of_ours(error: type[av.error.FFmpegError]) -> None:
    translated = ffmpeg.translate(error(5, "as it says"), "a.mp3")
    assert isinstance(translated, AudioError)
    assert translated.source == "a.mp3"
    if issubclass(error, FileNotFoundError):
        assert isinstance(translated, aioaudio.SourceNotFound)
    if issubclass(error, av.error.LookupError):
        assert isinstance(translated, aioaudio.UnsupportedAudioError)


special = st.sampled_from([b"'", b":", b";", b",", b"[", b"]", b"=", b"\\", b"|", b"%", b"{", b'"', b"\n", b"@", b" "])
pieces = special | st.characters(codec="utf-8").map(str.encode) | st.binary(min_size=1, max_size=2)
names = (
    st.lists(pieces, min_size=1, max_size=30)
    .map(b"".join)
    .filter(lambda name: not set(name) & {0, ord("/")} and name not in (b".", b".."))
)


@given(name=names)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_file_name_works_and_none_is_graph_text(name: bytes, media: MediaLibrary) -> None:
    made = media.make("flac", seconds=0.1)
    folder = made.path.parent / "names"
    folder.mkdir(exist_ok=True)
    path = folder / os.fsdecode(name)
    path.write_bytes(made.path.read_bytes())
    try:
        audio = aioaudio.sync.load(path, sample_rate=16_000)
        assert audio.num_samples == -(-made.num_samples // 3)
    finally:
        path.unlink()


SCRIPTS = {
    "list.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n",
    "list.ffconcat": "ffconcat version 1.0\nfile {target}\n",
    "show.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
    "show.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet '
    'mimeType="audio/mp4"><Representation id="1" bandwidth="1"><BaseURL>{target}</BaseURL></Representation>'
    "</AdaptationSet></Period></MPD>",
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("suffix", ["", ".mp3", ".wav"])
async def test_scripts_reach_no_other_file(script: str, suffix: str, media: MediaLibrary, tmp_path: Path) -> None:
    target = tmp_path / "target.flac"
    target.write_bytes(media.make("flac").path.read_bytes())
    for reference in (target.name, str(target), f"file:{target}"):
        path = tmp_path / (script + suffix)
        path.write_text(SCRIPTS[script].format(target=reference))
        for source in (path, path.read_bytes()):
            for operation in (aioaudio.load, aioaudio.info):
                with pytest.raises((aioaudio.UnsupportedAudioError, aioaudio.CorruptAudioError)):
                    await operation(source)


def test_a_graph_has_one_filter_thread_and_leaves_the_affinity(media: MediaLibrary) -> None:
    allowed = os.sched_getaffinity(0)
    before = len(os.listdir("/proc/self/task"))
    text = f"amovie=filename={ffmpeg.filename_option(str(media.make('flac').path))}:dec_threads=1[out0]"
    with ffmpeg.open_graph(text):
        assert len(os.listdir("/proc/self/task")) <= before + 1
    assert os.sched_getaffinity(0) == allowed


def test_log_settings_come_back_once_nobody_reads() -> None:
    ffmpeg.release_log()
    before = av.logging.get_level(), av.logging.get_skip_repeated()
    entered, leave = threading.Event(), threading.Event()

    def read() -> None:
        with ffmpeg.captured_log():
            entered.set()
            leave.wait()

    reader = threading.Thread(target=read)
    reader.start()
    entered.wait()
    ffmpeg.release_log()
    assert (av.logging.get_level(), av.logging.get_skip_repeated()) == (av.logging.ERROR, False)
    leave.set()
    reader.join()
    assert (av.logging.get_level(), av.logging.get_skip_repeated()) == before


async def test_aclose_gives_the_log_back(data: Path) -> None:
    await aioaudio.aclose()
    before = av.logging.get_level()
    await asyncio.gather(*(aioaudio.load(data / "jfk.mp3") for _ in range(4)))
    await aioaudio.aclose()
    assert av.logging.get_level() == before
