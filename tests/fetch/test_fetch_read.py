from __future__ import annotations

import array
import asyncio
import errno
import gzip
import io
import mmap
import os
import pickle
import socket
import tempfile
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiofiles
import numpy as np
import pytest
import torch
from fetch_fakes import (
    Chunks,
    Endless,
    Faulty,
    FaultyAsync,
    OnlyReads,
    OnlyReadsAsync,
    ReadsAwaitable,
    ReadsFuture,
    content,
    never,
    read_chunks,
    until,
)

from aioaudio.encoded import Encoded, LocalFile
from aioaudio.errors import AudioTimeout, FetchError, LimitError, SourceDenied, SourceNotFound
from aioaudio.fetch import fetch
from aioaudio.workers import Workers

KIB = 1024
MIB = 1024 * KIB


async def _bytes_of(fetching: Awaitable[Encoded], workers: Workers) -> bytes:
    return await workers.read(bytes, await fetching)


def _mapped(data: bytes) -> mmap.mmap:
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    return mapped


def _positioned(data: bytes) -> io.BytesIO:
    file = io.BytesIO(b"before" + data)
    file.seek(6)
    return file


def _zipped(data: bytes) -> Any:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("talk.wav", data)
    return zipfile.ZipFile(packed).open("talk.wav")


IN_MEMORY: dict[str, Callable[[bytes], Any]] = {
    "bytes": lambda data: data,
    "bytearray": bytearray,
    "memoryview": lambda data: memoryview(b"x" + data)[1:],
    "strided memoryview": lambda data: memoryview(data[::-1])[::-1],
    "array": lambda data: array.array("B", data),
    "mmap": _mapped,
    "numpy": lambda data: np.frombuffer(data, np.uint8),
    "strided numpy": lambda data: np.repeat(np.frombuffer(data, np.uint8), 2)[::2],
    "tensor": lambda data: torch.frombuffer(bytearray(data), dtype=torch.uint8),
    "strided tensor": lambda data: torch.frombuffer(bytearray(data), dtype=torch.uint8).repeat_interleave(2)[::2],
    "Encoded": Encoded,
    "BytesIO": io.BytesIO,
    "BytesIO from a position": _positioned,
    "zip member": _zipped,
    "gzip": lambda data: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data, 1))),
    "read()": OnlyReads,
    "async read()": OnlyReadsAsync,
    "awaitable read()": ReadsAwaitable,
    "future read()": ReadsFuture,
    "async iterable": lambda data: Chunks(data, 100 * KIB),
    "tiny chunks": lambda data: read_chunks(data, 1 + len(data) // 500),
    "uneven chunks": lambda data: read_chunks(data, 300 * KIB),
    "one chunk": lambda data: read_chunks(data, len(data)),
}


@pytest.mark.parametrize("num_bytes", [1, 256 * KIB, 256 * KIB + 1, 3 * MIB + 7])
@pytest.mark.parametrize("kind", IN_MEMORY)
async def test_every_kind_of_source_gives_its_bytes(kind: str, num_bytes: int, workers: Workers) -> None:
    data = content(num_bytes)
    encoded = await fetch(IN_MEMORY[kind](data), workers)
    assert await workers.read(bytes, encoded) == data
    assert encoded.num_bytes == num_bytes


@pytest.mark.parametrize("num_bytes", [0, 1000, 256 * KIB + 1, 3 * MIB + 7])
async def test_every_kind_of_file_gives_its_bytes(
    num_bytes: int, tmp_path: Path, workers: Workers, executor: ThreadPoolExecutor
) -> None:
    data = content(num_bytes)
    path = tmp_path / "talk.wav"
    path.write_bytes(data)
    async with AsyncExitStack() as stack:
        spooled = stack.enter_context(tempfile.SpooledTemporaryFile(max_size=KIB))  # noqa: SIM115
        spooled.write(data)
        spooled.seek(0)
        assert await _bytes_of(fetch(spooled, workers), workers) == data
        sources = [
            str(path),
            path,
            LocalFile(os.fsencode(path)),
            stack.enter_context(path.open("rb")),
            stack.enter_context(path.open("rb", buffering=0)),
            stack.enter_context(path.open("r+b")),
            await stack.enter_async_context(aiofiles.open(path, "rb", executor=executor)),
            await stack.enter_async_context(aiofiles.open(path, "rb", buffering=0, executor=executor)),
        ]
        for source in sources:
            encoded = await fetch(source, workers)
            assert await workers.read(bytes, encoded) == data
            assert encoded.name == str(path)


