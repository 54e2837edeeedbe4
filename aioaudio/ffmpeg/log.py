"""What FFmpeg says while it works: part of the damage is told nowhere else.

Its log has one callback and one level for the whole process. PyAV's logging is off unless the program turns it on: then
our own callback stands in for it while anybody listens here, and nobody else sees a difference. Where the program has
turned it on, or our callback cannot be had, PyAV's own capture serves, with the level ERROR meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import av.logging

from aioaudio.ffmpeg.gate import CALLBACK_TYPE, open_gate
from aioaudio.ffmpeg.libav import library_function
from aioaudio.ffmpeg.setting import Setting

__all__ = ["LogMessage", "captured_log"]

LogMessage = tuple[int, str, str]  # level, logger, text

_MAX_MESSAGE = 1024


@contextlib.contextmanager
def captured_log() -> Iterator[list[LogMessage]]:
    """The errors that FFmpeg logs in this thread meanwhile, as (level, logger, text)."""
    with _log, _captured_by_pyav() if _log.uses_pyav else _captured_here() as messages:
        yield messages


class _Log(Setting):
    """The log's callback and level: ours, or PyAV's with its level at ERROR."""

    def __init__(self) -> None:
        self._set_callback = library_function("av_log_set_callback", ctypes.c_void_p)
        self._gate = None if self._set_callback is None else open_gate(_callback, av.logging.ERROR)
        self._before: tuple[int | None, bool] | None = None
        super().__init__()

    @property
    def uses_pyav(self) -> bool:
        """Whether PyAV has to capture; while it is set."""
        assert self._before is not None
        return self._gate is None or self._before[0] is not None

    def _set(self) -> None:
        is_first = self._before is None
        if is_first:
            self._before = av.logging.get_level(), av.logging.get_skip_repeated()
        if not self.uses_pyav:
            self._set_callback(self._gate)  # each time, in case that somebody has set another meanwhile
        elif is_first:
            av.logging.set_level(av.logging.ERROR)
            # Repeats are dropped across threads: with them skipped, most damage would go unseen.
            av.logging.set_skip_repeated(False)

    def _put_back(self) -> None:
        if self._before is not None:
            level, skip_repeated = self._before
            av.logging.set_level(level)  # and PyAV's callback with it
            av.logging.set_skip_repeated(skip_repeated)
            self._before = None


@contextlib.contextmanager
def _captured_by_pyav() -> Iterator[list[LogMessage]]:
    with av.logging.Capture(local=True) as messages:
        yield messages


@contextlib.contextmanager
def _captured_here() -> Iterator[list[LogMessage]]:
    outer = getattr(_here, "messages", None)
    messages: list[LogMessage] = []
    _here.messages = messages
    try:
        yield messages
    finally:
        _here.messages = outer


_here = threading.local()


class _AVClass(ctypes.Structure):
    """The beginning of libavutil's AVClass, to which the first member of every context points."""

    _fields_ = (
        ("class_name", ctypes.c_char_p),
        ("item_name", ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
    )


def _on_message(context: int | None, level: int, template: bytes, arguments: int) -> None:
    messages: list[LogMessage] | None = getattr(_here, "messages", None)
    if messages is not None:
        text = ctypes.create_string_buffer(_MAX_MESSAGE)
        _vsnprintf(text, _MAX_MESSAGE, template, arguments)
        messages.append((level, _name_of(context), text.value.decode("utf-8", "backslashreplace")))


_callback = CALLBACK_TYPE(_on_message)


def _name_of(context: int | None) -> str:
    kind = ctypes.POINTER(_AVClass).from_address(context) if context else None
    if not kind or not kind.contents.item_name:
        return ""
    name: bytes | None = kind.contents.item_name(context)
    return (name or b"").decode("utf-8", "backslashreplace")


_vsnprintf: Any = ctypes.pythonapi.PyOS_vsnprintf
_vsnprintf.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p

_log = _Log()
