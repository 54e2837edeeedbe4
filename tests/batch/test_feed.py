"""The input gives every clip once, in order, whatever the timing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aioaudio.audio import Clip
from aioaudio.batch.feed import Feed, open_feed
from aioaudio.batch.order import Order, Progress
from aioaudio.workers import Workers


async def drain(feed: Feed, rng: random.Random) -> list[int]:
    come: list[int] = []
    while entries := await feed.take(count := rng.randint(1, 9)):
        assert len(entries) <= count
        come += [entry.clip.source for entry in entries]
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
    return come


class Stream:
    """Numbers that come one after another, for `async for` too."""

    def __init__(self, count: int, rng: random.Random) -> None:
        self.count, self.rng = count, rng

    async def __aiter__(self) -> AsyncIterator[int]:
        for number in range(self.count):
            for _ in range(self.rng.randrange(3)):
                await asyncio.sleep(0)
            yield number


@pytest.mark.parametrize("patience", [0.0, 0.02])
@pytest.mark.parametrize("kind", ["list", "iterable", "async"])
async def test_every_clip_comes_once_in_order(
    kind: str, patience: float, soak: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioaudio.batch.feed._PATIENCE_SECONDS", patience)
    workers = Workers(read_threads=2)
    for seed in range(soak(600)):
        rng = random.Random(seed)
        count = rng.randrange(60)
        clips: Any = {"list": [*range(count)], "iterable": iter(range(count)), "async": Stream(count, rng)}[kind]
        feed = open_feed(clips, Clip, Order(), Progress(), workers, None)
        assert await drain(feed, rng) == [*range(count)]
        feed.close()
    await workers.aclose()
