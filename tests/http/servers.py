"""A real HTTP server on loopback, in a thread and a loop of its own, that misbehaves where a test asks it to."""

from __future__ import annotations

import asyncio
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Serves handlers by path; `with Server() as server: server.add(handler)` gives the URL of one.

    `requests` are those that came, `num_open` is how many are being answered, `most_open` the most at once.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context
        self._handlers: dict[str, Handler] = {}
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), name="server")
        self.requests: list[web.Request] = []
        self.num_open = self.most_open = 0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def add(self, handler: Handler | bytes, path: str | None = None) -> str:
        """The URL of a handler, or of a body."""
        path = path or f"/{len(self._handlers)}"
        self._handlers[path] = whole(handler) if isinstance(handler, bytes) else handler
        return self.url(path)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{'http' if self._ssl_context is None else 'https'}://{host}:{self.port}{path}"

    def call(self, function: Callable[[], Any]) -> None:
        """Call a function on the server's loop."""
        self._loop.call_soon_threadsafe(function)

    async def _serve(self) -> None:
        server = web.Server(self._answer, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._ssl_context)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)  # type: ignore[arg-type]
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        try:
            return await self._handlers[request.path](request)  # type: ignore[arg-type]
        except KeyError:
            return web.Response(status=404)
        finally:
            self.num_open -= 1


def whole(data: bytes, **headers: str) -> Handler:
    """The whole in one piece, whatever range is asked for."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(body=data, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return handler


def status(*numbers: int, then: Handler | None = None, **headers: str) -> Handler:
    """One status after the other; after the last of them another handler, or the last for ever."""
    left = list(numbers)

    async def handler(request: web.Request) -> web.StreamResponse:
        if not left and then is not None:
            return await then(request)
        number = left.pop(0) if len(left) > 1 or then is not None else left[0]
        return web.Response(status=number, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return handler


def redirect(location: str, number: int = 302) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=number, headers={"Location": location})

    return handler


def chunked(data: bytes, chunk_bytes: int = 1000) -> Handler:
    """In chunks, without a length."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for start in range(0, len(data), chunk_bytes):
            await response.write(data[start : start + chunk_bytes])
            await asyncio.sleep(0)
        return response

    return handler


def compressed(data: bytes, coding: str) -> Handler:
    """Compressed, whatever is asked for."""
    bits = {"gzip": 31, "deflate": 15, "raw deflate": -15}[coding]
    packer = zlib.compressobj(wbits=bits)
    packed = packer.compress(data) + packer.flush()
    return whole(packed, Content_Encoding=coding.rpartition(" ")[2])


class Breaking:
    """Breaks off after so many bytes of each answer; continues if it `ranges`, with what the headers promise."""

    def __init__(
        self, data: bytes, after: int, *, ranges: bool = True, later: dict[str, str] | None = None, **headers: str
    ) -> None:
        self.data, self.after, self.ranges = data, after, ranges
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.later = later or {}
        self.asked: list[str | None] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        asked = request.headers.get("Range")
        self.asked.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else 0
        headers = dict(self.headers)
        if asked is not None:
            headers |= self.later
        if start:
            headers.setdefault("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        response = web.StreamResponse(status=206 if start else 200, headers=headers)
        response.content_length = len(self.data) - start
        await response.prepare(request)
        await response.write(self.data[start : start + self.after])
        if start + self.after < len(self.data):
            transport = request.transport
            assert transport is not None
            # Its buffer is sent first.
            transport.close()
        return response


class Stalling:
    """Gives a part, then nothing more for ever, or until `go_on`."""

    def __init__(self, data: bytes, after: int | None) -> None:
        self.data, self.after = data, after
        self.stalled = threading.Event()
        self.left = threading.Event()
        self._go_on: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self._go_on, self._loop = asyncio.Event(), asyncio.get_running_loop()
        response = web.StreamResponse()
        response.content_length = len(self.data)
        if self.after is not None:
            await response.prepare(request)
            await response.write(self.data[: self.after])
        self.stalled.set()
        waiting = asyncio.ensure_future(self._go_on.wait())
        try:
            while not waiting.done() and request.transport is not None:
                await asyncio.wait([waiting], timeout=0.01)
        finally:
            waiting.cancel()
            self.left.set()
        if self.after is not None and self._go_on.is_set():
            await response.write(self.data[self.after :])
        return response

    def go_on(self) -> None:
        assert self._loop is not None
        assert self._go_on is not None
        self._loop.call_soon_threadsafe(self._go_on.set)
