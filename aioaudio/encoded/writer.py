"""Bytes as they arrive, gathered."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Self

from aioaudio.encoded.access import byte_view
from aioaudio.encoded.descriptor import AnonymousFile, may_open_another
from aioaudio.encoded.faults import buffer_error, limit_error
from aioaudio.encoded.held import Encoded

__all__ = ["EncodedWriter"]

# What is gathered in memory before there is a file: less than this is cheaper to keep as bytes.
_SPILL_BYTES = 256 * 1024


class EncodedWriter:
    """Collects bytes as they arrive into an `Encoded`; raises LimitError beyond `max_bytes`.

    One writes at a time. `close`, or leaving it as a context manager, drops what was not finished, at any time and
    from any thread: a write that is still at work in another ends undisturbed, and what it wrote goes with it.
    """

    def __init__(self, name: str, *, max_bytes: int | None = None) -> None:
        self.name = name
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._memory = bytearray()  # what is not in the file yet
        self._file: AnonymousFile | None = None
        self._spills = True
        self._closed = False

    def fits(self, num_bytes: int) -> bool:
        """Whether writing the next `num_bytes` only touches memory, within microseconds; else it is for a thread."""
        return num_bytes <= _SPILL_BYTES - (len(self._memory) if self._spills else 0)

    @property
    def is_in_memory(self) -> bool:
        """Whether all of it is held in memory: then `finish` has nothing to write."""
        return self._file is None

    def write(self, data: Any) -> None:
        """Append `data`, any bytes-like object. Raises FetchError where there is no room for it."""
        view = byte_view(data)
        if not view.contiguous:
            view = memoryview(view.tobytes())
        self.num_bytes += len(view)
        if self._max_bytes is not None and self.num_bytes > self._max_bytes:
            raise limit_error(self._max_bytes, self.name)
        file = None if self.fits(len(view)) else self._spilled()
        if file is None:
            self._memory += view
        else:
            self._write_out(self._memory, file)
            self._memory = bytearray()
            self._write_out(view, file)

    def finish(self) -> Encoded:
        """What was written, as an `Encoded`; the last call."""
        memory, file = self._memory, self._file
        self._memory, self._file = bytearray(), None
        if file is None:
            return Encoded._holding(memoryview(memory).toreadonly(), self.num_bytes, self.name)
        self._write_out(memory, file)
        return Encoded._holding(file, self.num_bytes, self.name)

    def close(self) -> None:
        """Drop what was written and not finished."""
        self._closed = True
        self._memory, self._file = bytearray(), None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _spilled(self) -> AnonymousFile | None:
        file = self._file
        if file is None and self._spills:
            with contextlib.suppress(OSError):  # no descriptor left, or nowhere to put it
                file = AnonymousFile() if may_open_another() else None
            self._spills = file is not None
            self._file = file
            if self._closed:  # in another thread, perhaps just before the line above
                self._file = None
        return file

    def _write_out(self, data: bytearray | memoryview, file: AnonymousFile) -> None:
        try:
            file.write(data)
        except OSError as error:
            raise buffer_error(error, self.name) from error
