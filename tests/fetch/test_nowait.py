"""System calls that keep the GIL: they do what Python's own do, or say that they cannot."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from aioaudio.encoded import LocalFile, nowait
from aioaudio.fetch.warm import is_cached

pytestmark = pytest.mark.skipif(nowait._libc is None, reason="only Linux has these calls")


def test_a_regular_file_that_lies_in_memory_is_opened_and_read(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(bytes(range(200)))
    path.stat()
    opened = nowait.open_regular(str(path))
    if opened is None:
        pytest.skip("this system opens nothing without waiting")
    fd, size = opened
    buffer = memoryview(bytearray(50))
    try:
        assert size == 200
        assert not os.get_inheritable(fd)
        assert nowait.read_into(fd, buffer, 170) in (None, 30)  # None: not a file system that tells
        assert nowait.read_into(fd, buffer, 200) in (None, 0)
    finally:
        nowait.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        nowait.close(fd)


def test_whatever_else_there_is_is_left_to_the_general_way(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("fifo", "loop", "socket", "nothing", ".", "a\0.wav", "\ud800"):
            assert nowait.open_regular(str(tmp_path / name)) is None
    assert nowait.open_regular("/dev/zero") is None


def test_without_these_calls_the_general_ones_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(bytes(range(200)))
    monkeypatch.setattr(nowait, "_libc", None)
    with LocalFile(path).open() as opened:
        assert bytes(opened.read(50, 170)) == bytes(range(170, 200))
        assert not is_cached(opened)


def test_a_file_in_memory_holds_what_is_written() -> None:
    fd = nowait.create_memory_file("name")
    try:
        for data in (b"short", bytes(2 * nowait.MAX_BYTES)):
            at = os.fstat(fd).st_size
            assert nowait.write(fd, memoryview(data)) == len(data)
            assert os.pread(fd, len(data), at) == data
        assert not os.get_inheritable(fd)
    finally:
        nowait.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        nowait.write(fd, memoryview(b"more"))
