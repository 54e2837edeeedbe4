"""`open` as an operation: its options are checked here."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Literal

import torch

from aioaudio.audio import Clip, check_number, clip_of
from aioaudio.fetch import Source, resolve
from aioaudio.options import LoadOptions, RawPCM, as_channels, check_timeout
from aioaudio.stream.reader import AudioReader
from aioaudio.stream.reading import Reading
from aioaudio.stream.serving import Serving
from aioaudio.workers import Workers

__all__ = ["StreamOperations"]


class StreamOperations:
    """`open`, for a class that has `workers`."""

    @property
    def workers(self) -> Workers:
        """The threads that do the work."""
        raise NotImplementedError

    def open(
        self,
        source: Source | Clip,
        *,
        chunk_seconds: float = 1.0,
        hop_seconds: float | None = None,
        start_seconds: float = 0,
        stop_seconds: float | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        channels: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        track: int | str | None = None,
        format: str | RawPCM | None = None,
        on_damage: Literal["raise", "conceal"] = "raise",
        verify: bool = False,
        max_seconds: float | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
    ) -> AudioReader:
        """Open a source to be decoded piece by piece, in the memory of a few chunks.

        Args:
            source: As in `load`. What arrives (an async iterable, an async or blocking file object, a FIFO) is decoded
                as it comes, and only sought forward.
            chunk_seconds: Length of the chunks that `async for` gives; the last one may be shorter.
            hop_seconds: From the start of one chunk to that of the next; None is `chunk_seconds`. Smaller, chunks
                overlap; larger, what lies between them is left out.
            start_seconds: Where reading begins; this, and the options up to `format`, are as in `load`.
            on_damage: What to do when samples are missing or wrong: "raise" a `DamagedAudioError` in the place of the
                chunk where that is, which carries what the chunk holds, or "conceal": list it in the chunk's `damage`.
            verify: As in `load`; what was verified is known at the end, and told by the last chunk.
            max_seconds: Refuse to give more than this; at once, where the header tells the length.
            max_bytes: Refuse a source that is larger, in bytes. What arrives in a format that must be there as a whole
                is held up to this many bytes, 256 MiB where it is None.
            timeout: Seconds that a chunk may take, counted from when a worker begins with it; of a source that arrives,
                seconds of silence while its bytes are waited for.

        Returns:
            An `AudioReader`. Nothing is opened before the first samples are asked for.

        Raises, at once, ValueError and TypeError for wrong options; as samples are asked for, what `load` raises.
        """
        clip = clip_of(source, start_seconds, stop_seconds, track)
        options = LoadOptions(
            start_seconds=clip.start_seconds,
            stop_seconds=clip.stop_seconds,
            sample_rate=sample_rate,
            num_channels=num_channels,
            channels=as_channels(channels),
            dtype=dtype,
            track=clip.track,
            format=format,
            on_damage=on_damage,
            verify=verify,
            max_seconds=max_seconds,
            max_bytes=max_bytes,
        )
        check_timeout(timeout)
        resolved = resolve(clip.source)
        _check_positive("chunk_seconds", chunk_seconds)
        if hop_seconds is not None:
            _check_positive("hop_seconds", hop_seconds)

        def serve(workers: Workers, home: asyncio.AbstractEventLoop | None) -> Serving:
            return Serving(workers, resolved, options, timeout, home)

        hop_seconds = chunk_seconds if hop_seconds is None else hop_seconds
        own = clip if clip is source else None
        return AudioReader(Reading(lambda: self.workers, serve, clip.start_seconds, chunk_seconds, hop_seconds, own))


def _check_positive(name: str, value: float) -> None:
    check_number(name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number of seconds, not {value!r}")
