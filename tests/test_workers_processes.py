"""Workers at the edges of a process: its end, whichever way it comes, and forks at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import aioaudio

PATIENCE = 60  # seconds until a process counts as hanging

PRELUDE = """
import sys, types

# The package without its __init__, so that the program starts in no time.
sys.modules["aioaudio"] = types.ModuleType("aioaudio")
sys.modules["aioaudio"].__path__ = sys.argv[1:]

import asyncio, hashlib, os, signal, threading

# A program that a script starts in the background is born with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

from aioaudio.workers import Workers, default_workers

def echo(tasks, stops):
    return tasks

async def flood(workers, count=1000):
    # Work without an end unless its stop flag is set, in blocks that release the GIL, as FFmpeg's are.
    loop, entered = asyncio.get_running_loop(), asyncio.Event()

    def endless(tasks, stops):
        if not entered.is_set():
            loop.call_soon_threadsafe(entered.set)
        while not all(stop.is_set for stop in stops):
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2000)
        return tasks

    loads = [asyncio.ensure_future(workers.decode(endless, i, uninterruptible=i % 2 == 0)) for i in range(count)]
    reads = [asyncio.ensure_future(workers.read(int)) for _ in range(count)]
    workers.io().run(workers.decode(endless, "from the I/O thread", alone=True))
    await entered.wait()
    return [*loads, *reads]
"""


def start(script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(script), *aioaudio.__path__],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and standard error; a process that hangs fails."""
    try:
        _, stderr = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail("the process hangs")
    return process.returncode, stderr


@pytest.mark.parametrize("workers", ["default_workers()", "Workers(decode_threads=2)"])
@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("return", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("raise ZeroDivisionError('the end')", 1, "ZeroDivisionError: the end"),
        ("await workers.aclose(); await asyncio.gather(*loads, return_exceptions=True)", 0, ""),
        ("os._exit(5)", 5, ""),
    ],
)
def test_a_program_ends_with_work_in_flight(workers: str, ending: str, code: int, said: str) -> None:
    script = f"""
    async def main():
        workers = {workers}
        loads = await flood(workers)
        {ending}

    asyncio.run(main())
    """
    returned, stderr = finish(start(script))
    assert returned == code
    assert_said(stderr, said)


@pytest.mark.parametrize("daemon", [True, False])
def test_a_program_ends_while_a_loop_in_another_thread_waits_for_work(daemon: bool) -> None:
    script = f"""
    from aioaudio.errors import ClosedError

    ready, closed = threading.Event(), threading.Event()

    async def main():
        loads = await flood(default_workers())
        ready.set()
        results = await asyncio.gather(*loads, return_exceptions=True)
        assert all(isinstance(result, ClosedError) for result in results[:1000]), results
        try:
            await default_workers().decode(echo, "too late")
        except ClosedError:
            closed.set()

    threading.Thread(target=lambda: asyncio.run(main()), daemon={daemon}).start()
    ready.wait()
    if not {daemon}:
        import atexit  # whose calls come after all threads have ended
        atexit.register(lambda: os.write(1, b"closed" if closed.is_set() else b"?"))
    """
    process = start(script)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stderr) == (0, "")
    assert stdout == ("" if daemon else "closed")


