from __future__ import annotations

import array
import asyncio
import ctypes
import io
import mmap
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fetch_fakes import Chunks, OnlyReads, OnlyReadsAsync, ReadsAwaitable, read_chunks

from aioaudio.audio import Clip
from aioaudio.encoded import Encoded, LocalFile
from aioaudio.fetch.sources import AsyncChunks, AsyncFile, BlockingFile, Memory, resolve

DATA = b"RIFF\x00WAVE"


@pytest.mark.parametrize("path", ["talk.mp3", Path("talk.mp3"), "data:x", "C://talk.mp3", "", "a\0b", "no\udcffutf8"])
def test_a_str_and_a_path_name_a_local_file(path: str | Path) -> None:
    resolved = resolve(path)
    assert isinstance(resolved, LocalFile)
    assert resolved.path == os.fspath(path)
    assert resolved.name == str(path).replace("\udcff", r"\udcff")  # which can be printed


def test_a_path_that_is_not_unicode_keeps_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "no\udcffutf8").touch()
    [entry] = os.scandir(os.fsencode(tmp_path))
    resolved = resolve(entry)
    assert isinstance(resolved, LocalFile)
    assert resolved.path == entry.path
    assert resolved.name == os.fsdecode(entry.path).replace("\udcff", r"\udcff")


@pytest.mark.parametrize("url", ["ftp://user:secret@example.org/a.mp3", "s3://bucket/key", "file:///a.wav", "X+y://a"])
def test_a_url_of_another_kind_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="must not be a URL") as raised:
        resolve(url)
    assert url.split("://")[0] in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("data", [DATA, memoryview(DATA), memoryview(b"xx" + DATA)[2:]])
def test_bytes_are_taken_without_a_copy(data: bytes | memoryview) -> None:
    resolved = resolve(data)
    assert isinstance(resolved, Encoded)
    assert resolved.name == f"<{len(DATA)} bytes>"
    with resolved.open() as opened:
        assert bytes(opened.read(100, 0)) == DATA
        assert opened.read(1, 0).obj is memoryview(data).obj


def _mapped() -> mmap.mmap:
    mapped = mmap.mmap(-1, len(DATA))
    mapped[:] = DATA
    return mapped


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(DATA),
        lambda: memoryview(bytearray(DATA)),
        lambda: memoryview(DATA[::-1])[::-1],
        lambda: np.frombuffer(DATA, np.uint8),
        lambda: np.frombuffer(DATA, np.int8),
        lambda: torch.frombuffer(bytearray(DATA), dtype=torch.uint8),
        lambda: torch.frombuffer(bytearray(DATA), dtype=torch.uint8).repeat_interleave(3)[::3],
        lambda: array.array("B", DATA),
        lambda: (ctypes.c_char * len(DATA))(*DATA),
        _mapped,
    ],
    ids=lambda make: type(make()).__name__,
)
def test_other_buffers_are_memory_of_the_caller(make: Callable[[], Any]) -> None:
    resolved = resolve(make())
    if isinstance(resolved, Encoded):
        assert bytes(resolved) == DATA
    else:
        assert isinstance(resolved, Memory)
        assert resolved.view.tobytes() == DATA
    assert resolved.name == f"<{len(DATA)} bytes>"


@pytest.mark.parametrize("empty", [np.empty(0, np.uint8), torch.empty(0, dtype=torch.uint8), b"", bytearray()])
def test_empty_buffers_are_sources(empty: Any) -> None:
    assert resolve(empty).name == "<0 bytes>"


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(8, np.int16),
        np.zeros((2, 4), np.uint8),
        np.zeros((), np.uint8),
        torch.zeros(8),
        torch.zeros(2, 4, dtype=torch.uint8),
        torch.zeros(8, dtype=torch.uint8).to_sparse(),
        array.array("h", [1]),
    ],
)
def test_what_is_no_row_of_bytes_is_a_type_error_that_says_so(samples: Any) -> None:
    with pytest.raises(TypeError, match=r"one-dimensional.* uint8|\(uint8\)"):
        resolve(samples)


