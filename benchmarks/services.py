"""Audio over HTTP: batches from a server, and a service that takes uploads.

batches   Clips a second that come out of `batches`, from files and from a server on loopback, with a consumer that does
          nothing, and with one that blocks its event loop for 300 ms in each batch, as a training step does. A batch is
          to take longer than that to decode: then blocking is to cost nothing.
uploads   The times, at the 99th percentile and at most, that the health endpoint of a service takes to answer while 64
          clients upload speech at once: that of `examples/upload_service.py`, and one that decodes in the handler.

The servers run in processes of their own, on the same machine.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import itertools
import math
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import aiohttp
import torch
from aiohttp import web
from harness import Case, Contender, Grid, Rounds, Target, Turn, parse_arguments, run_program
from media import MediaLibrary

import aioaudio

BLOCKED_SECONDS = 0.3
NUM_CLIENTS = 64

LOCAL, REMOTE = "files", "HTTP"
LOCAL_BLOCKED, REMOTE_BLOCKED = "files, blocked", "HTTP, blocked"
AIOAUDIO, IN_HANDLER = "aioaudio", "decoding in the handler"

MIN_RATE = 0.9


@dataclass(frozen=True)
class Effort:
    """How long clips are, in seconds, how many make a batch, and how many batches and uploads there are."""

    clip_seconds: float = 60
    batch_size: int = 32
    num_batches: int = 4
    upload_seconds: float = 20
    num_uploads: int = 192


QUICK = Effort(clip_seconds=1, batch_size=8, num_batches=1, upload_seconds=2, num_uploads=64)


# Servers, each in a process


@contextmanager
def served(serve: Callable[..., None], *args: Any) -> Iterator[str]:
    """The address of what `serve(connection, *args)` serves in another process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *args), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def serve_folder(connection: Connection, folder: str) -> None:
    app = web.Application()
    app.router.add_static("/", folder)
    web.run_app(app, sock=_listen(connection), print=None, access_log=None)


def serve_uploads(connection: Connection, name: str) -> None:
    import uvicorn

    torch.set_num_threads(1)
    app = _app_of(name)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    server.run([_listen(connection)])


def _listen(connection: Connection) -> Any:
    import socket

    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    connection.send(listener.getsockname()[1])
    return listener


def _app_of(name: str) -> Any:
    import upload_service
    from fastapi import FastAPI, UploadFile

    if name == AIOAUDIO:
        return upload_service.app
    app = FastAPI()

    async def describe(file: UploadFile) -> dict[str, Any]:
        audio = aioaudio.sync.load(await file.read(), sample_rate=16_000, num_channels=1)
        return upload_service.measure(audio.waveform[0])

    describe.__annotations__["file"] = UploadFile  # FastAPI would look for the name in this module
    app.get("/health")(upload_service.health)
    app.post("/audio")(describe)
    return app


# Cases


def batch_case(media: MediaLibrary, effort: Effort, folder: Path, kind: str, site: Callable[[], str]) -> Case:
    def contenders() -> Mapping[str, Contender]:
        paths = [
            media.make(kind, seconds=effort.clip_seconds, sample_rate=44_100, channels=2, seed=seed).path
            for seed in range(4)
        ]
        urls = [f"{site()}/{path.relative_to(folder)}" for path in paths]
        return {
            LOCAL: lambda: consume(paths, effort, 0),
            REMOTE: lambda: consume(urls, effort, 0),
            LOCAL_BLOCKED: lambda: consume(paths, effort, BLOCKED_SECONDS),
            REMOTE_BLOCKED: lambda: consume(urls, effort, BLOCKED_SECONDS),
        }

    return Case(f"batches, {kind}", contenders)


def consume(sources: list[Any], effort: Effort, blocked_seconds: float) -> Turn:
    count = effort.batch_size * effort.num_batches
    clips = list(itertools.islice(itertools.cycle(sources), count))

    async def main() -> Turn:
        began = time.perf_counter()
        options = {"batch_size": effort.batch_size, "sample_rate": 16_000, "num_channels": 1}
        async with aioaudio.batches(clips, **options) as batches:
            async for _ in batches:
                time.sleep(blocked_seconds)  # noqa: ASYNC251 - that is what it is about
        return {"per_second": count / (time.perf_counter() - began)}

    return aioaudio.run(main())


