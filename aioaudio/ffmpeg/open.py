"""How files and graphs are opened."""

from __future__ import annotations

import ctypes
import os
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer

from aioaudio.ffmpeg.libav import library_function
from aioaudio.ffmpeg.setting import Setting
from aioaudio.ffmpeg.text import whitelists

__all__ = ["one_cpu", "open_graph", "open_input", "open_pipe", "seconds"]


# Tags in a broken encoding must not fail: PyAV below 19 has to be told, later ones replace by themselves.
_METADATA: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}


def open_input(
    path: str | bytes, *, format: str | None = None, options: dict[str, str] | None = None
) -> InputContainer:
    """Open a local file with FFmpeg's demuxers. Raises av's errors: pass them to `translate`."""
    container: InputContainer = av.open(
        "file:" + os.fsdecode(path), format=format, options={**whitelists(), **(options or {})}, **_METADATA
    )
    return container


def open_pipe(fd: int, *, format: str | None = None, options: dict[str, str] | None = None) -> InputContainer:
    """Open what comes through a descriptor, which stays the caller's. Waits for the first bytes. Raises av's errors."""
    own = {"fd": str(fd), "protocol_whitelist": "fd"}
    container: InputContainer = av.open(
        "fd:", format=format, options={**whitelists(), **own, **(options or {})}, **_METADATA
    )
    return container


def open_graph(text: str) -> InputContainer:
    """Open a filter graph as one container, with one filter thread instead of one for each CPU."""
    with one_cpu:
        return av.open(text, format="lavfi")


def seconds(ticks: int, time_base: Any) -> Fraction:
    """`ticks` of a `time_base`, which is a Fraction in PyAV below 19 and a rational of its own after."""
    return Fraction(ticks * time_base.numerator, time_base.denominator)


class _OneCpu(Setting):
    """How many CPUs FFmpeg believes in: each graph would start a filter thread for each of them, and one more.

    No option of a graph changes that; what does is a number in libavutil, which is the whole process's. It is 1 while
    any of our graphs is being opened: a decoder that somebody else opens with PyAV just then has a single thread, too.
    """

    def __init__(self) -> None:
        # Where it cannot be reached, FFmpeg starts its threads, and that is all.
        self._force = library_function("av_cpu_force_count", ctypes.c_int)
        super().__init__()

    def _set(self) -> None:
        if self._force is not None:
            self._force(1)

    def _put_back(self) -> None:
        if self._force is not None:
            self._force(_ASK_THE_SYSTEM)


_ASK_THE_SYSTEM = -1

#: While it is entered, what FFmpeg opens starts one thread where it would start one for each CPU.
one_cpu = _OneCpu()
