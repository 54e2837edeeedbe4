"""`open` of URLs: what comes over a bad line is what a load of the same bytes gives, or the named error."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp import web
from media import MediaLibrary
from servers import Breaking, Handler, Server, Stalling, chunked, compressed, redirect, status, whole

import aioaudio
from aioaudio import Audio, HTTPOptions, Session

ASYNCIO = pytest.mark.asyncio(loop_factories=["asyncio"])
QUICK = HTTPOptions(retries=2, backoff=0.001)
ETAG = {"ETag": '"a"'}

KINDS = ["mp3", "aac", "fast start", "flac", "opus", "vorbis", "wav", "opus-webm"]


def joined(chunks: list[Audio]) -> torch.Tensor:
    return torch.cat([torch.zeros(chunks[0].num_channels if chunks else 1, 0), *(c.waveform for c in chunks)], dim=1)


async def read_all(session: Session, url: str, **options: Any) -> tuple[list[Audio], Exception | None]:
    chunks: list[Audio] = []
    try:
        async for chunk in session.open(url, **{"chunk_seconds": 0.37, **options}):
            chunks.append(chunk)  # noqa: PERF401
    except aioaudio.AudioError as error:
        return chunks, error
    return chunks, None


@pytest.fixture
def bytes_of(media: MediaLibrary, data: Path) -> Any:
    def make(kind: str) -> bytes:
        if kind == "fast start":
            return moved_to_the_front((data / "jfk.m4a").read_bytes())
        return media.make(kind, seconds=3.0).path.read_bytes()

    return make


def moved_to_the_front(data: bytes) -> bytes:
    """An MP4 whose index is in front of its samples; one whose index is behind them otherwise."""
    at, boxes = 0, {}
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        boxes[data[at + 4 : at + 8]] = (at, data[at : at + size])
        at += size
    (moov_at, moov), (mdat_at, mdat) = boxes[b"moov"], boxes[b"mdat"]
    if moov_at < mdat_at:
        return data
    before = data[:mdat_at]
    moov = bytearray(moov)
    table = moov.index(b"stco")
    for number in range(int.from_bytes(moov[table + 8 : table + 12], "big")):
        place = table + 12 + 4 * number
        offset = int.from_bytes(moov[place : place + 4], "big") + len(moov)
        moov[place : place + 4] = offset.to_bytes(4, "big")
    return before + bytes(moov) + mdat


@pytest.mark.parametrize("kind", KINDS)
@ASYNCIO
async def test_what_comes_over_any_line_is_what_load_gives(kind: str, bytes_of: Any, server: Server) -> None:
    data = bytes_of(kind)
    lines: dict[str, Handler] = {
        "whole": whole(data),
        "drip": chunked(data, 997),
        "gzip": compressed(data, "gzip"),
        "continued": Breaking(data, len(data) // 3 + 1, **ETAG),
        "busy": status(503, 429, then=whole(data)),
    }
    expected = (await aioaudio.load(data)).waveform
    async with Session(http=QUICK) as session:
        for name, handler in lines.items():
            url = server.add(handler, f"/{name}")
            chunks, error = await read_all(session, server.add(redirect(url)))
            assert error is None, name
            assert joined(chunks).equal(expected), name
            assert not any(chunk.events for chunk in chunks)


@pytest.mark.parametrize("kind", ["mp3", "aac", "flac", "opus-webm"])
@ASYNCIO
async def test_what_cannot_be_had_is_the_error_behind_what_has_come(kind: str, bytes_of: Any, server: Server) -> None:
    data = bytes_of(kind)
    half = len(data) // 2
    expected = (await aioaudio.load(data)).waveform
    stalling = Stalling(data, half)
    cases: list[tuple[Handler, type[Exception], bool]] = [
        (status(403), aioaudio.SourceDenied, False),
        (status(404), aioaudio.SourceNotFound, False),
        (status(503), aioaudio.FetchError, False),
        (redirect("ftp://example.org/a.mp3"), aioaudio.FetchError, False),
        (Breaking(data, half, ranges=False), aioaudio.FetchError, True),  # no validator to continue it by
        (Breaking(data, half, ranges=False, **ETAG), aioaudio.FetchError, True),  # the whole again
        (Breaking(data, half, later={"ETag": '"b"'}, **ETAG), aioaudio.FetchError, True),  # another one
        (stalling, aioaudio.AudioTimeout, True),
    ]
    for handler, kind_of_error, has_begun in cases:
        read_timeout = 0.3 if handler is stalling else None
        async with Session(http=replace(QUICK, read_timeout=read_timeout)) as session:
            chunks, error = await read_all(session, server.add(handler))
        assert type(error) is kind_of_error
        given = joined(chunks)
        assert given.equal(expected[:, : given.shape[1]])
        if not has_begun or kind == "aac":  # its index is at the end
            assert chunks == []
        else:
            assert given.shape[1] >= 0.25 * expected.shape[1]
    await asyncio.to_thread(stalling.left.wait)


@ASYNCIO
async def test_a_consumer_that_stays_away_loses_no_connection(media: MediaLibrary, server: Server) -> None:
    """Longer than all the timeouts, which count only while bytes are waited for; the server may not run far ahead."""
    limit, num_sent = 0.3, 0
    data = media.make("wav", seconds=60.0, sample_rate=192_000).path.read_bytes()

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal num_sent
        response = web.StreamResponse()
        response.content_length = len(data)
        await response.prepare(request)
        for start in range(0, len(data), 16_384):
            await response.write(data[start : start + 16_384])
            num_sent += 16_384
        return response

    options = HTTPOptions(read_timeout=limit, total_timeout=20 * limit, retries=0)
    async with Session(http=options) as session, session.open(server.add(counted), chunk_seconds=1.0) as reader:
        chunks = [await anext(reader)]
        await asyncio.sleep(1.5 * limit)
        before = num_sent
        await asyncio.sleep(1.5 * limit)
        assert num_sent == before < len(data)  # it stands, with what the system holds on the way
        chunks += [chunk async for chunk in reader]
    assert len(server.requests) == 1
    assert joined(chunks).equal((await aioaudio.load(data)).waveform)


@ASYNCIO
async def test_leaving_at_random_moments_leaves_no_connection(server: Server, media: MediaLibrary, soak: Any) -> None:
    """Nor task, thread or descriptor: the fixtures of every test look for those."""
    data = media.make("mp3", seconds=4.0).path.read_bytes()
    urls = [
        server.add(handler)
        for handler in (chunked(data), Breaking(data, 9_000, **ETAG), Breaking(data, 9_000), Stalling(data, 20_000))
    ]

    async def consume(rng: random.Random, session: Session) -> None:
        async with session.open(rng.choice(urls), chunk_seconds=rng.choice([0.02, 0.5])) as reader:
            async for _ in reader:
                if rng.random() < 0.1:
                    break

    async with Session(decode_threads=1, http=HTTPOptions(backoff=0.001)) as session:
        for seed in range(soak(600)):
            rng = random.Random(seed)
            task = asyncio.ensure_future(consume(rng, session))
            await asyncio.sleep(rng.choice([0, 0.001, 0.01]) * rng.random())
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is None or isinstance(task.exception(), aioaudio.AudioError)
        assert session.workers.statistics().slots_used == 0
        while server.num_open:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@ASYNCIO
async def test_a_server_that_dies_ends_its_streams(media: MediaLibrary) -> None:
    data = media.make("mp3", seconds=4.0).path.read_bytes()
    stalling = Stalling(data, len(data) // 2)
    async with Session(http=QUICK) as session:
        with Server() as server:
            url = server.add(stalling)
            readers = [asyncio.ensure_future(read_all(session, url)) for _ in range(4)]
            await asyncio.to_thread(stalling.stalled.wait)
        for chunks, error in await asyncio.gather(*readers):
            assert isinstance(error, aioaudio.SourceError)
            assert sum(chunk.duration_seconds for chunk in chunks) <= 2.1


@ASYNCIO
async def test_open_streams_take_no_place_from_others(media: MediaLibrary, server: Server) -> None:
    url = server.add(media.make("wav", seconds=60.0, sample_rate=48_000, channels=2).path.read_bytes())
    async with (
        Session(http=replace(QUICK, max_connections_per_host=1)) as session,
        session.open(url) as first,
        session.open(url) as second,
    ):
        chunks = [await anext(first), await anext(second)]
        encoded = await session.fetch(server.add(b"small"))
    assert [chunk.num_samples for chunk in chunks] == [48_000, 48_000]
    assert bytes(encoded) == b"small"
