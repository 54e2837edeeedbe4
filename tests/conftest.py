"""What every test runs under: two kinds of event loop, no blocking calls on them, and nothing left over afterwards."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import inspect
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from blockbuster import BlockBuster, BlockBusterFunction
from media import DATA, MediaLibrary

from aioaudio.workers import default_workers

SOAK = os.environ.get("AIOAUDIO_SOAK") == "1"

# The same examples in every run of the suite; other ones each time that it soaks.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile("soak" if SOAK else "suite")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each async test on asyncio's loop and on uvloop.

    A long one may name its kind: `@pytest.mark.asyncio(loop_factories=["asyncio"])`.
    """
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return factories
    return factories | {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of speech clips that ship with the repository."""
    return DATA


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> MediaLibrary:
    """Makes audio files that know their samples, each once in a test run."""
    return MediaLibrary(tmp_path_factory.mktemp("media"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The collection of real and odd audio files beside the repository; without it the test is skipped."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "audio").is_dir():
        pytest.skip(f"needs the audio collection at {folder}")
    return folder


@pytest.fixture(scope="session")
def odd(shared: Path) -> Mapping[str, Mapping[str, Any]]:
    """What each file of `shared/odd` holds, by its name."""
    expected: Mapping[str, Mapping[str, Any]] = json.loads((shared / "odd" / "expected.json").read_text("utf-8"))
    return expected


@pytest.fixture(scope="session")
def soak() -> Callable[[int], int]:
    """Scales the count of a stress test: the whole of it with AIOAUDIO_SOAK=1, a tenth otherwise."""
    return lambda count: count if SOAK else max(1, count // 10)


@pytest.fixture(scope="session", autouse=True)
def _no_blocking_on_loops() -> Iterator[None]:
    """Fail on a blocking call that aioaudio makes in a thread whose event loop runs; what tests do is their affair."""
    blockbuster = BlockBuster("aioaudio")
    for name in ("builtins.open", "io.open", "os.open", "os.pread", "os.preadv", "socket.getaddrinfo"):
        blockbuster.functions[name] = BlockBusterFunction(None, name, scanned_modules="aioaudio")
    # As asyncio does with its executor's, aclose() joins threads that have told it that they are at their end.
    blockbuster.functions["threading.Lock.acquire"].can_block_in("aioaudio/workers/__init__.py", {"_join_ended"})
    for module, function in (  # to block is their job
        ("sync.py", "function"),
        ("batch/handover.py", "take_blocking"),
        ("batch/run.py", "close_blocking"),
        ("lazy/audio.py", "_block"),
        ("stream/reading.py", "_wait"),
    ):
        blockbuster.functions["threading.Lock.acquire"].can_block_in(f"aioaudio/{module}", {function})
    for blocking in blockbuster.functions.values():  # a program under aioaudio.run is not aioaudio
        blocking.can_block_in("aioaudio/api.py", {"run"})
    blockbuster.activate()
    yield
    blockbuster.deactivate()


@pytest.fixture(scope="session", autouse=True)
def _kernels_run_off_loops() -> Iterator[None]:
    """Fail where a decode kernel is called in a thread whose event loop runs: blockbuster sees no call into C."""
    decode = importlib.import_module("aioaudio.decode")  # as an attribute of aioaudio it is the function
    with pytest.MonkeyPatch.context() as patch:
        for name in ("decode_group", "read_infos", "work_on_streams"):
            patch.setattr(decode, name, _off_loop(getattr(decode, name)))
        yield


def _off_loop(kernel: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(kernel)
    def checked(*args: Any, **kwargs: Any) -> Any:
        assert asyncio._get_running_loop() is None, f"{kernel.__name__} runs on an event loop"
        return kernel(*args, **kwargs)

    return checked


@pytest.fixture(scope="session", autouse=True)
def _lasting_things_exist() -> None:
    """Open what a process opens once and keeps, such as uvloop's signal pipe, before a test could be blamed for it."""
    for make_loop in pytest_asyncio_loop_factories().values():
        loop = make_loop()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@pytest.fixture(autouse=True)
def _nothing_left_open(_lasting_things_exist: None) -> Iterator[None]:
    """Fail on a descriptor or a thread that outlives its test. The default workers end with it, and begin anew."""
    descriptors, threads = _descriptors(), set(threading.enumerate())
    yield
    for thread in default_workers().close():
        thread.join()
    if _descriptors() - descriptors or set(threading.enumerate()) - threads:
        gc.collect()
        left_open = [_describe(descriptor) for descriptor in _descriptors() - descriptors]
        assert not left_open, f"descriptors left open: {left_open}"
        left_running = set(threading.enumerate()) - threads
        assert not left_running, f"threads left running: {left_running}"


@pytest.fixture(autouse=True)
def _no_tasks_left(request: pytest.FixtureRequest, _nothing_left_open: None) -> None:
    """Fail on a task that an async test leaves behind."""
    test = getattr(request.function, "hypothesis", None)
    if inspect.iscoroutinefunction(test.inner_test if test else request.function):
        request.getfixturevalue("_no_tasks_left_on_loop")


@pytest.fixture
async def _no_tasks_left_on_loop() -> AsyncIterator[None]:
    yield
    this = asyncio.current_task()
    for _ in range(10):  # callbacks of tasks that have ended may still be queued
        if asyncio.all_tasks() == {this}:
            break
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {this}
    assert not left, f"tasks left running: {left}"


def _descriptors() -> set[int]:
    try:
        return {int(name) for name in os.listdir("/proc/self/fd")}
    except FileNotFoundError:  # not Linux
        return set()


def _describe(descriptor: int) -> str:
    try:
        return f"{descriptor} {os.readlink(f'/proc/self/fd/{descriptor}')}"
    except OSError:
        return f"{descriptor} (closed meanwhile)"
