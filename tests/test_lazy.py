"""`submit`: it returns at once, waits for its samples where they are used, and fails where it is used."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import gc
import io
import logging
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aioaudio
from aioaudio import LazyAudio

PATIENCE = 60  # seconds until something counts as hanging


class Held(io.BytesIO):
    """A file whose first read waits until `release` is called. Always a thread's business, never the event loop's."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def read(self, size: int | None = -1, /) -> bytes:
        assert self._released.wait(PATIENCE)
        return super().read(size)


@pytest.fixture
def wav(data: Path) -> bytes:
    return (data / "ljspeech.wav").read_bytes()


@pytest.fixture
def held(wav: bytes) -> Iterator[Held]:
    file = Held(wav)
    yield file
    file.release()


@pytest.fixture
def samples(wav: bytes) -> torch.Tensor:
    return aioaudio.sync.load(wav).waveform


def wait_until_done(lazy: LazyAudio) -> None:
    """Wait without looking at how it ended."""
    concurrent.futures.wait([lazy._future], PATIENCE)
    assert lazy.done()


def test_it_gives_what_load_gives(data: Path) -> None:
    clip = aioaudio.Clip(data / "jfk.flac", 0.5, 1.5, fields={"speaker": "Kennedy"})
    options: dict[str, Any] = {"sample_rate": 16_000, "num_channels": 1, "dtype": torch.int16}
    audio = aioaudio.submit(clip, **options).result()
    assert repr(audio) == repr(aioaudio.sync.load(clip, **options))
    assert audio.waveform.equal(aioaudio.sync.load(clip, **options).waveform)
    assert audio.clip is clip
    assert aioaudio.submit(clip.source).result().clip is None


def test_sync_has_the_same_function() -> None:
    assert aioaudio.sync.submit is aioaudio.submit


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("a.wav", {"num_channels": 0}, ValueError),
        ("a.wav", {"timeout": -1}, ValueError),
        ("a.wav", {"out": torch.zeros(1, 1)}, TypeError),
        (aioaudio.Clip("a.wav"), {"start_seconds": 1}, ValueError),
        (42, {}, TypeError),
    ],
)
def test_what_is_wrong_from_the_start_fails_at_once(source: Any, options: dict[str, Any], error: type) -> None:
    with pytest.raises(error):
        aioaudio.submit(source, **options)


# Waiting


def test_only_what_needs_samples_waits(held: Held, samples: torch.Tensor) -> None:
    lazy = aioaudio.submit(held, sample_rate=22_050)
    assert repr(lazy) == f"{lazy}" == "LazyAudio('<Held>', loading)"
    assert (lazy.dtype, lazy.sample_rate, lazy.done()) == (torch.float32, 22_050, False)
    assert hasattr(lazy, "sum")
    assert not hasattr(lazy, "no_such_thing")
    assert lazy in {lazy: 1}
    with pytest.raises(TimeoutError):
        lazy.result(timeout=0)
    assert not lazy.done()
    with ThreadPoolExecutor(4) as threads:
        uses = [
            threads.submit(use, lazy)
            for use in (torch.sum, lambda it: np.asarray(it).max(), lambda it: it.sum(), lambda it: it.shape)
        ]
        held.release()
        total, peak, by_method, shape = (use.result(PATIENCE) for use in uses)
    assert total == by_method == samples.sum()
    assert peak == samples.max()
    assert shape == samples.shape
    assert lazy.done()
    assert repr(lazy) == f"LazyAudio('<Held>', {tuple(samples.shape)} float32, 22050 Hz, 5.139 s)"


def test_the_rate_of_the_source_is_known_once_it_is_loaded(wav: bytes) -> None:
    assert aioaudio.submit(wav).sample_rate == 22_050