def upload_case(media: MediaLibrary, effort: Effort) -> Case:
    def contenders() -> Mapping[str, Contender]:
        kinds = ("mp3", "flac", "opus", "aac")
        clips = [
            media.make(kind, seconds=effort.upload_seconds, sample_rate=48_000).path.read_bytes() for kind in kinds
        ]

        def contender(name: str) -> Contender:
            def turn() -> Turn:
                with served(serve_uploads, name) as site:
                    return upload(site, clips, effort)

            return turn

        return {AIOAUDIO: contender(AIOAUDIO), IN_HANDLER: contender(IN_HANDLER)}

    return Case("uploads", contenders)


def upload(site: str, clips: list[bytes], effort: Effort) -> Turn:
    """Upload from so many clients at once, while another process asks for the health of the service."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    watcher = context.Process(target=watch, args=(theirs, site))
    watcher.start()
    ours.recv()
    began = time.perf_counter()
    aioaudio.run(send_all(f"{site}/audio", clips, effort.num_uploads))
    seconds = time.perf_counter() - began
    ours.send("stop")
    answers = ours.recv()
    watcher.join()
    p99 = sorted(answers)[math.ceil(0.99 * len(answers)) - 1]
    return {"p99_ms": p99, "max_ms": max(answers), "per_second": effort.num_uploads / seconds}


async def send_all(url: str, clips: list[bytes], num_uploads: int) -> None:
    left = iter(range(num_uploads))

    async def send(client: aiohttp.ClientSession) -> None:
        for number in left:
            form = aiohttp.FormData()
            form.add_field("file", clips[number % len(clips)], filename="clip")
            async with client.post(url, data=form) as response:
                assert response.status == 200, await response.text()
                await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        await asyncio.gather(*(send(client) for _ in range(NUM_CLIENTS)))


def watch(connection: Connection, site: str) -> None:
    """Ask for the health every 10 ms until told to stop; sends how many milliseconds each answer took."""
    client = http.client.HTTPConnection(site.removeprefix("http://"))

    def ask() -> float:
        began = time.perf_counter()
        client.request("GET", "/health")
        client.getresponse().read()
        return 1e3 * (time.perf_counter() - began)

    ask()
    connection.send("ready")
    answers = []
    while not connection.poll(0.01):
        answers.append(ask())
    client.close()
    connection.send(answers)


def summarize(results: Mapping[str, Rounds]) -> tuple[list[Grid], list[Target]]:
    batches = Grid("Clips a second out of batches", "clips/s")
    health = Grid("Health endpoint during uploads, 99th percentile", "ms", remark_title="uploads a second")
    longest = Grid("Health endpoint during uploads, longest", "ms")
    targets = []
    for name, rounds in results.items():
        if REMOTE in rounds:
            batches.rows[name] = {contender: rounds.median(contender, "per_second") for contender in rounds.turns}
            ratios = rounds.ratios(REMOTE_BLOCKED, REMOTE, "per_second")
            targets.append(Target(f"{name}: HTTP, blocked", ratios, MIN_RATE, least=True, unit="of HTTP"))
        else:
            health.rows[name] = {contender: rounds.median(contender, "p99_ms") for contender in rounds.turns}
            longest.rows[name] = {contender: rounds.median(contender, "max_ms") for contender in rounds.turns}
            rates = [f"{rounds.median(contender, 'per_second'):.0f}" for contender in rounds.turns]
            health.remarks[name] = " and ".join(rates)
    return [grid for grid in (batches, health, longest) if grid.rows], targets


def main() -> None:
    arguments = parse_arguments(__doc__, "services")
    missing = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    effort = QUICK if arguments.quick else Effort()
    with tempfile.TemporaryDirectory() as name, served(serve_folder, name) as site:
        folder = Path(name)
        media = MediaLibrary(folder)
        cases = [batch_case(media, effort, folder, kind, lambda: site) for kind in ("mp3", "flac")]
        if not missing:
            cases.append(upload_case(media, effort))
        absent = dict.fromkeys(missing, "not installed")
        run_program(arguments, cases, {"aioaudio": version("aioaudio")}, summarize, absent=absent)


if __name__ == "__main__":
    main()
