"""Timeouts, cancellation, closing, forks and blocked loops: nothing is left, and nothing waits that need not."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp import web
from servers import Breaking, Server, Stalling, status, whole

import aioaudio
from aioaudio import HTTPOptions, Session
from aioaudio.fetch.http import URL, http_body
from aioaudio.fetch.http.resolver import Resolver
from aioaudio.workers import Workers

ASYNCIO = pytest.mark.asyncio(loop_factories=["asyncio"])


@pytest.fixture
def speech(data: Path) -> bytes:
    return (data / "ljspeech.mp3").read_bytes()


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("options", "after", "message"),
    [
        ({"read_timeout": 0.05}, None, "silent for read_timeout=0.05"),
        ({"read_timeout": 0.05}, 1000, "silent for read_timeout=0.05"),
        ({"total_timeout": 0.05}, 1000, "not read within total_timeout=0.05"),
        ({"connect_timeout": 0.05, "read_timeout": 0.1}, None, "silent for read_timeout=0.1"),
    ],
)
@ASYNCIO
async def test_silence_ends_a_fetch_once_and_for_all(
    options: dict[str, Any], after: int | None, message: str, server: Server, speech: bytes
) -> None:
    stalling = Stalling(speech, after)
    async with Session(http=HTTPOptions(**options)) as session:
        with pytest.raises(aioaudio.AudioTimeout, match=message):
            await session.load(server.add(stalling))
    assert len(server.requests) == 1
    await until(stalling.left.is_set)


@ASYNCIO
async def test_what_never_connects_ends_a_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(*_: Any, **__: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(Resolver, "resolve", look_up)
    async with Session(http=HTTPOptions(connect_timeout=0.05)) as session:
        with pytest.raises(aioaudio.AudioTimeout, match=r"no connection within connect_timeout=0\.05"):
            await session.fetch("http://example.org/a")


@ASYNCIO
async def test_timeout_counts_from_when_a_request_has_its_turn(server: Server, speech: bytes) -> None:
    first = Stalling(speech, 1000)
    url, slow = server.add(speech), server.add(first)
    async with Session(http=HTTPOptions(max_connections_per_host=1)) as session:
        blocking = asyncio.create_task(session.fetch(slow))
        await until(first.stalled.is_set)
        waiting = asyncio.create_task(session.load(url, timeout=5))
        with pytest.raises(aioaudio.AudioTimeout, match=r"not read within timeout=0\.05"):
            async with Session() as another:
                await another.load(slow, timeout=0.05)
        assert not waiting.done()
        assert len(server.requests) == 2
        first.go_on()  # to the later of the two
        blocking.cancel()
        assert (await waiting).num_channels == 1


@ASYNCIO
async def test_no_timeout_counts_while_the_consumer_is_slow(server: Server, speech: bytes) -> None:
    large = speech * 30
    limit = 0.3
    workers = Workers(http=HTTPOptions(connect_timeout=limit, read_timeout=limit, total_timeout=limit))

    async def consume() -> bytes:
        async with http_body(URL(server.add(large)), workers) as body:
            assert body.num_bytes == len(large)
            blocks = [await body.read_block()]
            await asyncio.sleep(1.2 * limit)
            while block := await body.read_block():
                blocks.append(block)
        return b"".join(blocks)

    assert await asyncio.wrap_future(workers.io().run(consume())) == large
    assert len(server.requests) == 1
    await workers.aclose()


@pytest.mark.parametrize("after", [None, 0, 1000, 400_000])
async def test_a_cancelled_load_ends_at_once_and_leaves_nothing(
    after: int | None, server: Server, speech: bytes
) -> None:
    stalling = Stalling(speech * 20, after)
    async with Session() as session:
        load = asyncio.create_task(session.load(server.add(stalling)))
        await until(stalling.stalled.is_set)
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        await until(stalling.left.is_set)  # the connection, while the session lives on
        assert session.workers.statistics().slots_used == 0
        assert (await session.load(server.add(speech))).num_channels == 1


@ASYNCIO
async def test_a_load_that_waits_for_its_turn_or_to_retry_is_cancelled(server: Server, speech: bytes) -> None:
    stalling = Stalling(speech, 0)
    async with Session(http=HTTPOptions(max_connections_per_host=1, backoff=60)) as session:
        first = asyncio.create_task(session.fetch(server.add(stalling)))
        await until(stalling.stalled.is_set)
        second = asyncio.create_task(session.fetch(server.add(speech)))
        await asyncio.sleep(0)
        for task in (second, first):
            task.cancel()
        await asyncio.wait([first, second])
        busy = asyncio.create_task(session.fetch(server.add(status(503))))
        await until(lambda: len(server.requests) == 2)
        assert bytes(await session.fetch(server.add(b"x"))) == b"x"  # who waits to retry holds no connection
        busy.cancel()
        await asyncio.wait([busy])
        assert all(task.cancelled() for task in (first, second, busy))


@pytest.mark.parametrize("after", [None, 1000])
async def test_aclose_ends_what_is_under_way(after: int | None, server: Server, speech: bytes) -> None:
    stalling = Stalling(speech, after)
    url = server.add(stalling)
    async with Session() as session:
        loads = [asyncio.create_task(session.load(url)) for _ in range(3)]
        await until(lambda: len(server.requests) == 3)
    for load in loads:
        with pytest.raises(aioaudio.ClosedError):
            await load
    await until(lambda: server.num_open == 0)


@ASYNCIO
async def test_aclose_closes_idle_connections_also_those_of_https(
    server: Server, secure: Server, trust: Any, speech: bytes
) -> None:
    async with Session(http=HTTPOptions(ssl_context=trust[1])) as session:
        for one in (server, secure):
            await session.fetch(one.add(speech))
        transports = [one.requests[0].transport for one in (server, secure)]
    await until(lambda: all(transport is None or transport.is_closing() for transport in transports))


@pytest.mark.parametrize("after", [None, 0, 1000])
@ASYNCIO
async def test_a_peer_that_says_no_goodbye_holds_up_nothing(
    after: int | None, secure: Server, trust: Any, speech: bytes
) -> None:
    stalling = Stalling(speech, after)
    dead = threading.Event()
    async with Session(http=HTTPOptions(ssl_context=trust[1])) as session:
        await session.fetch(secure.add(speech))
        loads = [asyncio.create_task(session.load(secure.add(stalling))) for _ in range(2)]
        await until(lambda: len(secure.requests) == 3)
        secure.call(lambda: dead.wait(60))
        loads[0].cancel()
        await asyncio.wait(loads[:1])
    dead.set()
    await asyncio.wait(loads)
    assert isinstance(loads[1].exception(), aioaudio.ClosedError)


@ASYNCIO
async def test_a_handshake_that_never_ends_holds_up_nothing(trust: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with Session(http=HTTPOptions(ssl_context=trust[1])) as session:
            load = asyncio.create_task(session.load(f"https://127.0.0.1:{listener.getsockname()[1]}/a"))
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        with connection, pytest.raises(aioaudio.ClosedError):
            await load


@ASYNCIO
async def test_a_server_that_dies_at_any_moment_leaves_nothing(speech: bytes) -> None:
    async with Session(http=HTTPOptions(retries=1, backoff=0.001)) as session:
        for after in (None, 0, 1000):
            stalling = Stalling(speech, after)
            with Server() as server:
                load = asyncio.create_task(session.load(server.add(stalling)))
                await until(stalling.stalled.is_set)
            with pytest.raises(aioaudio.FetchError):
                await load


@ASYNCIO
async def test_cancelled_at_random_moments_the_next_load_is_right(server: Server, speech: bytes) -> None:
    expected = aioaudio.sync.load(speech).waveform
    urls = [server.add(speech), server.add(Breaking(speech, 10_000, ETag='"a"')), server.add(status(503))]
    async with Session(http=HTTPOptions(backoff=0.001)) as session:
        for moment in range(15):
            loads = [asyncio.create_task(session.load(url)) for url in urls]
            for _ in range(moment):
                await asyncio.sleep(0.0005)
            for load in loads:
                load.cancel()
            await asyncio.wait(loads)
        assert torch.equal((await session.load(urls[1])).waveform, expected)
        assert session.workers.statistics().slots_used == 0


@ASYNCIO
async def test_downloads_go_on_while_the_loop_is_blocked(server: Server, speech: bytes) -> None:
    enough = threading.Event()
    num_clips = 24

    async def counts(request: web.Request) -> web.StreamResponse:
        if len(server.requests) == num_clips:
            enough.set()
        return await whole(speech)(request)

    url = server.add(counts)
    async with aioaudio.batches([url] * num_clips, batch_size=4, prefetch=8) as batches:
        num_rows = 0
        async for batch in batches:
            assert enough.wait(60)  # blocks this loop until all have come
            num_rows += len(batch.lengths)
    assert num_rows == num_clips

    enough.clear()
    server.requests.clear()
    num_clips = 5
    loads = [asyncio.ensure_future(aioaudio.load(url)) for _ in range(num_clips)]
    await asyncio.sleep(0)  # they begin
    assert enough.wait(60)
    assert len(await asyncio.gather(*loads)) == num_clips


def load_in_child(url: str, results: Any) -> None:
    results.send(aioaudio.sync.load(url).num_samples)


def test_a_forked_child_has_connections_of_its_own(server: Server, speech: bytes) -> None:
    peers = set()

    async def notes(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return await whole(speech)(request)

    url = server.add(notes)
    expected = aioaudio.sync.load(url).num_samples
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with ours, theirs:
        for _ in range(2):
            child = context.Process(target=load_in_child, args=(url, theirs))
            child.start()
            assert ours.poll(60)
            assert ours.recv() == expected
            child.join()
            assert child.exitcode == 0
            child.close()
            assert aioaudio.sync.load(url).num_samples == expected
    assert len(peers) == 3  # one of the parent, one of each child
