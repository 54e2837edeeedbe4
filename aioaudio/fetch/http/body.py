"""The body of a URL, read piece by piece; what breaks off is continued."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp

from aioaudio.errors import AudioError, FetchError, SourceError
from aioaudio.fetch.http.answer import Answer
from aioaudio.fetch.http.client import HTTPClient
from aioaudio.fetch.http.coding import Inflater, inflater_for
from aioaudio.fetch.http.faults import client_error, is_passing_error, status_error
from aioaudio.fetch.http.patience import Patience
from aioaudio.fetch.http.retry import is_passing, retry_after, wait_seconds
from aioaudio.fetch.http.url import URL, name_of

__all__ = ["HTTPBody"]


class HTTPBody:
    """What a URL gives, block by block: `async with HTTPBody(url, client) as body: await body.read_block()`.

    For the event loop of `client`, and for one task at a time. Entering sends the request; `began` is
    called when it has its turn. Errors of the connection and passing statuses are retried; a body that ends early is
    continued where it broke off, if it is still the same one. No timeout counts between the calls.

    With `plays`, a radio station is asked for its titles, and never ends: it is connected to again, which shows in
    another `answer`.

    Entering and reading raise SourceError, whose `status` is that of the answer, and AudioTimeout. Leaving, as a
    cancellation does, closes the connection, unless all was read.
    """

    def __init__(
        self, url: URL, client: HTTPClient, *, plays: bool = False, began: Callable[[], None] | None = None
    ) -> None:
        self._url, self._client, self._plays = url, client, plays
        self._patience = Patience(client.options, url.name, began)
        self._opened = contextlib.AsyncExitStack()
        self._response: aiohttp.ClientResponse | None = None
        self._first: Answer | None = None
        self._inflater: Inflater | None = None
        self._offset = 0
        self._num_failures = 0
        self._ended = False

    @property
    def num_bytes(self) -> int | None:
        """How many bytes there are to be, by what the server says; None where it does not, or has compressed them."""
        return self._first.length if self._first is not None and self._inflater is None else None

    @property
    def answer(self) -> Answer:
        """What the bytes that were read last belong to."""
        assert self._first is not None
        return self._first

    async def read_block(self) -> bytes:
        """The next bytes as they come; empty at the end."""
        try:
            while True:
                if self._inflater is not None and (block := self._inflater.take()):
                    return block
                received = await self._read()
                inflater = self._inflater  # asked only now: a body may have begun anew, with another answer
                if inflater is None:
                    return received
                if not received:
                    if not inflater.is_complete:
                        raise FetchError("ends within what was compressed", source=self._url.name)
                    return b""
                inflater.feed(received)
        except zlib.error as error:
            raise FetchError(f"cannot be decompressed: {error}", source=self._url.name) from error

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._opened.aclose)
            await self._connect()
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._close()

    async def _read(self) -> bytes:
        """The next bytes as they were sent."""
        while not self._ended:
            response = await self._connect()
            try:
                async with self._patience.limit("read_timeout"):
                    block = await response.content.readany()
                if not block and (self._is_short or self._is_station):
                    raise aiohttp.ClientPayloadError
            except AudioError:
                raise
            except (aiohttp.ClientError, OSError) as error:
                block = _left_in(response.content)
                if not block:
                    await self._failed(error)
                    continue
            if block:
                self._offset += len(block)
                self._num_failures = 0
                return block
            self._ended = True
        return b""

    @property
    def _is_short(self) -> bool:
        return self._first is not None and self._first.length is not None and self._offset < self._first.length

    @property
    def _is_station(self) -> bool:
        return self._plays and self._first is not None and self._first.station is not None

    async def _connect(self) -> aiohttp.ClientResponse:
        """The answer at hand, or one that gives the bytes from where we stand."""
        while self._response is None:
            extra = {"Icy-MetaData": "1"} if self._plays else {}
            if self._first is not None and self._offset and not self._is_station:
                extra |= self._first.request_from(self._offset)
            try:
                response = await self._client.get(self._url, extra, self._patience, self._opened, has_place=self._plays)
            except AudioError:
                raise
            except (aiohttp.ClientError, OSError) as error:
                await self._failed(error)
                continue
            problem = self._passing_problem(response)
            if problem is not None:
                await self._failed(problem, retry_after(response.headers.get("Retry-After")))
            else:
                self._take(response)
                self._response = response
        return self._response

    def _passing_problem(self, response: aiohttp.ClientResponse) -> SourceError | None:
        """Why to try again. A station that was there before is away for the moment, whatever its server says."""
        if is_passing(response.status) or (self._is_station and response.status != 200):
            return self._status_error(response)
        if self._is_station and Answer.of(response.headers).station is None:
            return FetchError("the server gives something else now", source=self._url.name)
        return None

    def _take(self, response: aiohttp.ClientResponse) -> None:
        """See what an answer is; raises for one that is of no use."""
        name = self._url.name
        if self._first is not None and self._offset and not self._is_station:
            misfit = self._first.misfit(response.status, response.headers, self._offset)
            if misfit is not None:
                raise FetchError(f"{self._early_end}, {misfit}", source=name)
            return
        if not 200 <= response.status <= 299 or response.status in (204, 205, 206):
            raise self._status_error(response)
        self._first = Answer.of(response.headers)
        try:
            self._inflater = inflater_for(self._first.encoding)
        except ValueError as error:
            raise FetchError(str(error), source=name) from None

    async def _failed(self, error: Exception, asked_seconds: float | None = None) -> None:
        """Wait until it is time to try again, or raise the error for what happened."""
        await self._close()
        is_final = not isinstance(error, SourceError) and not is_passing_error(error)
        if is_final or self._num_failures >= self._client.options.retries or not self._can_go_on:
            raise self._error(error) from (None if _tells_all(error) else error)
        self._num_failures += 1
        async with self._patience.limit(None):
            await asyncio.sleep(wait_seconds(self._client.options, self._num_failures, asked_seconds))

    @property
    def _can_go_on(self) -> bool:
        return not self._offset or (self._first is not None and (self._is_station or self._first.validator is not None))

    def _error(self, error: Exception) -> SourceError:
        result = error if isinstance(error, SourceError) else client_error(error, self._url.name)
        if self._offset:
            result.message = f"{self._early_end}: {result.message}" if not _is_early_end(error) else self._early_end
            if not self._can_go_on:
                result.message += ", and has neither ETag nor Last-Modified to continue it by"
        if self._num_failures:
            result.message += f" (tried {self._num_failures + 1} times)"
        result.args = (result.message,)
        return result

    @property
    def _early_end(self) -> str:
        of_all = f" of {self._first.length}" if self._first is not None and self._first.length is not None else ""
        return f"ends early, after {self._offset}{of_all} bytes"

    def _status_error(self, response: aiohttp.ClientResponse) -> SourceError:
        return status_error(response.status, self._url.name, name_of(response.url))

    async def _close(self) -> None:
        self._response = None
        await self._opened.aclose()


def _left_in(content: aiohttp.StreamReader) -> bytes:
    """What came before an error and was not read yet: aiohttp has it, but gives only the error."""
    block: bytes = content._read_nowait(-1)
    return block


def _is_early_end(error: Exception) -> bool:
    return isinstance(error, aiohttp.ClientPayloadError)


def _tells_all(error: Exception) -> bool:
    """Whether an error shows the whole address, so that no traceback should show it."""
    return isinstance(error, SourceError | aiohttp.ClientResponseError | aiohttp.InvalidURL)
