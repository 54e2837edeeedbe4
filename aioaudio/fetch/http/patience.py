"""Timeouts that count only while somebody waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from aioaudio.errors import AudioTimeout
from aioaudio.fetch.http.options import HTTPOptions

__all__ = ["Patience"]


class Patience:
    """The timeouts of one body: those of each wait, and what is left of the total."""

    def __init__(self, options: HTTPOptions, name: str, began: Callable[[], None] | None = None) -> None:
        """`began` is called once, when the first request has its turn."""
        self._options, self._name, self._began = options, name, began
        self._left = options.total_timeout

    def begin(self) -> None:
        """A request has its turn."""
        if self._began is not None:
            self._began()
            self._began = None

    @contextlib.asynccontextmanager
    async def limit(self, timeout: str | None) -> AsyncIterator[Callable[[str], None]]:
        """Raise AudioTimeout once what runs within has taken longer than the option named `timeout`, or the total.

        What it gives begins the count of another option instead.
        """
        loop = asyncio.get_running_loop()
        began, total = loop.time(), self._left
        end = None if total is None else began + total
        why = ""

        def begin(timeout: str | None) -> None:
            nonlocal why
            ends: list[tuple[float, str]] = [(end, "total_timeout")] if end is not None else []
            if timeout is not None and (seconds := getattr(self._options, timeout)) is not None:
                ends.append((loop.time() + seconds, timeout))
            first, why = min(ends) if ends else (None, "")
            scope.reschedule(first)

        try:
            async with asyncio.timeout(None) as scope:
                begin(timeout)
                yield begin
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise AudioTimeout(
                f"{_MESSAGES[why]} {why}={getattr(self._options, why)} seconds", source=self._name
            ) from error
        finally:
            if total is not None:
                self._left = total - (loop.time() - began)


_MESSAGES = {
    "connect_timeout": "no connection within",
    "read_timeout": "the server was silent for",
    "total_timeout": "not read within",
}