async def test_sources_without_bytes_are_empty(workers: Workers) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        for chunk in (b"", b""):
            yield chunk

    for source in (b"", bytearray(), io.BytesIO(), OnlyReads(b""), OnlyReadsAsync(b""), nothing(), "/dev/null"):
        assert (await fetch(source, workers)).num_bytes == 0


async def test_an_empty_chunk_is_not_the_end(workers: Workers) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"a", b"", b"b"):
            yield chunk

    assert await _bytes_of(fetch(chunks(), workers), workers) == b"ab"


async def test_a_file_may_use_its_buffer_again(workers: Workers) -> None:
    class File(OnlyReads):
        buffer = bytearray()

        def read(self, size: int) -> Any:
            self.buffer.clear()  # BufferError if a view of it were left
            self.buffer += super().read(size)
            return self.buffer

    data = content(3 * MIB + 7)
    assert await _bytes_of(fetch(File(data), workers), workers) == data


async def test_chunks_may_be_any_buffer_and_may_be_used_again(workers: Workers) -> None:
    async def chunks() -> AsyncIterator[Any]:
        buffer = bytearray()
        for size in (10, 300 * KIB, 20):
            buffer += data[:size]
            yield buffer
            buffer.clear()  # BufferError if a view of it were left
        yield np.frombuffer(data, np.uint8)[:10]
        yield memoryview(data)[:20:2]

    data = content(300 * KIB)
    assert await _bytes_of(fetch(chunks(), workers), workers) == data[:10] + data + data[:20] + data[:10] + data[:20:2]


@pytest.mark.parametrize("kind", ["BytesIO", "buffered", "unbuffered", "aiofiles", "large BytesIO"])
async def test_a_file_is_read_from_where_it_stands_to_its_end(
    kind: str, tmp_path: Path, workers: Workers, executor: ThreadPoolExecutor
) -> None:
    data = content(2 * MIB if kind == "large BytesIO" else 1000)
    path = tmp_path / "talk.wav"
    path.write_bytes(data)
    if kind == "aiofiles":
        async with aiofiles.open(path, "rb", executor=executor) as file:
            await file.seek(100)
            assert await _bytes_of(fetch(file, workers), workers) == data[100:]
            assert await file.tell() == len(data)
            assert not file.closed
        return
    opened = (
        io.BytesIO(data) if kind.endswith("BytesIO") else path.open("rb", buffering=-1 if kind == "buffered" else 0)
    )
    with opened as blocking:
        assert len(blocking.read(100)) == 100
        assert await _bytes_of(fetch(blocking, workers), workers) == data[100:]
        assert blocking.tell() == len(data)
        assert (await fetch(blocking, workers)).num_bytes == 0
        assert not blocking.closed


@pytest.mark.parametrize("num_bytes", [1000, 2 * MIB])
async def test_the_callers_memory_is_his_again_afterwards(num_bytes: int, workers: Workers) -> None:
    data = content(num_bytes)
    buffer = bytearray(data)
    encoded = await fetch(buffer, workers)
    buffer[:4] = b"xxxx"
    buffer.clear()
    assert await workers.read(bytes, encoded) == data
    buffer += data
    with pytest.raises(LimitError) as raised:
        await fetch(buffer, workers, max_bytes=10)
    buffer.clear()  # BufferError if the traceback kept a view
    assert raised.value.source == f"<{num_bytes} bytes>"


async def test_a_bytes_io_keeps_its_bytes_to_itself(workers: Workers) -> None:
    file = io.BytesIO(b"RIFF")
    encoded = await fetch(file, workers)
    file.seek(0)
    file.write(b"xxxx")
    assert await workers.read(bytes, encoded) == b"RIFF"


LIMITED = {
    **IN_MEMORY,
    "path": lambda data: data,  # written by the test
}


@pytest.mark.parametrize("num_bytes", [1000, 3 * MIB])
@pytest.mark.parametrize("kind", LIMITED)
async def test_max_bytes_is_a_limit_for_every_kind(kind: str, num_bytes: int, tmp_path: Path, workers: Workers) -> None:
    data = content(num_bytes)

    def make() -> Any:
        if kind != "path":
            return LIMITED[kind](data)
        (tmp_path / "talk.wav").write_bytes(data)
        return tmp_path / "talk.wav"

    assert await _bytes_of(fetch(make(), workers, max_bytes=num_bytes), workers) == data
    with pytest.raises(LimitError, match=f"max_bytes={num_bytes - 1}") as raised:
        await fetch(make(), workers, max_bytes=num_bytes - 1)
    assert raised.value.source


