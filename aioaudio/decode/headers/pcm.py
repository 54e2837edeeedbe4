"""Plain PCM: recognises the headers that need no FFmpeg, and says where the samples lie."""

from __future__ import annotations

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.aiff import parse_aiff, parse_au
from aioaudio.decode.headers.riff import W64_MAGIC, parse_riff, parse_w64
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["parse"]


def parse(file: OpenBytes, head: memoryview) -> Facts | None:
    """The facts of a file of plain PCM, with `pcm` set; None where it is none that is known here.

    `head` is the beginning of the file: 4096 bytes, or all where it is shorter. Known are PCM (integers, floats, A-law
    and mu-law) in RIFF, RIFX, RF64, BW64, Sony Wave64, AIFF, AIFF-C and Sun AU. `num_samples` is what the header
    promises; where the file ends before, `damage` says so. A size that was never filled in means all up to the end.
    Raises CorruptAudioError, without a source, for a header that leaves nothing to decode, and SourceError where
    reading fails.
    """
    window = Window(file, head)
    magic, form = bytes(head[:4]), bytes(head[8:12])
    if magic in (b"RIFF", b"RIFX", b"RF64", b"BW64") and form == b"WAVE":
        return parse_riff(window, magic)
    if magic == b"FORM" and form in (b"AIFF", b"AIFC"):
        return parse_aiff(window, form)
    if magic == b".snd":
        return parse_au(window)
    if magic == b"riff" and bytes(head[:16]) == W64_MAGIC and bytes(head[24:28]) == b"wave":
        return parse_w64(window)
    return None
