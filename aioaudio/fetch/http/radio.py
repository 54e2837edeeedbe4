"""The audio of a body that is played, with what is told between its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from aioaudio.encoded import Mark
from aioaudio.fetch.http.answer import Answer
from aioaudio.fetch.http.body import HTTPBody
from aioaudio.fetch.http.icy import Demixer

__all__ = ["played_blocks"]


async def played_blocks(body: HTTPBody) -> AsyncGenerator[bytes | Mark]:
    """The blocks of a body that was entered, without metadata, and in its place what that says.

    What a station is called comes first. Where it was connected to again, what follows is a stream of its own.
    """
    loop = asyncio.get_running_loop()
    answer: Answer | None = None
    demixer: Demixer | None = None
    said: object = None
    while True:
        asked_at = loop.time()
        block = await body.read_block()
        if body.answer is not answer:
            is_first, answer, said = answer is None, body.answer, None
            demixer = Demixer(answer.interval) if answer.interval is not None else None
            if answer.station is not None and is_first:
                yield Mark("station", answer.station)
            elif answer.station is not None:
                yield Mark("reconnect", {**answer.station, "seconds": f"{loop.time() - asked_at:.3f}"})
        if not block:
            return
        for part in [block] if demixer is None else demixer.push(block):
            if isinstance(part, bytes):
                yield part
            elif part != said:  # some stations say the same again and again
                said = part
                yield Mark("metadata", part)
