"""The one place for how FFmpeg is spoken to: whitelists, names in graph text, errors, log messages, threads.

Input is hostile: every open names the one protocol that it may use and the containers that it may take for audio, since
playlists and scripts reach other files in spite of the protocol's whitelist.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import re
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import av.error
import av.logging
from av.container import InputContainer

from aioaudio.encoded import source_error
from aioaudio.errors import AudioError, CorruptAudioError, UnsupportedAudioError
from aioaudio.options import CONTAINERS

__all__ = [
    "LogMessage",
    "captured_log",
    "filename_option",
    "format_option",
    "open_graph",
    "open_input",
    "quote",
    "release_log",
    "seconds",
    "translate",
]


# Tags in a broken encoding must not fail: PyAV below 19 has to be told, later ones replace by themselves.
_METADATA: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}

LogMessage = tuple[int, str, str]  # level, logger, text


def quote(text: str) -> str:
    """Quote `text` as a value in graph text: once for the option, once for the graph, without quotation marks.

    Everything but letters, digits and `_ / . -` gets a backslash, at both levels.
    """
    once = re.sub(r"([^A-Za-z0-9_/.\-])", r"\\\1", text)
    return re.sub(r"([^A-Za-z0-9_/.\-])", r"\\\1", once)


def filename_option(path: str | bytes) -> str:
    """The value of `filename=` in graph text for a local path; "file:" keeps FFmpeg from seeing a protocol in it."""
    return quote("file:" + os.fsdecode(path))


_WHITELISTS = {"protocol_whitelist": "file", "format_whitelist": ",".join(CONTAINERS)}


def format_option(options: dict[str, str]) -> str:
    """The value of `format_opts=` in graph text: `options` of a demuxer, behind the whitelists of every open."""
    return _QUOTED_WHITELISTS + "".join(quote(f":{key}={value}") for key, value in options.items())


# Quoted once: it is long, and in the text of every member of every group.
_QUOTED_WHITELISTS = quote(":".join(f"{key}={value}" for key, value in _WHITELISTS.items()))


def open_input(
    path: str | bytes, *, format: str | None = None, options: dict[str, str] | None = None
) -> InputContainer:
    """Open a local file with FFmpeg's demuxers. Raises av's errors: pass them to `translate`."""
    container: InputContainer = av.open(
        "file:" + os.fsdecode(path), format=format, options={**_WHITELISTS, **(options or {})}, **_METADATA
    )
    return container


def open_graph(text: str) -> InputContainer:
    """Open a filter graph as one container, with one filter thread instead of one for each CPU."""
    with _one_cpu():
        return av.open(text, format="lavfi")


def seconds(ticks: int, time_base: Any) -> Fraction:
    """`ticks` of a `time_base`, which is a Fraction in PyAV below 19 and a rational of its own after."""
    return Fraction(ticks * time_base.numerator, time_base.denominator)


@contextlib.contextmanager
def _one_cpu() -> Iterator[None]:
    """FFmpeg starts as many filter threads as the calling thread may use CPUs; nothing else changes that number."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class _Log:
    """FFmpeg's log, turned to what damage is read from. The settings are the process's: put back once nobody reads."""

    def __init__(self) -> None:
        self._before: tuple[int | None, bool] | None = None
        self._released = False
        self.forget_readers()

    def forget_readers(self) -> None:
        """In the child of a fork, none of the parent's threads is there to read, or to let go of the lock."""
        self._lock = threading.Lock()
        self._num_readers = 0

    def begin(self) -> None:
        with self._lock:
            self._num_readers += 1
            self._released = False
            if self._before is None:
                self._before = av.logging.get_level(), av.logging.get_skip_repeated()
                av.logging.set_level(av.logging.ERROR)
                # Repeats are dropped across threads: with them skipped, most damage would go unseen.
                av.logging.set_skip_repeated(False)

    def end(self) -> None:
        with self._lock:
            self._num_readers -= 1
            self._put_back()

    def release(self) -> None:
        with self._lock:
            self._released = True
            self._put_back()

    def _put_back(self) -> None:
        if self._released and self._num_readers == 0 and self._before is not None:
            level, skip_repeated = self._before
            av.logging.set_level(level)
            av.logging.set_skip_repeated(skip_repeated)
            self._before = None


_log = _Log()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_log.forget_readers)


@contextlib.contextmanager
def captured_log() -> Iterator[list[LogMessage]]:
    """The errors that FFmpeg logs in this thread meanwhile, as (level, logger, text).

    Sets av's process-wide log level to ERROR, unskipped, until `release_log`. Other users of PyAV then find FFmpeg's
    errors in the loggers "libav.*".
    """
    _log.begin()
    try:
        with av.logging.Capture(local=True) as messages:
            yield messages
    finally:
        _log.end()


def release_log() -> None:
    """Put av's log settings back to what they were, once nobody captures; the next `captured_log` sets them again."""
    _log.release()


_UNSUPPORTED = (
    av.error.LookupError, av.error.PatchWelcomeError, av.error.ExperimentalError, av.error.NotImplementedError,
)  # fmt: skip


def translate(error: av.error.FFmpegError, name: str, messages: list[LogMessage] | None = None) -> AudioError:
    """The `AudioError` for what FFmpeg raised while it worked on the source `name`."""
    said = [text.strip() for _, _, text in messages or ()]
    if any("not on whitelist" in text for text in said):
        return UnsupportedAudioError("not an audio container (playlists and scripts are refused)", source=name)
    if isinstance(error, av.error.MemoryError):
        return CorruptAudioError("its header asks for more memory than there is", source=name)
    if isinstance(error, _UNSUPPORTED):
        return UnsupportedAudioError(f"FFmpeg cannot decode it ({_reason(error, said)})", source=name)
    if isinstance(error, builtins.FileNotFoundError):  # taken away since it was opened here
        return source_error(error, name)
    # Whatever else the system is said to have answered is about the content: the bytes have been read here before.
    return CorruptAudioError(f"FFmpeg cannot decode it ({_reason(error, said)})", source=name)


def _reason(error: av.error.FFmpegError, said: list[str]) -> str:
    # FFmpeg's first message is about the cause, the later ones about its consequences.
    return said[0] if said else (error.strerror or type(error).__name__)
