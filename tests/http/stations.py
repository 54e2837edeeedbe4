"""Radio stations on loopback, which send what the tests know."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from aiohttp import web

__all__ = ["Station", "block_of", "with_metadata"]


def block_of(text: str | bytes) -> bytes:
    """A block of metadata, with the byte that counts its sixteens."""
    data = text.encode() if isinstance(text, str) else text
    return bytes([-(-len(data) // 16)]) + data.ljust(-(-len(data) // 16) * 16, b"\0")


def with_metadata(audio: bytes, interval: int, texts: dict[int, str | bytes]) -> bytes:
    """The audio with a block behind each `interval` bytes; `texts` are by the number of the block, others are empty."""
    mixed = bytearray()
    for number, start in enumerate(range(0, len(audio), interval)):
        part = audio[start : start + interval]
        mixed += part
        if len(part) == interval:
            mixed += block_of(texts.get(number, b""))
    return bytes(mixed)


class Station:
    """Sends one body for each connection, without a length; then it breaks off, or stays silent with `stays`.

    After the last body, it answers with `then`: a status.
    """

    def __init__(
        self,
        *bodies: bytes,
        interval: int | None = None,
        piece_bytes: int = 4_096,
        stays: bool = False,
        breaks: bool = True,
        then: int = 404,
        content_type: str = "audio/mpeg",
        headers: Sequence[tuple[str, str]] = (("icy-name", "Radio Loopback"), ("icy-br", "64")),
    ) -> None:
        self.bodies, self.piece_bytes, self.stays, self.breaks, self.then = bodies, piece_bytes, stays, breaks, then
        self.headers = [*headers, ("Content-Type", content_type)]
        self.interval = interval
        self.asked: list[tuple[str | None, str | None]] = []  # Icy-MetaData and Range
        self.silent, self.left = threading.Event(), threading.Event()
        self.num_sent = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        number = len(self.asked)
        self.asked.append((request.headers.get("Icy-MetaData"), request.headers.get("Range")))
        if number >= len(self.bodies):
            return web.Response(status=self.then)
        response = web.StreamResponse()
        response.headers.extend(self.headers)
        if self.interval is not None:
            response.headers["icy-metaint"] = str(self.interval)
        response.enable_chunked_encoding()
        await response.prepare(request)
        body = self.bodies[number]
        try:
            for start in range(0, len(body), self.piece_bytes):
                piece = body[start : start + self.piece_bytes]
                await response.write(piece)
                self.num_sent += len(piece)
                await asyncio.sleep(0)
            if self.stays and number == len(self.bodies) - 1:
                self.silent.set()
                await asyncio.Event().wait()
        finally:
            self.left.set()
        if self.breaks and request.transport is not None:
            request.transport.close()
        return response
