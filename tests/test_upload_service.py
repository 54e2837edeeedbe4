"""The example of a service: what it answers, while it stays responsive."""

from __future__ import annotations

import asyncio
import importlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import aioaudio

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")
pytest.importorskip("python_multipart")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the service, which runs in a thread."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import upload_service

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(upload_service.app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=lambda: server.run([listener]))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()
    sys.modules.pop("upload_service")


async def post(client: aiohttp.ClientSession, service: str, data: bytes) -> tuple[int, Any]:
    form = aiohttp.FormData()
    form.add_field("file", data, filename="any.name")
    async with client.post(f"{service}/audio", data=form) as response:
        return response.status, await response.json()


async def test_an_upload_is_measured(service: str, data: Path) -> None:
    expected = aioaudio.sync.load(data / "jfk.mp3", sample_rate=16_000, num_channels=1)
    async with aiohttp.ClientSession() as client:
        code, answer = await post(client, service, (data / "jfk.mp3").read_bytes())
    assert code == 200
    assert answer["duration_seconds"] == expected.duration_seconds
    assert len(answer["peaks"]) == 200
    assert max(answer["peaks"]) == pytest.approx(expected.waveform.abs().max().item(), abs=1e-4)
    rms = expected.waveform.square().mean().sqrt().log10().item()
    assert answer["loudness_dbfs"] == pytest.approx(20 * rms, abs=0.01)


@pytest.mark.parametrize(("kind", "status"), [("cut", 422), ("page", 422), ("empty", 422), ("playlist", 415)])
async def test_a_bad_upload_is_its_senders_fault(kind: str, status: int, service: str, data: Path) -> None:
    bad = {
        "cut": (data / "jfk.mp3").read_bytes()[:40_000],
        "page": b"<html>",
        "empty": b"",
        "playlist": b"ffconcat version 1.0\nfile a.mp3\n",
    }[kind]
    async with aiohttp.ClientSession() as client:
        code, answer = await post(client, service, bad)
    assert code == status
    assert answer["detail"]


async def test_it_answers_while_it_decodes(service: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = importlib.import_module("aioaudio.decode")
    began, go_on = threading.Event(), threading.Event()

    def decode_group(*args: Any) -> Any:
        began.set()
        assert go_on.wait(60)
        return decode_all(*args)

    decode_all = decode.decode_group
    monkeypatch.setattr(decode, "decode_group", decode_group)
    clips = [(data / name).read_bytes() for name in ("jfk.mp3", "jfk.opus", "ljspeech.ogg", "jfk.flac")] * 4
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        uploads = [asyncio.create_task(post(client, service, clip)) for clip in clips]
        while not began.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        async with client.get(f"{service}/health") as response:
            assert await response.json() == {"ok": True}
        assert not any(upload.done() for upload in uploads)
        go_on.set()
        assert [code for code, _ in await asyncio.gather(*uploads)] == [200] * len(clips)
