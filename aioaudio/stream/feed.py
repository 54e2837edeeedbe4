"""From a source whose bytes arrive to the decoder that waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any

from aioaudio.decode import LIVE, Kind, cutter_of, kind_of
from aioaudio.encoded import Encoded, Mark, Pipe, PlacedMark, limit_error, reading
from aioaudio.errors import AudioTimeout, ClosedError, FetchError, LimitError
from aioaudio.fetch import (
    ArrivingBlocks,
    ReadWorkers,
    arriving_blocks,
    checked_block,
    closing_blocks,
    collect,
    is_at_home,
)
from aioaudio.options import LoadOptions, RawPCM

__all__ = ["Feed"]

# What is looked at, at most, to tell what arrives: a tag with pictures may come first.
_MAX_HEAD_BYTES = 16 << 20

# What is held, at most, of a format that must be there as a whole, where max_bytes says nothing.
_MAX_HELD_BYTES = 256 << 20


class _Gone(Exception):
    """Nobody decodes what is sent any more."""


class Feed:
    """Takes the blocks of a source as they come, on the loop that they belong to, and sends them on.

    `kind` is what goes into `pipe`, or the bytes themselves, where all must be there before any can be decoded. `error`
    is why the source ended, if that was not its end. The source is not asked for more than the decoder takes.
    """

    def __init__(
        self,
        source: ArrivingBlocks,
        workers: ReadWorkers,
        options: LoadOptions,
        timeout: float | None,
        home: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.pipe = Pipe()
        self.kind: Future[Kind | Encoded] = Future()
        self.kind.set_running_or_notify_cancel()  # so that whoever waits for it cannot cancel it
        self.error: Exception | None = None
        self._name, self._workers, self._options, self._timeout = source.name, workers, options, timeout
        self._source = source
        self._blocks: AsyncIterator[Any]
        self._loop = (home if is_at_home(source) else None) or asyncio.get_running_loop()
        self._num_bytes = 0
        self._sender: _Sender | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()
        self._call(self._start)

    def abort(self) -> None:
        """Take no more of the source, and free the thread that waits for it. May be called from any thread."""
        self.pipe.abort()
        self._call(self._cancel)

    async def aclose(self) -> None:
        """Take no more of the source, and wait until it is let go of. No thread uses the pipe any more."""
        self.abort()
        if self._loop.is_running():  # else nothing of the source goes on
            await asyncio.wrap_future(self._ended)
        self.pipe.close()

    # On the source's loop

    def _call(self, function: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # that loop is closed, and the source's task with it
            self._finish(None)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._finish)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, _: object) -> None:
        self.pipe.end()
        if not self.kind.done():
            self.kind.set_exception(self.error or ClosedError("the source was closed", source=self._name))
        if not self._ended.done():
            self._ended.set_result(None)

    async def _run(self) -> None:
        try:
            with reading(self._name):
                self._blocks = arriving_blocks(self._source, self._workers)
                async with closing_blocks(self._blocks):
                    await self._take_all()
        except _Gone:
            pass
        except asyncio.CancelledError:
            self.error = ClosedError("the source was closed before its end", source=self._name)
            raise
        except Exception as error:
            self.error = error
        finally:
            if self._sender is not None:  # only now: who finds the end asks why it came
                self._sender.close()

    async def _take_all(self) -> None:
        head, kind, at_end = await self._head()
        if kind.demuxer is None:
            self.kind.set_result(await self._held(head.data, at_end=at_end))
            return
        self.kind.set_result(kind)
        self._sender = sender = _Sender(self.pipe, self._loop, kind)
        for part in head.parts():
            await sender.take(part)
        if at_end:
            await sender.take(None)
        while not at_end:
            block = await self._next()
            at_end = block is None
            await sender.take(block)

    async def _head(self) -> tuple[_Head, Kind, bool]:
        """The first bytes, what they are the first bytes of, and whether they are all."""
        head, kind, at_end = _Head(), self._asked_kind(), False
        while kind is None:
            block = await self._next()
            at_end = block is None
            kind = _told_kind(block) if isinstance(block, Mark) else None
            head.take(block)
            kind = kind or kind_of(head.data, at_end=at_end)
            if kind is None and len(head.data) > _MAX_HEAD_BYTES:
                kind = Kind(None)
        return head, kind, at_end

    def _asked_kind(self) -> Kind | None:
        asked = self._options.format
        if isinstance(asked, RawPCM):
            layout = {1: "mono", 2: "stereo"}.get(asked.num_channels)
            return Kind(asked.sample_format, asked, layout)
        if self._options.verify:  # what is stored to compare with is for the whole
            return Kind(None)
        # Whether the index of an MP4 comes first, and how PCM lies in a WAV, the bytes must tell.
        if asked is None or asked == "wav" or asked in _MP4:
            return None
        if asked == "webm":
            asked = "matroska"
        return Kind(asked if asked in LIVE else None)

    async def _held(self, head: bytearray, *, at_end: bool) -> Encoded:
        """All bytes of a source that is of no use in parts."""

        async def blocks() -> AsyncIterator[Any]:
            yield head
            while not at_end and (block := await self._next()) is not None:
                if not isinstance(block, Mark):
                    yield block
                elif block.kind == "reconnect":
                    raise FetchError("broke off, and is of a format that must be there as a whole", source=self._name)

        limit = self._options.max_bytes
        try:
            return await collect(blocks(), self._name, self._workers, limit or _MAX_HELD_BYTES)
        except LimitError as error:
            if limit is not None:
                raise
            message = f"is of a format that must be there as a whole, and has more than {_MAX_HELD_BYTES} bytes"
            raise LimitError(f"{message}: give max_bytes to hold more", source=self._name) from error

    async def _next(self) -> bytes | Mark | None:
        """The next bytes, or what is told between them; None at the end.

        While the decoder does not take any, no time counts.
        """
        try:
            async with asyncio.timeout(self._timeout) as scope:
                block = await anext(self._blocks, None)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise AudioTimeout(f"nothing came for timeout={self._timeout} seconds", source=self._name) from error
        if block is None or isinstance(block, Mark):
            return block
        with checked_block(block, self._name) as view:
            self._num_bytes += len(view)
            if self._options.max_bytes is not None and self._num_bytes > self._options.max_bytes:
                raise limit_error(self._options.max_bytes, self._name)
            if not view:  # a source that never waits for anything must not keep the loop from its timeouts
                await asyncio.sleep(0)
            return bytes(view)


_MP4 = frozenset({"mov", "mp4", "m4a", "3gp", "3g2", "mj2"})


# A stream of these that begins in the midst of a frame does not show what it is.
_TOLD = {"audio/aac": Kind("aac"), "audio/aacp": Kind("aac")}


def _told_kind(mark: Mark) -> Kind | None:
    """What the server of a station says that it is."""
    return _TOLD.get(mark.fields.get("content-type", "").partition(";")[0].strip().lower())


class _Head:
    """The first bytes, and what was told between them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._marks: list[tuple[int, Mark]] = []

    def take(self, block: bytes | Mark | None) -> None:
        """What came next."""
        if not isinstance(block, Mark):
            self.data += block or b""
            return
        if block.kind == "reconnect":  # nothing follows what came before it
            self.data.clear()
            self._marks = [(0, mark) for _, mark in self._marks]
        self._marks.append((len(self.data), block))

    def parts(self) -> Iterator[bytes | Mark]:
        """All that was taken."""
        start = 0
        for stop, mark in self._marks:
            yield bytes(self.data[start:stop])
            yield mark
            start = stop
        yield bytes(self.data[start:])