USES: dict[str, Callable[[Any], object]] = {
    "result": lambda lazy: lazy.result(),
    "shape": lambda lazy: lazy.shape,
    "torch function": torch.sum,
    "among others": lambda lazy: torch.stack([torch.zeros(2, 3), lazy]),
    "method": lambda lazy: lazy.mean(),
    "attribute": lambda lazy: lazy.T,
    "operator": lambda lazy: 1 - lazy,
    "index": lambda lazy: lazy[0],
    "iteration": list,
    "numpy": np.asarray,
    "pickle": pickle.dumps,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_use_that_would_block_a_loop_is_refused(use: Callable[[Any], object], held: Held) -> None:
    lazy = aioaudio.submit(held)
    with pytest.raises(RuntimeError, match="await lazy"):
        use(lazy)
    held.release()
    audio = await lazy
    if use is not USES["among others"]:
        use(lazy)
    assert lazy.result() is audio
    assert await lazy is audio


async def test_a_cancelled_await_cancels_no_load(held: Held, samples: torch.Tensor) -> None:
    lazy = aioaudio.submit(held)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await lazy
    assert not lazy.done()
    held.release()
    first, second = await asyncio.gather(lazy, lazy)
    assert first is second
    assert first.waveform.equal(samples)


def test_waiting_for_the_last_of_many_does_not_deadlock(data: Path) -> None:
    async def close(session: aioaudio.Session) -> None:
        await session.aclose()

    session = aioaudio.Session(read_threads=1, decode_threads=1)
    try:
        content = (data / "jfk.opus").read_bytes()
        sources = [data / "ljspeech.wav", content, io.BufferedReader(io.BytesIO(content))]
        lazies = [session.submit(source, sample_rate=16_000) for source in (*sources, *sources[:2] * 10)]
        with ThreadPoolExecutor(3) as threads:
            totals = list(threads.map(lambda lazy: lazy.abs().sum().item(), reversed(lazies), timeout=PATIENCE))
        assert len(set(totals)) == 2
    finally:
        asyncio.run(close(session))


def test_a_thread_that_loads_is_not_kept_waiting(held: Held, wav: bytes) -> None:
    class Nested(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            inner.sum()
            return super().read(size)

    inner = aioaudio.submit(held)
    with pytest.raises(RuntimeError, match="keep the threads"):
        aioaudio.sync.load(Nested(wav))


def test_a_cell_of_a_kernel_may_wait(wav: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]

    async def blocks() -> AsyncIterator[bytes]:
        yield wav

    async def cell() -> None:
        assert aioaudio.submit(Unhurried(wav)).sample_rate == 22_050
        lazy = aioaudio.submit(blocks())
        with pytest.raises(RuntimeError, match="await lazy"):  # it comes on the loop that would be blocked
            lazy.sum()
        await lazy

    asyncio.run(cell())
    with ThreadPoolExecutor(1) as threads, pytest.raises(RuntimeError, match="await lazy"):
        threads.submit(asyncio.run, cell()).result()  # a loop that is not the kernel's


class Unhurried(io.BytesIO):
    """A file that is read in a thread, unlike a plain BytesIO."""


# Sources that are awaited


async def test_an_async_source_is_awaited_where_it_belongs(wav: bytes, samples: torch.Tensor) -> None:
    loops = []

    async def blocks() -> AsyncIterator[bytes]:
        loops.append(asyncio.get_running_loop())
        yield wav

    assert (await aioaudio.submit(blocks())).waveform.equal(samples)
    assert loops == [asyncio.get_running_loop()]


def test_an_async_source_needs_no_loop_of_the_callers(wav: bytes, samples: torch.Tensor) -> None:
    async def blocks() -> AsyncIterator[bytes]:
        await asyncio.sleep(0)
        yield wav

    assert (aioaudio.submit(blocks()) - samples).count_nonzero() == 0


def test_a_source_whose_loop_has_ended_fails() -> None:
    async def silence() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def begin() -> LazyAudio:
        return aioaudio.submit(silence())

    with pytest.raises((RuntimeError, aioaudio.FetchError), match="belongs to"):
        asyncio.run(begin()).sum()


# Failing


def test_a_failed_load_raises_its_error_at_each_use(tmp_path: Path) -> None:
    lazy = aioaudio.submit(tmp_path / "missing.wav", sample_rate=8_000)
    errors, depths = set(), set()
    for use in (*USES.values(), *USES.values()):
        with pytest.raises(aioaudio.SourceNotFound, match=r"missing\.wav") as caught:
            use(lazy)
        errors.add(caught.value)
        depths.add((use, len(caught.traceback)))
    assert len(errors) == 1
    assert len(depths) == len(USES)  # with each use the traceback begins anew
    assert lazy.sample_rate == 8_000
    assert repr(lazy).endswith("missing.wav', failed: SourceNotFound)")
    with pytest.raises(aioaudio.SourceNotFound):
        asyncio.run(arrival(lazy))


async def arrival(lazy: LazyAudio) -> aioaudio.Audio:
    return await lazy


def test_an_error_that_nobody_sees_is_logged_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    unseen, seen = (aioaudio.submit(tmp_path / name) for name in ("unseen.wav", "seen.wav"))
    with pytest.raises(aioaudio.SourceNotFound):
        seen.result()
    wait_until_done(unseen)
    del unseen, seen
    gc.collect()
    [record] = caplog.records
    assert (record.name, record.levelno, record.exc_info) == ("aioaudio", logging.WARNING, None)
    assert "unseen.wav: no such file" in record.getMessage()


async def test_use_after_cancel_says_so_and_cancels_no_caller(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    lazy = aioaudio.submit(held)
    assert lazy.cancel()
    assert lazy.done()
    for _ in range(2):
        with pytest.raises(concurrent.futures.CancelledError):
            lazy.sum()
        with pytest.raises(concurrent.futures.CancelledError):
            await lazy
    assert repr(lazy) == "LazyAudio('<Held>', cancelled)"
    del lazy
    assert caplog.records == []


def test_cancel_ends_a_wait_in_another_thread(held: Held) -> None:
    lazy = aioaudio.submit(held)
    with ThreadPoolExecutor(1) as threads:
        use = threads.submit(lazy.sum)
        assert lazy.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            use.result(PATIENCE)


def test_a_load_that_is_done_is_not_cancelled(wav: bytes, samples: torch.Tensor) -> None:
    lazy = aioaudio.submit(wav)
    wait_until_done(lazy)
    assert not lazy.cancel()
    assert (lazy == samples).all()


def test_to_drop_it_cancels_the_load() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def silence() -> AsyncIterator[bytes]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield b""
        finally:
            ended.set()

    lazy = aioaudio.submit(silence())
    assert begun.wait(PATIENCE)
    assert not ended.is_set()
    del lazy
    assert ended.wait(PATIENCE)


async def test_closing_the_session_ends_the_loads(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    async with aioaudio.Session() as session:
        used, dropped = session.submit(held), session.submit(held)
        held.release()
    for lazy in (used, dropped):
        wait_until_done(lazy)
    with pytest.raises(aioaudio.ClosedError):
        session.submit(held)
    del lazy, used, dropped
    assert caplog.records == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_and_the_end_of_the_program_leave_nothing_hanging() -> None:
    program = """
        import os, threading, aioaudio

        async def silence():
            await asyncio.Event().wait()
            yield b""

        import asyncio
        lazy = aioaudio.submit(silence())
        if os.fork() == 0:
            try:
                lazy.sum()
            except RuntimeError as error:
                print("child:", "forked" in str(error))
        else:
            os.wait()
            print("parent:", lazy)
    """
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["child: True", "parent: LazyAudio('<async_generator silence>', loading)"]


# As a tensor


def test_copies_are_tensors(wav: bytes, samples: torch.Tensor) -> None:
    lazy = aioaudio.submit(wav)
    stored = io.BytesIO()
    torch.save({"speech": lazy}, stored)
    stored.seek(0)
    copies = {
        "pickle": pickle.loads(pickle.dumps(lazy)),
        "deepcopy": copy.deepcopy([lazy])[0],
        "copy": copy.copy(lazy),
        "torch.save": torch.load(stored, weights_only=True)["speech"],
    }
    for how, made in copies.items():
        assert type(made) is torch.Tensor, how
        assert made.equal(samples), how
    copies["deepcopy"].zero_()
    assert (lazy == samples).all()


def test_what_is_done_in_place_is_done_to_the_audio(wav: bytes, samples: torch.Tensor) -> None:
    lazy = first = aioaudio.submit(wav)
    lazy *= 2
    assert lazy is first
    lazy[:, :10] = 0
    lazy.add_(1)
    torch.neg(lazy, out=lazy)
    expected = samples * 2
    expected[:, :10] = 0
    assert lazy.result().waveform.equal(-(expected + 1))
    lazy.requires_grad = True
    (lazy * 3).sum().backward()
    assert (lazy.grad == 3).all()
    with pytest.raises(AttributeError):
        lazy.text = "tensors have no such attribute"


async def test_numpy_and_dlpack_share_its_memory(wav: bytes) -> None:
    lazy = aioaudio.submit(wav)
    await lazy
    for view in (np.asarray(lazy), np.from_dlpack(lazy), torch.from_dlpack(lazy), torch.as_tensor(lazy)):
        lazy[0, 0] = 0.25
        assert view[0, 0] == 0.25
        lazy[0, 0] = 0.5
        assert view[0, 0] == 0.5
    copied = np.array(lazy, dtype=np.float64)
    assert copied.dtype == np.float64
    copied[:] = 0
    assert lazy.count_nonzero() > 0


def test_a_model_takes_it(wav: bytes, samples: torch.Tensor) -> None:
    model = torch.nn.Sequential(torch.nn.Conv1d(1, 4, 9), torch.nn.GELU(), torch.nn.AdaptiveAvgPool1d(8)).eval()
    lazy = aioaudio.submit(wav)
    assert model(lazy).equal(model(samples))
    both = torch.stack([lazy, samples])
    assert both[0].equal(both[1])
    assert torch.nn.functional.pad(lazy, (1, 2)).shape[1] == samples.shape[1] + 3
    assert torch.nn.utils.rnn.pad_sequence([lazy[0], samples[0, :5]]).shape == (samples.shape[1], 2)


def test_it_is_no_tensor_for_isinstance(wav: bytes) -> None:
    """torch's C code would crash on an object that only says that it is one."""
    lazy = aioaudio.submit(wav)
    assert not isinstance(lazy, torch.Tensor)
    assert torch.overrides.is_tensor_like(lazy)
    with pytest.raises(TypeError):
        torch.Tensor.sum(lazy)


def test_its_own_names_hide_none_of_a_tensors() -> None:
    own = {name for name in vars(LazyAudio) if not name.startswith("_")}
    assert own & set(dir(torch.Tensor)) == {"dtype", "shape"}
