"""The errors of aioaudio. Each one is also the builtin that a caller would catch, and names its source.

    AudioError
    ├── SourceError                          the bytes cannot be had
    │   ├── SourceNotFound (FileNotFoundError)
    │   ├── SourceDenied (PermissionError)
    │   └── FetchError (OSError)             any other failure of reading
    ├── CorruptAudioError (ValueError)       nothing decodes
    ├── UnsupportedAudioError (ValueError)   well formed, but no audio track or no decoder for it
    ├── DamagedAudioError (ValueError)       a part decodes; carries .audio and .damage
    ├── LimitError (ValueError)              larger than max_seconds or max_bytes
    ├── AudioTimeout (TimeoutError)          not done within timeout
    └── ClosedError (RuntimeError)           used after aclose()

Wrong arguments are plain TypeError and ValueError, raised before any work begins. Only `SourceError` and what
stands under it are worth a retry: the others would fail again on the same bytes.
"""

from __future__ import annotations

import errno as _errno
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aioaudio.audio import Audio, Damage

__all__ = [
    "AudioError",
    "AudioTimeout",
    "ClosedError",
    "CorruptAudioError",
    "DamagedAudioError",
    "FetchError",
    "LimitError",
    "SourceDenied",
    "SourceError",
    "SourceNotFound",
    "UnsupportedAudioError",
]


class AudioError(Exception):
    """Base of every error that aioaudio raises about a source.

    `message` says what is wrong, `source` names what it was loaded from (None where there is no source), and
    `str(error)` is "source: message". Errors pickle.
    """

    def __init__(self, message: str, *, source: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.source = source

    def __str__(self) -> str:
        return self.message if self.source is None else f"{self.source}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would lose keyword-only arguments; the instance's dict holds them all, and the notes too.
        return _rebuild, (type(self), self.message, self.__dict__.copy())


def _rebuild(cls: type[AudioError], message: str, state: dict[str, Any]) -> AudioError:
    error = cls(message)
    error.__dict__.update(state)
    return error


class SourceError(AudioError):
    """The bytes of the source cannot be had; `status` is that of the HTTP answer that says so, None without one."""

    status: int | None = None


class SourceNotFound(SourceError, FileNotFoundError):
    """There is no such file."""

    errno = _errno.ENOENT


class SourceDenied(SourceError, PermissionError):
    """The file may not be read by this process."""

    errno = _errno.EACCES


class FetchError(SourceError, OSError):
    """Reading the source failed; `errno` is the system's number where it gave one."""

    errno: int | None = None


class CorruptAudioError(AudioError, ValueError):
    """Nothing of the source decodes: it is empty, is not audio, or is broken beyond use."""


class UnsupportedAudioError(AudioError, ValueError):
    """The source is well formed, but has no audio track, or none that this FFmpeg can decode."""


class DamagedAudioError(AudioError, ValueError):
    """A part of the source decodes; the rest is missing or wrong.

    `audio` is what decoded, as `on_damage="conceal"` would have returned it, and `damage` says where and how.
    """

    audio: Audio | None = None
    damage: tuple[Damage, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        audio: Audio | None = None,
        damage: tuple[Damage, ...] = (),
    ) -> None:
        super().__init__(message, source=source)
        self.audio = audio
        self.damage = damage


class LimitError(AudioError, ValueError):
    """The source is larger than `max_seconds` or `max_bytes` allow. Nothing is ever cut to a limit."""


class AudioTimeout(AudioError, TimeoutError):
    """The work was not done within `timeout` seconds."""


class ClosedError(AudioError, RuntimeError):
    """A session was used after its `aclose()`."""
