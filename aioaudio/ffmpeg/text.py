"""Names and options in the text of a filter graph, and the whitelists of every open."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re

import av

from aioaudio.options import CONTAINERS

__all__ = ["filename_option", "format_option", "quote", "whitelists"]


def quote(text: str) -> str:
    """Quote `text` as a value in graph text: once for the option, once for the graph, without quotation marks.

    Everything but letters, digits and `_ / . -` gets a backslash, at both levels.
    """
    once = re.sub(r"([^A-Za-z0-9_/.\-])", r"\\\1", text)
    return re.sub(r"([^A-Za-z0-9_/.\-])", r"\\\1", once)


def filename_option(path: str | bytes) -> str:
    """The value of `filename=` in graph text for a local path; "file:" keeps FFmpeg from seeing a protocol in it."""
    return quote("file:" + os.fsdecode(path))


@functools.cache
def _audio_decoders() -> dict[str, list[str]]:
    """The names of FFmpeg's decoders of sound, by codec."""
    decoders: dict[str, list[str]] = {}
    for name in sorted(av.codecs_available):
        with contextlib.suppress(ValueError):  # an encoder only
            codec = av.Codec(name, "r")
            if codec.type == "audio":
                decoders.setdefault(codec.canonical_name, []).append(name)
    return decoders


@functools.cache
def whitelists() -> dict[str, str]:
    """The options of every open that keep it to local files, containers of audio, and decoders of sound."""
    return {
        "protocol_whitelist": "file",
        "format_whitelist": ",".join(CONTAINERS),
        "codec_whitelist": ",".join(itertools.chain(*_audio_decoders().values())),
    }


def format_option(options: dict[str, str], demuxer: str | None, codec: str) -> str:
    """The value of `format_opts=` in graph text: `options` of a demuxer, behind the whitelists of every open.

    With a `demuxer`, the file is known to be of that format, and its sound of that `codec`.
    """
    listed = _quoted_whitelists(demuxer, codec if demuxer is not None else None)
    return listed + "".join(quote(f":{key}={value}") for key, value in options.items())


@functools.lru_cache
def _quoted_whitelists(demuxer: str | None, codec: str | None) -> str:
    # Kept, and no longer than need be: they are in the text of every member of every group, quoted twice.
    listed = dict(whitelists())
    if demuxer is not None:
        listed["format_whitelist"] = demuxer
    decoders = _audio_decoders().get(codec) if codec is not None else None
    if decoders is not None:
        listed["codec_whitelist"] = ",".join(decoders)
    return quote(":".join(f"{key}={value}" for key, value in listed.items()))
