"""What yields results: one kind of object for event loops, and one for code without."""

from __future__ import annotations

import asyncio
import warnings
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["Arriving", "BlockingArriving", "Ended", "Holder", "Work"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Ended(Exception):
    """No more results come. An error of its own kind: any other may be one that a source raises."""


class Work(Protocol[R_co]):
    """What a consumer holds of the work that makes results; the work holds nothing of the consumer."""

    @property
    def is_open(self) -> bool:
        """Whether work may be going on."""
        ...

    def start(self, home: asyncio.AbstractEventLoop | None) -> None:
        """Begin, if that has not been done; `home` is the caller's loop, if it has one."""
        ...

    async def take(self) -> R_co:
        """The next result. Raises Ended at the end."""
        ...

    def take_blocking(self) -> R_co:
        """`take` in a thread that may block."""
        ...

    def stop(self) -> None:
        """Have the work end, soon. Never waits, and takes no lock: a finalizer may call it."""
        ...

    async def close(self) -> None:
        """End the work, and wait for its end."""
        ...

    def close_blocking(self) -> None:
        """`close` in a thread that may block."""
        ...


class Holder(Generic[R]):
    """Whoever holds a work, and should let go of it in good order."""

    _run: Work[R]

    def __del__(self) -> None:
        run = getattr(self, "_run", None)
        if run is not None and run.is_open:
            warnings.warn(
                f"unclosed {self!r}: use 'with', or go to its end", ResourceWarning, source=self, stacklevel=2
            )
            run.stop()


class Arriving(Holder[R]):
    """Results for an event loop, by `async for`; best inside `async with`."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        self._run.start(asyncio.get_running_loop())
        try:
            return await self._run.take()
        except Ended:
            await self._exhausted()
            raise StopAsyncIteration from None
        except Exception:
            await self.aclose()
            raise

    async def _exhausted(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the work, and wait for its end. May be called again."""
        await self._run.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class BlockingArriving(Holder[R]):
    """Results for code without an event loop, by `for`; best inside `with`."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        self._run.start(None)
        try:
            return self._run.take_blocking()
        except Ended:
            self._exhausted()
            raise StopIteration from None
        except Exception:
            self.close()
            raise

    def _exhausted(self) -> None:
        self.close()

    def close(self) -> None:
        """End the work, and wait for its end. May be called again."""
        self._run.close_blocking()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
