"""HTTP and HTTPS: addresses, options, and bodies that are read piece by piece.

All of it runs on the event loop of an I/O thread, on which there is one client: what blocks any other loop holds up no
download.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from aioaudio.fetch.http.body import HTTPBody
from aioaudio.fetch.http.client import HTTPClient
from aioaudio.fetch.http.options import HTTPOptions
from aioaudio.fetch.http.radio import played_blocks
from aioaudio.fetch.http.url import URL, is_url

__all__ = [
    "URL",
    "HTTPBody",
    "HTTPOptions",
    "IOLoop",
    "NetworkWorkers",
    "http_body",
    "is_url",
    "on_io_thread",
    "played_blocks",
]

T = TypeVar("T")


class IOLoop(Protocol):
    """An event loop in a thread of its own."""

    loop: asyncio.AbstractEventLoop

    def run(self, coroutine: Coroutine[Any, Any, T], /) -> Future[T]:
        """Run a coroutine there; may be called from any thread."""
        ...

    def keep(self, name: str, make: Callable[[], Any], /) -> Any:
        """What `make()` has given the first time, on that loop, where its `aclose()` is awaited at the end."""
        ...


class NetworkWorkers(Protocol):
    """Who has an I/O thread, and knows how URLs are to be fetched (None: as usual)."""

    @property
    def http(self) -> HTTPOptions | None: ...

    def io(self) -> IOLoop:
        """The I/O thread of this process."""
        ...


def http_body(
    url: URL, workers: NetworkWorkers, *, plays: bool = False, began: Callable[[], None] | None = None
) -> HTTPBody:
    """The body of `url`, to be entered and read on the loop of `workers.io()`, where this is called, too."""
    client = workers.io().keep("http", lambda: HTTPClient(workers.http or HTTPOptions()))
    return HTTPBody(url, client, plays=plays, began=began)


async def on_io_thread(workers: NetworkWorkers, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` on the I/O thread. Cancelled, it ends at once; the work is cancelled, too, and ends soon."""
    try:
        io = workers.io()
    except BaseException:
        work.close()
        raise
    if io.loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(io.run(work))