async def test_no_more_is_read_than_max_bytes_and_one_block(workers: Workers) -> None:
    file = OnlyReads(content(20 * MIB))
    with pytest.raises(LimitError):
        await fetch(file, workers, max_bytes=3 * MIB)
    assert file.num_reads == 4
    slow = OnlyReadsAsync(content(20 * MIB))
    with pytest.raises(LimitError):
        await fetch(slow, workers, max_bytes=3 * MIB)
    assert slow.num_reads == 4
    with pytest.raises(LimitError):
        await fetch("/dev/zero", workers, max_bytes=3 * MIB)


@pytest.mark.parametrize("num_bytes", [0, 1000, 2 * MIB])
@pytest.mark.parametrize("make", [Faulty, FaultyAsync])
async def test_a_read_error_after_a_part_is_raised(make: Any, num_bytes: int, workers: Workers) -> None:
    with pytest.raises(FetchError, match="Input/output error") as raised:
        await fetch(make(content(num_bytes)), workers)
    assert raised.value.errno == errno.EIO
    assert raised.value.source == "faulty.wav"
    assert isinstance(raised.value.__cause__, OSError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.errno, again.source) == (errno.EIO, "faulty.wav")


async def test_a_read_error_of_an_iterator_is_raised(workers: Workers) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield content(300 * KIB)
        raise ConnectionResetError(errno.ECONNRESET, "reset by peer")

    with pytest.raises(FetchError, match=r"<async_generator .*chunks>: reading failed: reset by peer") as raised:
        await fetch(chunks(), workers)
    assert raised.value.errno == errno.ECONNRESET


async def test_a_time_out_of_the_source_itself_is_a_fetch_error(workers: Workers) -> None:
    with pytest.raises(FetchError, match="reading failed: TimeoutError"):
        await fetch(FaultyAsync(b"RIFF", TimeoutError()), workers, timeout=60)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs Linux")
async def test_a_read_error_of_the_system_is_raised(workers: Workers) -> None:
    with pytest.raises(FetchError) as raised:
        await fetch("/proc/self/mem", workers)
    assert (raised.value.errno, raised.value.source) == (errno.EIO, "/proc/self/mem")


@pytest.mark.parametrize("make", [Faulty, FaultyAsync])
async def test_other_exceptions_of_a_source_come_as_they_are(make: Any, workers: Workers) -> None:
    error = zipfile.BadZipFile("no")
    with pytest.raises(zipfile.BadZipFile) as raised:
        await fetch(make(b"RIFF", error), workers)
    assert raised.value is error


@pytest.mark.parametrize("make", [Faulty, FaultyAsync])
async def test_errors_that_name_their_source_already_are_not_wrapped(make: Any, workers: Workers) -> None:
    error = SourceNotFound("no such object", source="s3://bucket/key")
    with pytest.raises(SourceNotFound) as raised:
        await fetch(make(b"RIFF", error), workers)
    assert raised.value is error


async def test_paths_that_cannot_be_read_are_named(tmp_path: Path, workers: Workers) -> None:
    missing = tmp_path / "missing.wav"
    with pytest.raises(SourceNotFound) as not_found:
        await fetch(missing, workers)
    assert (not_found.value.source, not_found.value.errno) == (str(missing), errno.ENOENT)
    (tmp_path / "file").touch()
    with pytest.raises(SourceNotFound) as beneath_file:
        await fetch(tmp_path / "file" / "talk.wav", workers)
    assert beneath_file.value.errno == errno.ENOTDIR
    with pytest.raises(FetchError, match="is a directory") as directory:
        await fetch(tmp_path, workers)
    assert (directory.value.source, directory.value.errno) == (str(tmp_path), errno.EISDIR)
    for impossible in ("a\0b", "\ud800"):
        with pytest.raises(SourceNotFound):
            await fetch(impossible, workers)
    with pytest.raises(FetchError, match="File name too long"):
        await fetch("x" * 5000, workers)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_path_without_permission_is_denied(tmp_path: Path, workers: Workers) -> None:
    path = tmp_path / "talk.wav"
    path.touch(mode=0)
    with pytest.raises(SourceDenied) as raised:
        await fetch(path, workers)
    assert raised.value.source == str(path)


