"""The `timeout` of reading a source."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from aioaudio.errors import AudioTimeout

__all__ = ["time_limit"]


@contextlib.asynccontextmanager
async def time_limit(name: str, seconds: float | None) -> AsyncIterator[Callable[[], None]]:
    """Raises AudioTimeout `seconds` after what it gives is called, which any thread may do."""
    if seconds is None:
        yield lambda: None
        return
    loop = asyncio.get_running_loop()
    scope = asyncio.timeout(None)
    is_open = True

    def start() -> None:
        if is_open:
            scope.reschedule(loop.time() + seconds)

    def begin() -> None:
        loop.call_soon_threadsafe(start)

    try:
        async with scope:
            yield begin
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise AudioTimeout(f"not read within timeout={seconds} seconds", source=name) from error
    finally:
        is_open = False