@pytest.mark.parametrize("runner", ["asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())"])
def test_an_interrupt_ends_the_program(runner: str) -> None:
    script = f"""
    async def main():
        loads = await flood(default_workers())
        print("ready", flush=True)
        await asyncio.gather(*loads, return_exceptions=True)

    try:
        {runner}
    except KeyboardInterrupt:
        sys.exit(7)
    """
    process = start(script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    returned, stderr = finish(process)
    assert returned == 7
    if "asyncio.run" in runner:
        assert_said(stderr, "")
    else:
        assert "Fatal" not in stderr


def test_sigterm_ends_the_program() -> None:
    script = """
    async def main():
        loads = await flood(default_workers())
        print("ready", flush=True)
        await asyncio.gather(*loads, return_exceptions=True)

    asyncio.run(main())
    """
    process = start(script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert finish(process) == (-signal.SIGTERM, "")


def test_idle_threads_do_not_keep_a_program_alive() -> None:
    script = """
    workers = Workers(decode_threads=2)

    async def main():
        await asyncio.gather(*(workers.decode(echo, i) for i in range(100)))
        await workers.read(int)
        await asyncio.wrap_future(workers.io().run(asyncio.sleep(0)))

    asyncio.run(main())
    """
    assert finish(start(script)) == (0, "")


FORK = """
import gc

workers = Workers(decode_threads=2)

async def use(workers):
    assert await asyncio.gather(*(workers.decode(echo, i) for i in range(50))) == list(range(50))
    assert await workers.read(int) == 0
    async with workers.slot():
        assert await asyncio.wrap_future(workers.io().run(workers.decode(echo, "io"))) == "io"

def fork():
    # The child uses both sets of workers, and says how it went by its exit code.
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(use(workers))
            asyncio.run(use(default_workers()))
            gc.collect()
            asyncio.run(workers.aclose())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
"""


def run_fork(script: str) -> None:
    process = start("import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n" + FORK + script)
    assert finish(process) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
class TestFork:
    """In the child, workers of either kind begin anew."""

    def test_while_busy_on_the_loop(self) -> None:
        run_fork("""
async def main():
    loads = await flood(workers) + await flood(default_workers())
    fork()
    await asyncio.gather(workers.aclose(), default_workers().aclose())
    await asyncio.gather(*loads, return_exceptions=True)

asyncio.run(main())
""")

    def test_while_another_thread_holds_every_lock(self) -> None:
        run_fork("""
import contextlib
import aioaudio.workers as module

async def main():
    loads = await flood(workers)
    held, done = threading.Event(), threading.Event()

    def hold():
        crew = workers._crew
        locks = [workers._lock, crew.decode._lock, crew.read._lock, crew.io._lock, module._default_lock]
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    fork()
    done.set()
    thread.join()
    await workers.aclose()
    await asyncio.gather(*loads, return_exceptions=True)

asyncio.run(main())
""")

    def test_inside_a_decode_thread_and_a_read_thread(self) -> None:
        run_fork("""
async def main():
    def forking(tasks, stops):
        fork()
        return tasks

    assert await workers.decode(forking, 1) == 1
    await workers.read(fork)
    await asyncio.to_thread(fork)
    await use(workers)

asyncio.run(main())
""")

    def test_the_child_does_not_clean_up_after_the_tasks_of_its_parent(self) -> None:
        run_fork("""
parent = os.getpid()

async def wait():
    try:
        async with workers.slot():
            pass
    finally:
        if os.getpid() != parent:
            os.write(2, b"cleaned up")

async def main():
    slots = 8 * workers.decode_threads + max(workers.read_threads, 8 * workers.decode_threads)
    for _ in range(slots):
        await workers.slot().__aenter__()
    for _ in range(10):
        asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    fork()
    for _ in range(slots):
        await workers.slot().__aexit__()

asyncio.run(main())
""")

    def test_at_random_moments(self) -> None:
        run_fork("""
stop = threading.Event()

async def hammer():
    while not stop.is_set():
        await asyncio.gather(*(workers.decode(echo, i) for i in range(20)))
        async with workers.slot():
            await default_workers().read(int)

threads = [threading.Thread(target=lambda: asyncio.run(hammer())) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(20):
    fork()
stop.set()
for thread in threads:
    thread.join()
""")

    def test_a_child_that_ends_as_multiprocessing_does(self) -> None:
        run_fork("""
import multiprocessing

def work():
    asyncio.run(flood(workers))

async def main():
    await flood(workers)
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    await asyncio.wrap_future(workers.io().run(asyncio.sleep(0)))

asyncio.run(main())
""")


def assert_said(stderr: str, last_line: str) -> None:
    """Nothing but a traceback that ends with `last_line`."""
    assert stderr.rstrip().rpartition("\n")[2] == last_line, stderr
    for word in ("ignored", "Fatal", "never", "destroyed", "Warning"):
        assert word not in stderr