async def test_a_socket_is_no_file(tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(FetchError) as raised:
            await fetch("socket", workers)
    assert raised.value.source == "socket"


@pytest.mark.parametrize(
    "wrong", ["RIFF", 5, None, [1, 2], np.zeros(4, np.int16)], ids=lambda wrong: type(wrong).__name__
)
async def test_blocks_that_are_not_bytes_are_type_errors_that_name_the_source(wrong: Any, workers: Workers) -> None:
    class File:
        name = "talk.wav"

        def read(self, size: int) -> Any:
            return wrong

    class SlowFile(File):
        async def read(self, size: int) -> Any:
            return wrong

    async def chunks() -> AsyncIterator[Any]:
        yield b"RIFF"
        yield wrong

    kind = "str, not bytes" if isinstance(wrong, str) else f"not {type(wrong).__name__}"
    for source, name in ((File(), "talk.wav"), (SlowFile(), "talk.wav"), (chunks(), "chunks>")):
        with pytest.raises(TypeError, match=f"{name} .*{kind}"):
            await fetch(source, workers)


async def test_an_aiofiles_file_in_text_mode_is_told_so(
    tmp_path: Path, workers: Workers, executor: ThreadPoolExecutor
) -> None:
    (tmp_path / "talk.wav").write_bytes(b"RIFF")
    async with aiofiles.open(tmp_path / "talk.wav", executor=executor) as file:
        with pytest.raises(TypeError, match=r"talk\.wav .* binary mode"):
            await fetch(file, workers)


@pytest.mark.parametrize("wrong", [str, bytes])
async def test_generators_are_closed_when_they_give_what_is_wrong_or_too_much(wrong: Any, workers: Workers) -> None:
    closed = []

    async def chunks() -> AsyncIterator[Any]:
        try:
            while True:
                yield "RIFF" if wrong is str else bytes(MIB)
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    generator = chunks()
    with pytest.raises(TypeError if wrong is str else LimitError):
        await fetch(generator, workers, max_bytes=10 * MIB)
    assert closed == [True]


@pytest.mark.parametrize("num_bytes", [0, 1000, 3 * MIB])
async def test_a_fifo_is_read_until_its_writer_leaves(
    num_bytes: int, tmp_path: Path, workers: Workers, executor: ThreadPoolExecutor
) -> None:
    fifo, data = tmp_path / "fifo", content(num_bytes)
    os.mkfifo(fifo)
    fetching = asyncio.create_task(fetch(fifo, workers))
    await asyncio.get_running_loop().run_in_executor(executor, fifo.write_bytes, data)  # which waits for a reader
    encoded = await fetching
    assert (await workers.read(bytes, encoded), encoded.name) == (data, str(fifo))


async def test_fifos_without_a_writer_hold_no_thread(
    tmp_path: Path, workers: Workers, descriptors: Callable[[], list[str]]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    waiting = [asyncio.create_task(fetch(fifo, workers)) for _ in range(5)]
    await until(lambda: descriptors().count(str(fifo)) == 5)
    assert await _bytes_of(fetch(OnlyReads(b"RIFF"), workers), workers) == b"RIFF"
    for task in waiting:
        task.cancel()
    assert all(isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*waiting, return_exceptions=True))
    with pytest.raises(AudioTimeout) as raised:
        await fetch(fifo, workers, timeout=0.001)
    assert raised.value.source == str(fifo)
    await workers.read(int)
    assert str(fifo) not in descriptors()


async def test_a_source_that_waits_for_ever_times_out(workers: Workers) -> None:
    class Silent:
        name = "silent.wav"

        async def read(self, size: int) -> bytes:
            return await asyncio.get_running_loop().create_future()

    for source, name in ((never(), "<async_generator never>"), (Silent(), "silent.wav")):
        with pytest.raises(AudioTimeout, match=r"timeout=0\.001") as raised:
            await fetch(source, workers, timeout=0.001)
        assert raised.value.source == name


async def test_a_file_that_waits_for_ever_times_out_and_its_thread_stops_after_that_read(workers: Workers) -> None:
    file = Endless()
    with pytest.raises(AudioTimeout):
        await fetch(file, workers, timeout=0.001)
    file.gate.release(100)
    await workers.aclose()
    assert file.num_reads == 1
    assert not file.closed


async def test_what_is_done_in_time_does_not_time_out(workers: Workers) -> None:
    for source in (b"RIFF", io.BytesIO(b"RIFF"), OnlyReads(b"RIFF"), OnlyReadsAsync(b"RIFF"), Chunks(b"RIFF", 1)):
        assert await _bytes_of(fetch(source, workers, timeout=60), workers) == b"RIFF"


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_the_wait_for_a_thread_does_not_count_for_the_timeout(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    busy = Endless()
    blocking = asyncio.create_task(fetch(busy, workers))
    await until(busy.reading.is_set)
    queued = asyncio.create_task(fetch(OnlyReads(b"RIFF"), workers, timeout=60))
    await until(lambda: workers.statistics().read_queued)
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 3600)
    for _ in range(10):
        await asyncio.sleep(0)
    blocking.cancel()
    await asyncio.gather(blocking, return_exceptions=True)
    busy.gate.release()
    assert bytes(await queued) == b"RIFF"
