"""How FFmpeg is spoken to: errors, messages, threads. Names and whitelists are tested in tests/hostile."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import inspect
import io
import os
import platform
import sys
import threading
from collections.abc import Iterator

import av
import av._core
import av.error
import av.logging
import pytest
from media import MediaLibrary

import aioaudio
from aioaudio import ffmpeg
from aioaudio.errors import AudioError
from aioaudio.ffmpeg import gate, log
from aioaudio.ffmpeg.libav import library_function

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


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_lack_of_descriptors_is_not_the_fault_of_the_file(number: int) -> None:
    translated = ffmpeg.translate(av.error.OSError(number, "Too many open files"), "a.mp3")
    assert isinstance(translated, aioaudio.FetchError)
    assert (translated.errno, translated.source) == (number, "a.mp3")


def test_a_graph_starts_one_filter_thread_and_others_keep_all_cpus(media: MediaLibrary) -> None:
    cpus = library_function_result("av_cpu_count")
    before = len(os.listdir("/proc/self/task"))
    text = f"amovie=filename={ffmpeg.filename_option(str(media.make('flac').path))}:dec_threads=1[out0]"
    with ffmpeg.open_graph(text):
        assert len(os.listdir("/proc/self/task")) <= before + 1
    assert library_function_result("av_cpu_count") == cpus == len(os.sched_getaffinity(0))


def library_function_result(name: str) -> int:
    count: int = getattr(ctypes.PyDLL(av._core.__file__), name)()
    return count


def damaged_messages(media: MediaLibrary) -> list[ffmpeg.LogMessage]:
    """What FFmpeg says about an MP3 with a hole in it."""
    data = bytearray(media.make("mp3", seconds=1).path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 300] = bytes(range(150)) * 2
    with ffmpeg.captured_log() as messages, av.open(io.BytesIO(data)) as container:
        for packet in container.demux():
            with contextlib.suppress(av.error.FFmpegError):
                packet.decode()
    return messages


@pytest.fixture(params=["ours", "PyAV's", "PyAV's, turned on by the program"])
def log_callback(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each way in which messages are caught."""
    if request.param == "ours" and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("FFmpeg's callback is ours only on Linux on x86-64")
    if request.param == "PyAV's":
        monkeypatch.setattr(log._log, "_gate", None)
    if request.param == "PyAV's, turned on by the program":
        av.logging.set_level(av.logging.WARNING)
    yield
    av.logging.set_level(None)


@pytest.mark.usefixtures("log_callback")
def test_errors_are_caught_and_the_settings_come_back(media: MediaLibrary) -> None:
    before = av.logging.get_level(), av.logging.get_skip_repeated()
    messages = damaged_messages(media)
    assert {logger for _, logger, _ in messages} <= {"mp3", "mp3float"}
    assert messages
    assert {level for level, _, _ in messages} == {av.logging.ERROR}
    assert (av.logging.get_level(), av.logging.get_skip_repeated()) == before


def test_each_way_catches_the_same_messages(media: MediaLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = damaged_messages(media)
    monkeypatch.setattr(log._log, "_gate", None)
    # PyAV cuts at 1,023 bytes, too, and keeps the line's end.
    assert [(level, logger, text.strip()) for level, logger, text in ours] == [
        (level, logger, text.strip()) for level, logger, text in damaged_messages(media)
    ]


@pytest.mark.usefixtures("log_callback")
def test_a_thread_hears_only_of_its_own_work(media: MediaLibrary) -> None:
    before = av.logging.get_level()
    entered, leave = threading.Event(), threading.Event()
    heard: list[ffmpeg.LogMessage] = []

    def read() -> None:
        with ffmpeg.captured_log() as messages:
            entered.set()
            leave.wait()
        heard.extend(messages)

    reader = threading.Thread(target=read)
    reader.start()
    entered.wait()
    assert damaged_messages(media)
    leave.set()
    reader.join()
    assert heard == []
    assert av.logging.get_level() == before


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="Linux on x86-64 has the gate")
def test_what_is_no_error_does_not_reach_python(media: MediaLibrary) -> None:
    calls: list[int] = []

    @gate.CALLBACK_TYPE
    def callback(context: int, level: int, template: bytes, arguments: int) -> None:
        calls.append(level)

    set_callback = library_function("av_log_set_callback", ctypes.c_void_p)
    try:
        set_callback(gate.open_gate(callback, av.logging.ERROR))
        for level in (av.logging.PANIC, av.logging.ERROR, av.logging.ERROR + 1, av.logging.INFO, av.logging.TRACE):
            av.logging.log(level, "test", "message")
        with av.open(str(media.make("mp3").path)):  # which says a lot
            pass
    finally:
        av.logging.set_level(None)
    assert calls == [av.logging.PANIC, av.logging.ERROR]
