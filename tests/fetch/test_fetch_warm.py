from __future__ import annotations

import asyncio
import errno
import os
import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path

import pytest
from fetch_fakes import content, until

from aioaudio.encoded import Encoded, LocalFile, NotRegularFile
from aioaudio.errors import AudioTimeout, FetchError, SourceNotFound
from aioaudio.fetch import is_cached, warm, warm_up
from aioaudio.workers import Workers

KIB = 1024
MIB = 1024 * KIB


@dataclass
class Stop:
    is_set: bool = False


def _on_disk(path: Path, num_bytes: int) -> LocalFile:
    """A file none of whose pages are in memory; skips where the file system keeps them or does not tell."""
    path.write_bytes(content(num_bytes))
    file = LocalFile(path)
    if not _is_cached(file):
        pytest.skip("this file system does not tell what is cached")
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    return file


def _is_cached(file: LocalFile) -> bool:
    with file.open() as opened:
        return is_cached(opened)


@pytest.mark.parametrize("num_bytes", [1, 4096, 100 * KIB, 3 * MIB + 7])
def test_a_file_is_cached_once_it_is_warm(num_bytes: int, tmp_path: Path) -> None:
    file = _on_disk(tmp_path / "talk.wav", num_bytes)
    assert not _is_cached(file)
    warm(file)
    assert _is_cached(file)


@pytest.mark.parametrize(("start", "num_bytes"), [(0, 8 * KIB), (32 * MIB - 8 * KIB, 8 * KIB), (0, 16 * MIB)])
def test_a_file_of_which_only_a_part_is_cached_is_not(start: int, num_bytes: int, tmp_path: Path) -> None:
    file = _on_disk(tmp_path / "talk.wav", 32 * MIB)
    with file.open() as opened:
        os.posix_fadvise(opened.fd, 0, 0, os.POSIX_FADV_RANDOM)
        opened.read(num_bytes, start)
    assert not _is_cached(file)


def test_a_file_without_its_middle_is_not_cached(tmp_path: Path) -> None:
    file = _on_disk(tmp_path / "talk.wav", 32 * MIB)
    with file.open() as opened:
        os.posix_fadvise(opened.fd, 0, 0, os.POSIX_FADV_RANDOM)
        opened.read(4 * KIB, 0)
        opened.read(4 * KIB, 32 * MIB - 4 * KIB)
        assert not is_cached(opened)


def test_an_empty_file_is_cached(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    file = LocalFile(tmp_path / "empty.wav")
    warm(file)
    assert _is_cached(file)


@pytest.mark.parametrize("num_bytes", [1000, MIB])
def test_encoded_bytes_are_always_at_hand(num_bytes: int) -> None:
    with Encoded(content(num_bytes)).open() as opened:
        assert is_cached(opened)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs Linux")
def test_warming_raises_the_read_errors_of_the_system() -> None:
    with pytest.raises(FetchError, match="Input/output error") as raised:
        warm(LocalFile("/proc/self/mem"))
    assert (raised.value.errno, raised.value.source) == (errno.EIO, "/proc/self/mem")


def test_warming_raises_what_opening_does(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        warm(LocalFile(tmp_path / "missing.wav"))
    with pytest.raises(FetchError, match="is a directory"):
        warm(LocalFile(tmp_path))
    with pytest.raises(NotRegularFile):
        warm(LocalFile("/dev/zero"))


def test_a_fifo_is_refused_without_its_writer_noticing(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"RIFF",))
    writer.start()
    for _ in range(10):
        with pytest.raises(NotRegularFile) as raised:
            warm(LocalFile(fifo))
        assert raised.value.source == str(fifo)
    assert fifo.read_bytes() == b"RIFF"
    writer.join()


def test_warming_stops_when_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(content(3 * MIB))
    warm(LocalFile(path), Stop())
    with pytest.raises(CancelledError):
        warm(LocalFile(path), Stop(is_set=True))


async def test_warming_in_a_thread_raises_the_same_errors(tmp_path: Path, workers: Workers) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(content(MIB))
    await warm_up(LocalFile(path), workers)
    await warm_up(LocalFile(path), workers, timeout=60)
    with pytest.raises(SourceNotFound):
        await warm_up(LocalFile(tmp_path / "missing.wav"), workers)


async def test_warming_in_a_thread_stops_when_it_is_not_awaited_any_more(tmp_path: Path, workers: Workers) -> None:
    path = tmp_path / "large.wav"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room, and hours to read
    warming = asyncio.create_task(warm_up(LocalFile(path), workers))
    await until(lambda: workers.statistics().read_running)
    warming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await warming
    with pytest.raises(AudioTimeout) as raised:
        await warm_up(LocalFile(path), workers, timeout=0.001)
    assert raised.value.source == str(path)
    await workers.read(int)
