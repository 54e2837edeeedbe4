"""From FFmpeg's errors to ours."""

from __future__ import annotations

import builtins
import errno

import av.error

from aioaudio.encoded import source_error
from aioaudio.errors import AudioError, CorruptAudioError, UnsupportedAudioError
from aioaudio.ffmpeg.log import LogMessage

__all__ = ["NO_CONTAINER", "translate"]

#: The message about formats that are not on the list: pictures, playlists, scripts.
NO_CONTAINER = "not an audio container"

_UNSUPPORTED = (
    av.error.LookupError, av.error.PatchWelcomeError, av.error.ExperimentalError, av.error.NotImplementedError,
)  # fmt: skip


def translate(error: av.error.FFmpegError, name: str, messages: list[LogMessage] | None = None) -> AudioError:
    """The `AudioError` for what FFmpeg raised while it worked on the source `name`."""
    # That no picture is decoded is meant to be so.
    said = [text.strip() for _, _, text in messages or () if not text.startswith("Codec (")]
    if any("not on whitelist" in text for text in said):
        return UnsupportedAudioError(NO_CONTAINER, source=name)
    if isinstance(error, av.error.MemoryError):
        return CorruptAudioError("its header asks for more memory than there is", source=name)
    if isinstance(error, _UNSUPPORTED):
        return UnsupportedAudioError(f"FFmpeg cannot decode it ({_reason(error, said)})", source=name)
    if isinstance(error, builtins.FileNotFoundError):  # taken away since it was opened here
        return source_error(error, name)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return source_error(error, name)
    # Whatever else the system is said to have answered is about the content: the bytes have been read here before.
    return CorruptAudioError(f"FFmpeg cannot decode it ({_reason(error, said)})", source=name)


def _reason(error: av.error.FFmpegError, said: list[str]) -> str:
    # FFmpeg's first message is about the cause, the later ones about its consequences.
    return said[0] if said else (error.strerror or type(error).__name__)
