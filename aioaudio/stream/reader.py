"""Readers: a source as audio that arrives, for event loops and for code without."""

from __future__ import annotations

import asyncio

from aioaudio.arriving import Arriving, BlockingArriving
from aioaudio.audio import Audio, AudioInfo, as_int, check_range
from aioaudio.stream.reading import Reading

__all__ = ["AudioReader", "BlockingAudioReader"]


class AudioReader(Arriving[Audio]):
    """A source that is decoded as it is asked for: by `async for`, which gives chunks, or by `read`.

    Each chunk is an `Audio` of its own; `start_seconds` says where on the timeline of the source it begins. Best used
    inside `async with`, which lets go of the source in any case. A little is decoded ahead of whoever consumes it, who
    may block the event loop.

    An error and `aclose()` end it, and so does going to the end; but `seek` begins anew after the end. Leaving a loop
    early without `async with` or `aclose()` gives a ResourceWarning. Cancelling an await loses no samples: the next
    one gives them. Several tasks may ask at once, and are served one after another.
    """

    _run: Reading

    def __init__(self, run: Reading) -> None:
        self._run = run

    async def _exhausted(self) -> None:
        await self._run.let_go()

    async def read(self, num_samples: int) -> Audio:
        """The next `num_samples` samples; fewer, and then none, at the end.

        Raises what `load` raises for the part that is read.
        """
        num_samples = _as_count(num_samples)
        self._run.start(asyncio.get_running_loop())
        try:
            return await self._run.read(num_samples)
        except Exception:
            await self.aclose()
            raise

    async def seek(self, seconds: float) -> None:
        """Go to a place on the timeline of the source, in seconds from its first sample, as `start_seconds` in `load`.

        What is read afterwards equals what a load from there gives. Past the end, nothing is.
        """
        check_range(seconds, None)
        self._run.start(asyncio.get_running_loop())
        await self._run.seek(seconds)

    def tell(self) -> float:
        """Where the next samples begin, in seconds from the first sample of the source."""
        return self._run.tell()

    async def info(self) -> AudioInfo:
        """What `aioaudio.info` tells of the source."""
        self._run.start(asyncio.get_running_loop())
        return await self._run.info()

    def blocking(self) -> BlockingAudioReader:
        """The same for code without an event loop, before anything is asked for."""
        self._run.check_not_begun()
        return BlockingAudioReader(self._run)


class BlockingAudioReader(BlockingArriving[Audio]):
    """An `AudioReader` for code without an event loop: `for` gives chunks, and `with` lets go of it.

    The work is done by the library's own threads, so this may be used beside a running event loop, in Jupyter for one;
    it blocks the thread that it is used in. One thread may use it at a time.
    """

    _run: Reading

    def __init__(self, run: Reading) -> None:
        self._run = run

    def _exhausted(self) -> None:
        self._run.let_go_blocking()

    def read(self, num_samples: int) -> Audio:
        """As `AudioReader.read`."""
        num_samples = _as_count(num_samples)
        self._run.start(None)
        try:
            return self._run.read_blocking(num_samples)
        except Exception:
            self.close()
            raise

    def seek(self, seconds: float) -> None:
        """As `AudioReader.seek`."""
        check_range(seconds, None)
        self._run.start(None)
        self._run.seek_blocking(seconds)

    def tell(self) -> float:
        """As `AudioReader.tell`."""
        return self._run.tell()

    def info(self) -> AudioInfo:
        """As `AudioReader.info`."""
        self._run.start(None)
        return self._run.info_blocking()


def _as_count(num_samples: int) -> int:
    num_samples = as_int("num_samples", num_samples)
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, not {num_samples}")
    return num_samples
