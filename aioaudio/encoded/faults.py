"""What the system says about bytes, as errors that name their source."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from aioaudio.errors import AudioError, FetchError, LimitError, SourceDenied, SourceError, SourceNotFound

__all__ = ["buffer_error", "limit_error", "reading", "source_error"]


def source_error(error: OSError, name: str) -> SourceError:
    """The `SourceError` for what the system said about the source `name`, with its errno."""
    translated: SourceError
    match error:
        case FileNotFoundError() | NotADirectoryError():
            translated = SourceNotFound("no such file", source=name)
        case PermissionError():
            translated = SourceDenied("permission denied", source=name)
        case IsADirectoryError():
            translated = FetchError("is a directory", source=name)
        case _:
            translated = FetchError(f"reading failed: {_reason(error)}", source=name)
    if error.errno is not None:
        translated.errno = error.errno
    return translated


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns an OSError of the reading within into the `SourceError` of the source `name`."""
    try:
        yield
    except AudioError:
        raise
    except OSError as error:
        raise source_error(error, name) from error


def buffer_error(error: OSError, name: str) -> FetchError:
    """The error for bytes of the source `name` that could be had, but not held."""
    fetch_error = FetchError(f"cannot be buffered: {_reason(error)}", source=name)
    fetch_error.errno = error.errno
    return fetch_error


def limit_error(max_bytes: int, name: str) -> LimitError:
    """The error for a source that is larger than `max_bytes`."""
    return LimitError(f"more than max_bytes={max_bytes} bytes", source=name)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
