from __future__ import annotations

import contextlib
import copy
import errno
import gc
import mmap
import os
import pickle
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fetch_fakes import content

from aioaudio.encoded import Encoded, EncodedWriter, LocalFile, Readable, descriptor, nowait, source_error
from aioaudio.errors import FetchError, LimitError, SourceDenied, SourceNotFound

KIB = 1024
MIB = 1024 * KIB
SMALL, LARGE = content(1000), content(3 * MIB + 7)


def _written(data: bytes, name: str = "talk.wav") -> Encoded:
    with EncodedWriter(name) as writer:
        for start in range(0, len(data), 100 * KIB):
            writer.write(data[start : start + 100 * KIB])
        return writer.finish()


@contextlib.contextmanager
def _limit(kind: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def _anonymous_files() -> int:
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += "memfd:aioaudio" in os.readlink(f"/proc/self/fd/{fd}")
    return found


@pytest.fixture(params=["memory", "file", "local"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Readable]:
    """Makes LARGE, in each of the places where bytes can lie."""
    if request.param == "memory":
        return lambda: Encoded(LARGE, name="talk.wav")
    if request.param == "file":
        return lambda: _written(LARGE)
    (tmp_path / "talk.wav").write_bytes(LARGE)
    return lambda: LocalFile(tmp_path / "talk.wav")


def test_reads_are_ranges_clipped_to_what_is_there(make: Callable[[], Readable]) -> None:
    size = len(LARGE)
    with make().open() as opened:
        assert opened.size == size
        for offset, num_bytes in [(0, 10), (5, 0), (7, 2 * MIB), (size - 3, 3), (0, size)]:
            assert opened.read(num_bytes, offset) == LARGE[offset : offset + num_bytes]
        assert opened.read(100, size - 3) == LARGE[-3:]
        for offset, num_bytes in [(size, 1), (size + 1, 1), (-1, 10), (5, -1), (1 << 70, 5), (0, -(1 << 70))]:
            assert len(opened.read(num_bytes, offset)) == 0
        assert opened.read(1 << 70, 0) == LARGE
        assert opened.read(1, 0)[0] == LARGE[0]  # a view of bytes


def test_the_path_can_be_opened_again_and_again_each_time_from_the_start(make: Callable[[], Readable]) -> None:
    with make().open() as opened:
        path = opened.ffmpeg_path()
        assert opened.ffmpeg_path() == path
        with open(path, "rb") as one, open(path, "rb") as other:
            assert one.read(MIB) == LARGE[:MIB]
            assert other.read() == LARGE
            assert one.read() == LARGE[MIB:]


def test_eight_decodes_at_once_do_not_disturb_each_other(make: Callable[[], Readable]) -> None:
    readable, together = make(), threading.Barrier(8)

    def decode(_: int) -> bytes:
        with readable.open() as opened:
            together.wait(timeout=60)
            with open(opened.ffmpeg_path(), "rb") as file:
                parts = [file.read(64 * KIB) for _ in range(len(LARGE) // (64 * KIB) + 1)]
            assert b"".join(bytes(opened.read(64 * KIB, at)) for at in range(0, opened.size, 64 * KIB)) == LARGE
            return b"".join(parts)

    with ThreadPoolExecutor(8) as threads:
        assert all(data == LARGE for data in threads.map(decode, range(8)))


def test_what_is_open_outlives_the_encoded() -> None:
    encoded = _written(LARGE)
    with encoded.open() as opened:
        del encoded
        gc.collect()
        assert opened.read(MIB, 0) == LARGE[:MIB]
    del opened
    assert _anonymous_files() == 0


@pytest.mark.parametrize("data", [b"", SMALL, LARGE])
def test_encoded_is_a_value(data: bytes) -> None:
    for encoded in (Encoded(data, name="talk.wav"), _written(data)):
        assert bytes(encoded) == data
        assert encoded.num_bytes == len(data)
        assert copy.copy(encoded) is copy.deepcopy(encoded) is encoded
        assert repr(encoded) == f"Encoded('talk.wav', {len(data)} bytes)"
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(encoded, protocol))
            assert (bytes(again), again.name, again.num_bytes) == (data, "talk.wav", len(data))
    assert Encoded(data).name == f"<{len(data)} bytes>"


def test_mutable_bytes_are_copied_and_left_to_the_caller() -> None:
    for buffer in (bytearray(SMALL), mmap.mmap(-1, len(SMALL))):
        buffer[:] = SMALL
        encoded = Encoded(buffer)
        buffer[:4] = b"xxxx"
        buffer.resize(1 << 13) if isinstance(buffer, mmap.mmap) else buffer.clear()  # BufferError if there were a view
        assert bytes(encoded) == SMALL
    array = np.frombuffer(bytearray(SMALL), np.uint8)
    encoded, reversed_ = Encoded(array), Encoded(array[::-1])
    array[:] = 0
    assert (bytes(encoded), bytes(reversed_)) == (SMALL, SMALL[::-1])


@pytest.mark.parametrize("wrong", ["talk.wav", 5, None, np.zeros(4, np.float32), np.zeros((2, 2), np.uint8)])
def test_encoded_is_made_of_bytes_only(wrong: object) -> None:
    with pytest.raises(TypeError):
        Encoded(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("num_bytes", [0, 1, 256 * KIB, 256 * KIB + 1, 2 * MIB])
@pytest.mark.parametrize("block", [1009, 256 * KIB, 256 * KIB + 1, 4 * MIB])
def test_a_writer_keeps_the_order_whatever_the_sizes(num_bytes: int, block: int) -> None:
    with EncodedWriter("talk.wav") as writer:
        for start in range(0, num_bytes, block):
            writer.write(LARGE[start : min(start + block, num_bytes)])
        writer.write(np.frombuffer(LARGE, np.uint8)[: 2 * 10 : 2])
        writer.write(bytearray(LARGE[:5]))
        assert writer.num_bytes == num_bytes + 15
        encoded = writer.finish()
    assert bytes(encoded) == LARGE[:num_bytes] + LARGE[:20:2] + LARGE[:5]
    assert encoded.num_bytes == num_bytes + 15


def test_few_bytes_need_no_descriptor_and_many_go_with_the_last_reference() -> None:
    with EncodedWriter("talk.wav") as writer:
        writer.write(SMALL)
        assert (writer.is_in_memory, _anonymous_files()) == (True, 0)
        assert writer.fits(1)
        assert not writer.fits(MIB)
        writer.write(LARGE)
        assert (writer.is_in_memory, _anonymous_files()) == (False, 1)
        encoded = writer.finish()
    assert bytes(encoded) == SMALL + LARGE
    del encoded
    assert _anonymous_files() == 0


def test_a_writer_that_is_left_drops_what_it_has() -> None:
    with EncodedWriter("talk.wav") as writer:
        writer.write(LARGE)
        assert _anonymous_files() == 1
    assert _anonymous_files() == 0
    writer = EncodedWriter("talk.wav")
    writer.write(LARGE)
    writer.close()
    writer.close()
    assert _anonymous_files() == 0
    late = EncodedWriter("talk.wav")
    late.close()
    late.write(LARGE)  # as a thread does that has not noticed
    assert _anonymous_files() == 0


@pytest.mark.parametrize("data", [SMALL, LARGE])
def test_max_bytes_is_exact(data: bytes) -> None:
    writer = EncodedWriter("talk.wav", max_bytes=len(data))
    writer.write(data)
    with pytest.raises(LimitError) as raised:
        writer.write(b"x")
    assert raised.value.source == "talk.wav"


def test_beyond_a_quarter_of_the_descriptors_bytes_are_held_in_memory() -> None:
    with _limit(resource.RLIMIT_NOFILE, 128):
        kept = [_written(LARGE[: 300 * KIB + i]) for i in range(40)]
        assert _anonymous_files() == 32
        assert all(bytes(encoded) == LARGE[: 300 * KIB + i] for i, encoded in enumerate(kept))
        kept.pop(0)
        kept.append(_written(LARGE))
        assert _anonymous_files() == 32
        with EncodedWriter("talk.wav") as writer:
            writer.write(LARGE)
            assert writer.is_in_memory
            assert writer.fits(1000)  # small chunks do not go to a thread one by one
            assert not writer.fits(MIB)


def test_without_any_descriptor_left_bytes_are_held_in_memory() -> None:
    with _limit(resource.RLIMIT_NOFILE, 128), contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            while True:
                stack.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        encoded = _written(LARGE)
        with encoded.open() as memory:
            assert memory.read(len(LARGE), 0) == LARGE
            with pytest.raises(FetchError, match="cannot be buffered") as raised:
                memory.ffmpeg_path()
    assert (raised.value.errno, raised.value.source) == (errno.EMFILE, "talk.wav")


def test_without_room_for_the_bytes_it_is_a_fetch_error_and_nothing_stays_open() -> None:
    writer = EncodedWriter("talk.wav")
    with _limit(resource.RLIMIT_FSIZE, MIB):
        with pytest.raises(FetchError, match="cannot be buffered: File too large") as written:
            writer.write(LARGE)
        with Encoded(LARGE, name="talk.wav").open() as opened, pytest.raises(FetchError) as copied:
            opened.ffmpeg_path()
    for raised in (written, copied):
        assert (raised.value.errno, raised.value.source) == (errno.EFBIG, "talk.wav")
    assert _anonymous_files() == 0


def _unnamed_forbidden(*args: object) -> int:
    raise PermissionError(errno.EACCES, "forbidden")


@pytest.mark.parametrize("why", ["missing", "forbidden"])
def test_where_the_system_has_no_anonymous_files_temporary_ones_serve(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if why == "missing":
        monkeypatch.setattr(descriptor, "_HAS_MEMFD", False)
    else:
        monkeypatch.setattr(nowait, "create_memory_file", _unnamed_forbidden)
    encoded = _written(LARGE)
    with encoded.open() as opened, open(opened.ffmpeg_path(), "rb") as file:
        assert opened.read(10, 5) == LARGE[5:15]
        assert file.read() == LARGE
    assert len(list(tmp_path.iterdir())) == 1
    with Encoded(LARGE).open() as opened:
        assert Path(os.fsdecode(opened.ffmpeg_path())).read_bytes() == LARGE
        assert len(list(tmp_path.iterdir())) == 2
    del encoded, opened
    assert list(tmp_path.iterdir()) == []


FORKS = """
import os
import sys

import aioaudio.encoded.descriptor as descriptor
from aioaudio.encoded import Encoded, EncodedWriter

descriptor._HAS_MEMFD = descriptor._HAS_MEMFD and sys.argv[1] == "memfd"
data = os.urandom(1 << 20)
writer = EncodedWriter("talk.wav")
writer.write(data)
encoded = writer.finish()
child = os.fork()
if child == 0:
    with encoded.open() as opened, open(opened.ffmpeg_path(), "rb") as file:
        assert file.read() == data == bytes(encoded)
    del encoded, opened
    again = EncodedWriter("talk.wav")
    again.write(data)
    assert bytes(again.finish()) == data
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
with encoded.open() as opened, open(opened.ffmpeg_path(), "rb") as file:
    assert file.read() == data == bytes(encoded)
"""

EXITS = """
import builtins
import sys

from aioaudio.encoded import EncodedWriter


def large():
    writer = EncodedWriter("talk.wav")
    writer.write(bytes(1 << 20))
    return writer.finish()


class Cycle:
    pass


kept = large()
cycle = Cycle()
cycle.itself, cycle.kept = cycle, large()
builtins.kept = large()
sys.kept = large()
sys.modules["aioaudio.errors"].kept = large()
"""


def _run(script: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *args],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr + ("" if done.returncode == 0 else f"exit status {done.returncode}")


@pytest.mark.parametrize("kind", ["memfd", "temporary"])
def test_a_forked_child_reads_the_same_bytes_and_leaves_them_to_its_parent(kind: str) -> None:
    assert _run(FORKS, kind) == ""


def test_the_interpreter_exits_quietly_whoever_holds_an_encoded() -> None:
    assert _run(EXITS) == ""


def test_source_errors_keep_the_number_and_name_the_source() -> None:
    for number, kind in [
        (errno.ENOENT, SourceNotFound),
        (errno.ENOTDIR, SourceNotFound),
        (errno.EACCES, SourceDenied),
        (errno.EPERM, SourceDenied),
        (errno.EISDIR, FetchError),
        (errno.EIO, FetchError),
        (errno.ESTALE, FetchError),
    ]:
        error = source_error(OSError(number, os.strerror(number)), "talk.wav")
        assert type(error) is kind
        again: Callable[[], object] = pickle.loads(pickle.dumps(error))
        for each in (error, again):
            assert (each.errno, each.source) == (number, "talk.wav")  # type: ignore[union-attr]
    assert str(source_error(OSError("boom"), "talk.wav")) == "talk.wav: reading failed: boom"
    assert str(source_error(TimeoutError(), "talk.wav")) == "talk.wav: reading failed: TimeoutError"