def test_a_tensor_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match="CPU, not on meta"):
        resolve(torch.zeros(8, dtype=torch.uint8, device="meta"))


def test_files_are_blocking_and_named(tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(DATA)
    with path.open("rb") as file, open(os.fsencode(path), "rb") as by_bytes, os.fdopen(os.dup(file.fileno())) as text:
        for opened in (file, by_bytes, text.buffer):
            assert isinstance(resolve(opened), BlockingFile)
        assert resolve(file).name == resolve(by_bytes).name == str(path)
        assert resolve(text.buffer).name == "<BufferedReader>"  # its name is a number
    assert resolve(io.BytesIO(DATA)).name == "<BytesIO>"
    with tempfile.SpooledTemporaryFile() as spooled:
        assert resolve(spooled).name == "<SpooledTemporaryFile>"


@pytest.mark.parametrize("kind", [OnlyReads, ReadsAwaitable])
def test_an_object_with_read_is_a_blocking_file_until_it_gives_an_awaitable(kind: type[OnlyReads]) -> None:
    resolved = resolve(kind(DATA))
    assert isinstance(resolved, BlockingFile)
    assert resolved.name == f"<{kind.__name__}>"


def test_an_object_with_an_async_read_is_an_async_file() -> None:
    resolved = resolve(OnlyReadsAsync(DATA))
    assert isinstance(resolved, AsyncFile)
    assert resolved.name == "<OnlyReadsAsync>"


async def test_a_stream_reader_is_read_in_blocks_not_in_lines() -> None:
    assert isinstance(resolve(asyncio.StreamReader()), AsyncFile)


def test_async_iterables_are_named_by_their_functions() -> None:
    generator, iterable = resolve(read_chunks(DATA, 4)), resolve(Chunks(DATA, 4))
    assert isinstance(generator, AsyncChunks)
    assert isinstance(iterable, AsyncChunks)
    assert (generator.name, iterable.name) == ("<async_generator read_chunks>", "<Chunks>")


def test_an_async_iterable_whose_read_blocks_is_iterated() -> None:
    class Both(Chunks):
        def read(self, size: int) -> bytes:
            raise AssertionError

    assert isinstance(resolve(Both(DATA, 4)), AsyncChunks)


def test_text_files_are_told_to_open_in_binary(tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(DATA)
    with path.open() as file, pytest.raises(TypeError, match=r"talk\.wav is open as text: open it in binary"):
        resolve(file)
    with pytest.raises(TypeError, match="<StringIO> is open as text"):
        resolve(io.StringIO("RIFF"))


def test_files_that_cannot_be_read_are_value_errors(tmp_path: Path) -> None:
    with (tmp_path / "out.wav").open("wb") as file, pytest.raises(ValueError, match=r"out\.wav is not open for read"):
        resolve(file)
    closed = io.BytesIO()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        resolve(closed)


def _sync_chunks() -> Iterator[bytes]:
    yield DATA


async def _async_function() -> AsyncIterator[bytes]:
    yield DATA


@pytest.mark.parametrize(
    "wrong", [None, 5, 1.5, [DATA], {}, _sync_chunks(), _async_function, object(), io.BytesIO.read]
)
def test_what_is_no_source_is_a_type_error_that_names_its_type(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"a source must be a path, .* not {type(wrong).__name__}"):
        resolve(wrong)


def test_a_clip_in_a_clip_is_refused() -> None:
    with pytest.raises(TypeError, match="must not itself be a Clip"):
        resolve(Clip("talk.mp3"))


def test_what_is_resolved_comes_as_it_is() -> None:
    for source in ("talk.mp3", DATA, bytearray(DATA), OnlyReads(DATA), OnlyReadsAsync(DATA), Chunks(DATA, 4)):
        resolved = resolve(source)
        assert resolve(resolved) is resolved
