"""Secrets stay with their host; hosts and addresses that are refused are not called, by whatever way."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from servers import Server, redirect

import aioaudio
from aioaudio import HTTPOptions, Session
from aioaudio.fetch.http import guard

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

SECRETS = {"Authorization": "Bearer secret", "Cookie": "id=secret", "X-Key": "secret"}


async def echo(request: web.Request) -> web.StreamResponse:
    """What the request has told."""
    return web.Response(body=" ".join(request.headers.get(name, "-") for name in SECRETS).encode())


async def fetched(session: Session, source: Any) -> str:
    return bytes(await session.fetch(source)).decode()


async def test_secrets_are_sent_to_their_own_host_only(server: Server, other: Server) -> None:
    there, elsewhere = server.add(echo), other.add(echo)
    near, far = server.add(redirect(there)), server.add(redirect(elsewhere))
    back = server.add(redirect(other.add(redirect(there))))
    for options, headers in (
        (HTTPOptions(headers=SECRETS), {}),
        (HTTPOptions(), SECRETS),
        (HTTPOptions(auth=("user", "secret"), headers={"Cookie": "id=secret"}), {"X-Key": "secret"}),
    ):
        async with Session(http=options) as session:
            for url in (there, near):
                assert "-" not in (await fetched(session, aioaudio.URL(url, headers))).split()
            for url in (far, back):
                assert await fetched(session, aioaudio.URL(url, headers)) == "- - -"


async def test_a_password_in_the_url_is_sent_to_its_own_host_only(server: Server, other: Server) -> None:
    def with_user(url: str) -> str:
        return url.replace("http://", "http://user:p%40ss@")

    there = server.add(echo)
    async with Session(http=HTTPOptions(auth=("other", "other"))) as session:
        basic = "Basic dXNlcjpwQHNz - -"
        assert await fetched(session, with_user(there)) == basic
        assert await fetched(session, with_user(server.add(redirect("/0")))) == basic
        assert await fetched(session, with_user(server.add(redirect(other.add(echo))))) == "- - -"
        assert await fetched(session, server.add(redirect(with_user(other.add(echo))))) == basic


async def test_https_is_not_left_for_http(server: Server, secure: Server, trust: Any) -> None:
    async with Session(http=HTTPOptions(ssl_context=trust[1], headers=SECRETS)) as session:
        url = secure.add(redirect(f"{server.add(echo)}?secret"))
        with pytest.raises(aioaudio.FetchError, match="redirected from https to http://127") as raised:
            await session.fetch(url)
        assert "secret" not in str(raised.value)
        assert not server.requests
        assert await fetched(session, server.add(redirect(secure.add(echo)))) == "- - -"


@pytest.mark.parametrize("location", ["ftp://h/a", "file:///etc/passwd", "data:audio/wav,x", "http://a:b/"])
async def test_redirects_to_what_is_not_http_are_refused(location: str, server: Server) -> None:
    async with Session() as session:
        with pytest.raises(aioaudio.FetchError, match="no address of HTTP"):
            await session.fetch(server.add(redirect(location)))


async def test_a_hook_may_refuse_a_host_also_behind_redirects(server: Server, other: Server) -> None:
    asked = []

    def allow_host(host: str) -> bool:
        asked.append(host)
        return host != "localhost"

    async with Session(http=HTTPOptions(allow_host=allow_host)) as session:
        url = other.add(echo)
        assert await fetched(session, url) == "- - -"
        other.requests.clear()
        refused = [url.replace("127.0.0.1", host) for host in ("localhost", "LocalHost", "localhost.")]
        refused.append(server.add(redirect(refused[0])))
        for one in refused:
            with pytest.raises(aioaudio.SourceDenied, match="allow_host refuses localhost"):
                await session.fetch(one)
    assert not other.requests
    assert asked == ["127.0.0.1", "localhost", "localhost", "localhost", "127.0.0.1", "localhost"]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Names are looked up in a table of the test's, and no more than noted which addresses are connected to."""
    names = {
        "inside.example": ["10.0.0.1"],
        "both.example": ["127.0.0.1", "::1"],
        "mapped.example": ["::ffff:127.0.0.1"],
        "metadata.example": ["169.254.169.254"],
    }

    def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, *rest: Any, **more: Any) -> Any:
        found = names.get(host)
        if found is None:
            return real(host, port, family, type, *rest, **more)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (ip, port, 0, 0))
            if ":" in ip
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in found
        ]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    connected: list[Any] = []

    def is_public(address: str) -> bool:
        connected.append(address)
        return judge(address)

    judge: Callable[[str], bool] = guard.is_public
    monkeypatch.setattr(guard, "is_public", is_public)
    return connected


REFUSED = [
    "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]",
    "[::]", "inside.example", "both.example", "mapped.example", "metadata.example",
]  # fmt: skip


@pytest.mark.parametrize("host", REFUSED)
async def test_private_addresses_are_refused_by_whatever_name(
    host: str, server: Server, other: Server, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = other.add(b"x").replace("127.0.0.1", host)
    async with Session(http=HTTPOptions(allow_private=False)) as session:
        with pytest.raises((aioaudio.SourceDenied, aioaudio.FetchError)) as raised:
            await session.fetch(url)
        if not host[0].isdigit() or host == "127.0.0.1":
            assert isinstance(raised.value, aioaudio.SourceDenied)
            assert called
        with monkeypatch.context() as patch:  # the first host is as good as public
            patch.setattr(guard, "is_public", lambda address: not called and not called.append(address))
            called.clear()
            with pytest.raises((aioaudio.SourceDenied, aioaudio.FetchError)):
                await session.fetch(server.add(redirect(url)))
    assert len(server.requests) == 1
    assert not other.requests


async def test_a_name_that_means_another_address_the_next_time_is_refused(
    server: Server, other: Server, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is judged is the address of the very socket that connects, whatever a lookup has said before.
    async with Session(http=HTTPOptions(allow_private=False, allow_host=lambda host: True)) as session:
        with monkeypatch.context() as patch:
            patch.setattr(guard, "is_public", lambda address: True)
            first = server.add(b"x").replace("127.0.0.1", "both.example")
            assert bytes(await session.fetch(first)) == b"x"
        with pytest.raises(aioaudio.SourceDenied, match="not public"):
            await session.fetch(other.add(b"x").replace("127.0.0.1", "both.example"))
