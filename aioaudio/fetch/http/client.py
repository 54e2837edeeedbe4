"""One HTTP client for each I/O thread: requests, redirects, and the bound on connections."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import weakref
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict

from aioaudio.errors import FetchError, SourceDenied
from aioaudio.fetch.http.guard import public_socket
from aioaudio.fetch.http.options import HTTPOptions
from aioaudio.fetch.http.patience import Patience
from aioaudio.fetch.http.resolver import Resolver
from aioaudio.fetch.http.url import URL, Address, as_address, basic_auth, host_of, is_same_site, joined, name_of

__all__ = ["HTTPClient"]

_REDIRECTS = (301, 302, 303, 307, 308)

# What a connection holds for its reader: enough for one that is fast and far away.
_BUFFER_BYTES = 256 * 1024


_ICY = b"ICY "


class _Connection(ResponseHandler):
    """A connection that goes as it is closed. TLS would wait half a minute for the other end to say goodbye.

    Old radio servers begin their answer with "ICY 200 OK", and speak HTTP/1.0 otherwise.
    """

    _begin: bytes | None = b""  # what came, until it is known how the first answer begins

    def data_received(self, data: bytes) -> None:
        if self._begin is not None:
            data = self._begin + data
            self._begin = data if _ICY.startswith(data) and data != _ICY else None
            if self._begin is not None:
                return
            if data.startswith(_ICY):
                data = b"HTTP/1.0 " + data.removeprefix(_ICY)
        super().data_received(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        super().close()


class HTTPClient:
    """Sends requests, on the event loop on which it is made and closed."""

    def __init__(self, options: HTTPOptions) -> None:
        self.options = options
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_headers_sent)
        connector = aiohttp.TCPConnector(
            limit=0,  # the places bound it, and no timeout counts while one waits for those
            ssl=options.ssl_context or True,
            resolver=Resolver(),
            socket_factory=None if options.allow_private else public_socket,
        )
        connector._factory = cast(
            "functools.partial[ResponseHandler]", functools.partial(_Connection, loop=asyncio.get_running_loop())
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            trust_env=options.trust_env,
            proxy=options.proxy,
            read_bufsize=_BUFFER_BYTES,
            trace_configs=[trace],
        )
        self._places: weakref.WeakValueDictionary[tuple[str, int | None], asyncio.Semaphore] = (
            weakref.WeakValueDictionary()
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()
        for _ in range(3):  # what was aborted just before takes the loop a turn or two
            await asyncio.sleep(0)

    async def get(
        self,
        url: URL,
        extra: Mapping[str, str],
        patience: Patience,
        opened: contextlib.AsyncExitStack,
        *,
        has_place: bool = False,
    ) -> aiohttp.ClientResponse:
        """The answer to a GET, behind all redirects. Whatever it holds goes into `opened`.

        It waits for a place among the connections to its host, unless it has one by other rights.

        Raises SourceDenied for a host that is refused, FetchError for redirects that lead nowhere, AudioTimeout, and
        what aiohttp raises.
        """
        address = as_address(url.url)
        private = self._private_headers(url, address)
        for _ in range(self.options.max_redirects + 1):
            self._check_host(address, url.name)
            headers = CIMultiDict({"User-Agent": self.options.user_agent})
            headers.update(private)
            headers.update({"Accept-Encoding": "identity", **extra})
            async with contextlib.AsyncExitStack() as hop:
                if not has_place:
                    await hop.enter_async_context(self._place(address))
                response = await self._send(address, headers, patience, hop)
                if response.status not in _REDIRECTS:
                    await opened.enter_async_context(hop.pop_all())
                    return response
                target = _redirected(address, response.headers.get("Location"), url.name)
            if not is_same_site(address, target):
                private.clear()
            if target.raw_user is not None:
                private["Authorization"] = _auth_of(target)
            address = target
        raise FetchError(f"more than max_redirects={self.options.max_redirects} redirects", source=url.name)

    def _private_headers(self, url: URL, address: Address) -> CIMultiDict[str]:
        """The headers that are for the host of `url` alone."""
        headers: CIMultiDict[str] = CIMultiDict()
        if self.options.auth is not None:
            headers["Authorization"] = basic_auth(*self.options.auth)
        if address.raw_user is not None:
            headers["Authorization"] = _auth_of(address)
        headers.update(self.options.headers)
        headers.update(url.headers)
        return headers

    def _check_host(self, address: Address, name: str) -> None:
        host = host_of(address)
        if self.options.allow_host is not None and not self.options.allow_host(host):
            raise SourceDenied(f"allow_host refuses {host}", source=name)

    async def _send(
        self, address: Address, headers: Mapping[str, str], patience: Patience, hop: contextlib.AsyncExitStack
    ) -> aiohttp.ClientResponse:
        patience.begin()
        async with patience.limit("connect_timeout") as begin:
            response = await self._session.get(
                address.with_user(None),
                headers=headers,
                allow_redirects=False,
                trace_request_ctx=SimpleNamespace(sent=lambda: begin("read_timeout")),
            )
        # Of a body that was read to its end, the connection is in the pool again, and this does nothing.
        hop.callback(response.close)
        return response

    def _place(self, address: Address) -> asyncio.Semaphore:
        """One of the connections that may be open to a host at once."""
        key = (host_of(address), address.port)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = asyncio.Semaphore(self.options.max_connections_per_host)
        return place


async def _headers_sent(session: aiohttp.ClientSession, context: SimpleNamespace, params: Any) -> None:  # noqa: ARG001
    context.trace_request_ctx.sent()


def _redirected(address: Address, location: str | None, name: str) -> Address:
    """Where an answer leads. Raises FetchError for what is not to be followed."""
    if location is None:
        raise FetchError("is redirected, but not told where to", source=name)
    try:
        target = joined(address, location)
    except ValueError:
        raise FetchError("is redirected to what is no address of HTTP", source=name) from None
    if address.scheme == "https" and target.scheme != "https":
        raise FetchError(f"is redirected from https to {name_of(target)}", source=name)
    return target


def _auth_of(address: Address) -> str:
    return basic_auth(address.user or "", address.password or "")
