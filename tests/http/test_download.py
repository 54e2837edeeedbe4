"""Fetching from a real server that misbehaves: the right samples, or the named error."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp import web
from media import MediaLibrary
from servers import Breaking, Handler, Server, Stalling, chunked, compressed, redirect, status, whole

import aioaudio
from aioaudio import HTTPOptions, Session

FORMATS = ["mp3", "aac", "flac", "opus", "vorbis", "wav", "opus-webm"]

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    async with Session(http=HTTPOptions(backoff=0.001, max_backoff=0.01)) as session:
        yield session


@pytest.fixture
def speech(data: Path) -> bytes:
    """An MP3 of 88 kB."""
    return (data / "jfk.mp3").read_bytes()


def misbehaviours(data: bytes) -> dict[str, Handler]:
    """Servers of which each is to be lived with."""
    tag = f'"{hashlib.md5(data).hexdigest()}"'
    return {
        "whole": whole(data),
        "chunked": chunked(data),
        "no length, until it closes": until_closed(data),
        "gzip": compressed(data, "gzip"),
        "deflate": compressed(data, "deflate"),
        "raw deflate": compressed(data, "raw deflate"),
        "breaks off, ETag": Breaking(data, 1 + len(data) // 3, ETag=tag),
        "breaks off, date": Breaking(data, 1 + len(data) // 3, Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT"),
        "breaks off before it begins": first_breaks_off(whole(data)),
        "busy": status(503, 429, 500, then=whole(data), Retry_After="0"),
    }


def until_closed(data: bytes) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"HTTP/1.0 200 OK\r\n\r\n" + data)
        request.transport.close()
        return web.Response()

    return handler


def first_breaks_off(then: Handler) -> Handler:
    asked = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        if len(asked) < 3:
            assert request.transport is not None
            if len(asked) == 2:
                request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
            request.transport.close()
        return await then(request)

    return handler


@pytest.mark.parametrize("kind", FORMATS)
async def test_each_format_is_loaded_from_any_server(
    kind: str, server: Server, session: Session, media: MediaLibrary
) -> None:
    path = media.make(kind, seconds=1.5).path
    expected = aioaudio.sync.load(path).waveform
    described = aioaudio.sync.info(path)
    urls = {name: server.add(handler) for name, handler in misbehaviours(path.read_bytes()).items()}
    for name, url in urls.items():
        audio = await session.load(url)
        assert torch.equal(audio.waveform, expected), name
        assert audio.source == url
    assert await session.info(server.add(path.read_bytes())) == described


async def test_fetch_gives_the_very_bytes(server: Server, session: Session, speech: bytes) -> None:
    large = speech * 20  # more than is held in memory
    for url in (server.add(large), server.add(chunked(large, 100_000)), server.add(compressed(large, "gzip"))):
        encoded = await session.fetch(url)
        assert await asyncio.to_thread(bytes, encoded) == large
        assert encoded.name == url


async def test_a_request_says_who_asks_and_asks_for_nothing_compressed(server: Server, session: Session) -> None:
    await session.fetch(server.add(b"x"))
    [request] = server.requests
    assert request.headers["User-Agent"].startswith("aioaudio")
    assert request.headers["Accept-Encoding"] == "identity"
    assert "Cookie" not in request.headers


async def test_a_server_that_wants_another_user_agent_or_header_gets_it(server: Server, speech: bytes) -> None:
    async def picky(request: web.Request) -> web.StreamResponse:
        wanted = ("Player/1.0", "one", "two", "Bearer x")
        sent = tuple(request.headers.get(name) for name in ("User-Agent", "X-One", "X-Two", "Authorization"))
        return web.Response(body=speech) if sent == wanted else web.Response(status=403)

    url = server.add(picky)
    options = HTTPOptions(user_agent="Player/1.0", headers={"X-One": "one", "authorization": "other"})
    async with Session(http=options) as session:
        with pytest.raises(aioaudio.SourceDenied):
            await session.load(url)
        source = aioaudio.URL(url, headers={"X-Two": "two", "Authorization": "Bearer x"})
        assert (await session.load(source)).num_channels == 2
        audio = await session.load(aioaudio.Clip(source, stop_seconds=1.0))
        assert audio.duration_seconds == 1
        assert audio.source == url


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (404, aioaudio.SourceNotFound),
        (410, aioaudio.SourceNotFound),
        (401, aioaudio.SourceDenied),
        (403, aioaudio.SourceDenied),
        (418, aioaudio.FetchError),
        (204, aioaudio.FetchError),
        (206, aioaudio.FetchError),
        (304, aioaudio.FetchError),
    ],
)
async def test_a_status_is_an_error_that_has_it(
    number: int, error: type[aioaudio.SourceError], server: Server, session: Session
) -> None:
    url = server.add(status(number))
    with pytest.raises(error) as raised:
        await session.load(f"{url}?token=secret#secret".replace("http://", "http://user:secret@"))
    assert raised.value.status == number
    assert raised.value.source == f"{url}?..."
    assert f"status {number}" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("number", [429, 500, 503, 599])
async def test_a_passing_status_is_retried_as_often_as_was_said(number: int, server: Server) -> None:
    url = server.add(status(number))
    async with Session(http=HTTPOptions(retries=2, backoff=0.001)) as session:
        with pytest.raises(aioaudio.FetchError, match="tried 3 times") as raised:
            await session.fetch(url)
    assert raised.value.status == number
    assert len(server.requests) == 3


async def test_retry_after_is_heeded_up_to_the_bound(server: Server) -> None:
    url = server.add(status(429, then=whole(b"x"), Retry_After="3600"))
    async with Session(http=HTTPOptions(backoff=0, max_backoff=0.05)) as session:
        assert bytes(await session.fetch(url)) == b"x"  # or it would take an hour
    async with Session(http=HTTPOptions(backoff=0, total_timeout=0.05)) as session:
        with pytest.raises(aioaudio.AudioTimeout):
            await session.fetch(server.add(status(429, Retry_After="30")))


CUT = [
    ("neither ETag", {}, {}, True),
    ("neither ETag", {"ETag": 'W/"a"'}, {}, True),
    ("no part", {"ETag": '"a"'}, {}, False),
    ("changed", {"ETag": '"a"'}, {"ETag": '"b"'}, True),
    ("another place", {"ETag": '"a"'}, {"Content-Range": "bytes 0-9/10"}, True),
]


@pytest.mark.parametrize(("message", "headers", "later", "ranges"), CUT)
async def test_what_cannot_be_continued_is_an_error(
    message: str, headers: dict[str, str], later: dict[str, str], ranges: bool, server: Server, session: Session
) -> None:
    data = bytes(50_000)
    with pytest.raises(aioaudio.FetchError, match=f"after 20000 of 50000 bytes.*{message}"):
        await session.fetch(server.add(Breaking(data, 20_000, ranges=ranges, later=later, **headers)))


async def test_a_body_is_continued_where_it_broke_off(server: Server, session: Session, speech: bytes) -> None:
    breaking = Breaking(speech, 30_000, ETag='"a"')
    assert bytes(await session.fetch(server.add(breaking))) == speech
    assert breaking.asked == [None, "bytes=30000-", "bytes=60000-"]
    assert [request.headers.get("If-Range") for request in server.requests] == [None, '"a"', '"a"']


async def test_a_length_that_is_never_reached_is_an_error(server: Server, session: Session) -> None:
    async def promises(request: web.Request) -> web.StreamResponse:
        if "Range" in request.headers:
            return web.Response(status=416)
        response = web.StreamResponse(headers={"ETag": '"a"', "Content-Length": "200"})
        await response.prepare(request)
        await response.write(bytes(100))
        assert request.transport is not None
        request.transport.close()
        return response

    with pytest.raises(aioaudio.FetchError, match=r"after 100 of 200 bytes.*416"):
        await session.fetch(server.add(promises))


@pytest.mark.parametrize("first", ["gzip", "identity"])
async def test_a_body_may_begin_anew_with_another_compression(first: str, server: Server, session: Session) -> None:
    data = bytes(range(256)) * 100
    packed = gzip.compress(data)
    answers = {"gzip": whole(packed, Content_Encoding="gzip"), "identity": whole(data)}
    other = answers["identity" if first == "gzip" else "gzip"]

    async def breaks_off(request: web.Request) -> web.StreamResponse:
        if len(server.requests) > 1:
            return await other(request)
        assert request.transport is not None
        request.transport.write(
            f"HTTP/1.1 200 OK\r\nContent-Length: {len(packed)}\r\nContent-Encoding: {first}\r\n\r\n".encode()
        )
        request.transport.close()
        return web.Response()

    assert bytes(await session.fetch(server.add(breaks_off))) == data
    assert len(server.requests) == 2


async def test_what_comes_beyond_the_length_is_left(server: Server, session: Session) -> None:
    async def more(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\nx")
        request.transport.close()
        return web.Response()

    url = server.add(more)
    for _ in range(3):
        assert bytes(await session.fetch(url)) == b"abc"
    assert len({id(request) for request in server.requests}) == 3


async def test_what_is_no_http_is_an_error(server: Server, session: Session) -> None:
    async def raw(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(b"ICY? no.\r\n\r\n")
        request.transport.close()
        return web.Response()

    with pytest.raises(aioaudio.FetchError, match="valid HTTP") as raised:
        await session.fetch(f"{server.add(raw)}?secret")
    assert raised.value.__suppress_context__  # whose text has the whole address


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (whole(b"x", Content_Encoding="br"), "compressed with 'br'"),
        (whole(b"no gzip", Content_Encoding="gzip"), "decompressed"),
        (whole(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", Content_Encoding="gzip"), "within what was compressed"),
    ],
)
async def test_what_cannot_be_decompressed_is_an_error(
    handler: Handler, message: str, server: Server, session: Session
) -> None:
    with pytest.raises(aioaudio.FetchError, match=message):
        await session.fetch(server.add(handler))


async def test_max_bytes_holds_before_and_while_it_comes(server: Server, session: Session, speech: bytes) -> None:
    stalling = Stalling(speech, 0)
    bomb = compressed(bytes(30_000_000), "gzip")
    for handler in (stalling, chunked(speech), compressed(speech, "gzip"), bomb):
        with pytest.raises(aioaudio.LimitError):
            await session.fetch(server.add(handler), max_bytes=len(speech) - 1)
        if handler is not bomb and handler is not stalling:
            assert (await session.fetch(server.add(handler), max_bytes=len(speech))).num_bytes == len(speech)


async def test_nobody_there_is_an_error(session: Session) -> None:
    with pytest.raises(aioaudio.FetchError, match=r"cannot connect.*tried 4 times") as raised:
        await session.load("http://127.0.0.1:1/a.mp3?secret")
    assert raised.value.errno
    with pytest.raises(aioaudio.FetchError, match=r"no address is known for nowhere\.invalid"):
        await session.load("http://nowhere.invalid/a.mp3")


async def test_connections_to_a_host_are_bounded(server: Server) -> None:
    come = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def gathers(request: web.Request) -> web.StreamResponse:
        if server.num_open == 3:
            loop.call_soon_threadsafe(come.set)
        await asyncio.sleep(0.001)
        return web.Response(body=b"x")

    url = server.add(gathers)
    async with Session(http=HTTPOptions(max_connections_per_host=3, read_timeout=5)) as session:
        await asyncio.gather(*(session.fetch(url) for _ in range(60)))
        assert come.is_set()
    assert server.most_open == 3
    assert len({request.transport for request in server.requests}) <= 3


async def test_https_is_checked(secure: Server, trust: Any, speech: bytes) -> None:
    url = secure.add(speech)
    async with Session(http=HTTPOptions(ssl_context=trust[1])) as session:
        assert (await session.load(url)).num_channels == 2
    async with Session() as session:
        with pytest.raises(aioaudio.FetchError, match=r"certificate of 127\.0\.0\.1 is not trusted"):
            await session.load(url)
    assert len(secure.requests) == 1


async def test_a_proxy_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def proxy(request: web.Request) -> web.StreamResponse:
        return web.Response(body=f"{request.raw_path} {request.headers.get('Proxy-Authorization')}".encode())

    server.add(proxy, "/a")
    options = HTTPOptions(proxy=server.url("").replace("http://", "http://user:word@"))
    async with Session(http=options) as session:
        assert bytes(await session.fetch("http://example.invalid/a")) == b"http://example.invalid/a Basic dXNlcjp3b3Jk"
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, server.url(""))
    async with Session(http=HTTPOptions(trust_env=True)) as session:
        assert bytes(await session.fetch("http://example.invalid/a")) == b"http://example.invalid/a None"


async def test_a_manifest_names_urls_and_failures_hide_their_secrets(
    server: Server, tmp_path: Path, speech: bytes
) -> None:
    good, bad = server.add(speech), server.add(status(404))
    manifest = tmp_path / "clips.csv"
    manifest.write_text(f"path,duration\n{good}?token=secret,2\n{bad}?token=secret,2\n")
    async with aioaudio.load_many(manifest, on_error="return", trace=tmp_path / "trace.json") as results:
        audio, failure = [result async for result in results]
    assert isinstance(audio, aioaudio.Audio)
    assert isinstance(failure, aioaudio.Failure)
    assert audio.duration_seconds == 2
    assert failure.stage == "fetch"
    assert f"source: {bad}?..." in failure.error.__notes__
    assert "secret" not in (tmp_path / "trace.json").read_text()
    assert results.statistics()["fetch"].done == 1
    with pytest.raises(ValueError, match="local file"):
        aioaudio.batches("https://example.org/clips.csv", batch_size=1)


async def test_redirects_are_followed_as_far_as_was_said(server: Server, session: Session, speech: bytes) -> None:
    last = server.add(speech)
    for number in (301, 302, 303, 307, 308):
        last = server.add(redirect(last.removeprefix(server.url("")), number))
    audio = await session.load(last)
    assert audio.source == last
    async with Session(http=HTTPOptions(max_redirects=4)) as bounded:
        with pytest.raises(aioaudio.FetchError, match="more than max_redirects=4"):
            await bounded.load(last)
    loop = server.add(redirect("/loop"), "/loop")
    with pytest.raises(aioaudio.FetchError, match="max_redirects"):
        await session.load(loop)
