"""Names and options in the text of a filter graph, and the whitelists of every open."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import av

from aioaudio.options import CONTAINERS

__all__ = ["WHITELISTS", "filename_option", "format_option", "quote"]


def quote(text: str) -> str:
    """Quote `text` as a value in graph text: once for the option, once for the graph, without quotation marks.

    Everything but letters, digits and `_ / . -` gets a backslash, at both levels.
    """
    once = re.sub(r"([^A-Za-z0-9_/.\-])", r"\\\1", text)
    return re.sub(r"([^A-Za-z0-9_/.\-])", r"\\\1", once)


def filename_option(path: str | bytes) -> str:
    """The value of `filename=` in graph text for a local path; "file:" keeps FFmpeg from seeing a protocol in it."""
    return quote("file:" + os.fsdecode(path))


def _audio_decoders() -> Iterator[str]:
    for name in sorted(av.codecs_available):
        with contextlib.suppress(ValueError):  # an encoder only
            if av.Codec(name, "r").type == "audio":
                yield name


WHITELISTS = {
    "protocol_whitelist": "file",
    "format_whitelist": ",".join(CONTAINERS),
    "codec_whitelist": ",".join(_audio_decoders()),
}


def format_option(options: dict[str, str]) -> str:
    """The value of `format_opts=` in graph text: `options` of a demuxer, behind the whitelists of every open."""
    return _QUOTED_WHITELISTS + "".join(quote(f":{key}={value}") for key, value in options.items())


# Quoted once: it is long, and in the text of every member of every group.
_QUOTED_WHITELISTS = quote(":".join(f"{key}={value}" for key, value in WHITELISTS.items()))