class _Sender:
    """Sends what comes into the pipe, each file by itself."""

    def __init__(self, pipe: Pipe, loop: asyncio.AbstractEventLoop, kind: Kind) -> None:
        self._pipe, self._loop, self._kind = pipe, loop, kind
        self._cutter = cutter_of(kind)
        pipe.faults = self._cutter.faults
        self._begin_file()

    async def take(self, part: bytes | Mark | None) -> None:
        """The next bytes, what is told between them, or the end."""
        if isinstance(part, Mark):
            self._mark(part)
            return
        for cut in self._cutter.push(part or b"", at_end=part is None):
            if cut.begins:
                self.close()
                self._begin_file()
            try:
                rest = cut.data[self._pipe.send_now(self._writer, cut.data) :]
                if rest:
                    await self._loop.sock_sendall(self._writer, rest)
            except OSError as error:
                raise _Gone from error
            self._num_bytes += len(cut.data)

    def _mark(self, mark: Mark) -> None:
        if mark.kind == "station":
            self._pipe.joined.add(self._cutter.file)
        if mark.kind == "reconnect":  # what is left of the connection before is of no use
            self._cutter = cutter_of(self._kind, self._cutter)
            self._pipe.joined.add(self._cutter.file)
            self.close()
            self._begin_file()
        self._pipe.marks.append(PlacedMark(self._cutter.file, self._num_bytes + self._cutter.num_held, mark))

    def _begin_file(self) -> None:
        self._num_bytes = 0  # sent of it
        self._writer = self._pipe.begin()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.shutdown(socket.SHUT_WR)
        self._writer.close()
