"""The one place for how FFmpeg is spoken to: whitelists, names in graph text, errors, messages, threads.

Input is hostile: every open names the one protocol that it may use, the containers that it may take for audio, since
playlists and scripts reach other files in spite of the protocol's whitelist, and the decoders, since FFmpeg decodes
cover pictures and video when it looks at a file, which takes time, and any amount of memory.
"""

from __future__ import annotations

from aioaudio.ffmpeg.faults import NO_CONTAINER, translate
from aioaudio.ffmpeg.log import LogMessage, captured_log
from aioaudio.ffmpeg.open import one_cpu, open_graph, open_input, open_pipe, seconds
from aioaudio.ffmpeg.text import filename_option, format_option, quote

__all__ = [
    "NO_CONTAINER",
    "LogMessage",
    "captured_log",
    "filename_option",
    "format_option",
    "one_cpu",
    "open_graph",
    "open_input",
    "open_pipe",
    "quote",
    "seconds",
    "translate",
]
