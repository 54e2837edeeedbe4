"""The same against nginx, where it is installed."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from media import MediaLibrary

import aioaudio
from aioaudio import HTTPOptions, Session

FORMATS = ["mp3", "aac", "flac", "opus", "vorbis", "wav", "opus-webm"]

CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 256; }}
http {{
    access_log off;
    {temporary}
    types {{ audio/any mp3 m4a flac opus ogg wav webm; }}
    server {{
        listen 127.0.0.1:{port};
        root {folder};
        location /zipped/ {{ alias {folder}/; gzip on; gzip_http_version 1.0; gzip_min_length 1; gzip_types *; }}
        location /no-ranges/ {{ alias {folder}/; max_ranges 0; }}
        location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
        location /gone/ {{ return 410; }}
        location /denied/ {{ return 403; }}
        location /busy/ {{ return 503; }}
        location /once/ {{ alias {folder}/; keepalive_requests 1; }}
    }}
}}
"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, media: MediaLibrary) -> Path:
    folder = tmp_path_factory.mktemp("nginx")
    for kind in FORMATS:
        path = media.make(kind, seconds=1.5).path
        shutil.copy(path, folder / f"{kind}{path.suffix}")
    return folder


@pytest.fixture(scope="module")
def nginx(folder: Path) -> Iterator[str]:
    """The URL of an nginx that serves files."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in TEMPORARY)
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, temporary=temporary))
    with subprocess.Popen([program, "-p", str(folder), "-c", str(file)], stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                continue
        else:
            assert process.stderr is not None
            pytest.fail(process.stderr.read().decode())
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.mark.parametrize("kind", FORMATS)
async def test_each_format_is_loaded(kind: str, nginx: str, folder: Path) -> None:
    [path] = folder.glob(f"{kind}.*")  # noqa: ASYNC240
    expected = aioaudio.sync.load(path).waveform
    async with Session() as session:
        places = ["", "zipped/", "no-ranges/", "moved/", "once/"]
        loads = [session.load(f"{nginx}/{place}{path.name}") for place in places * 4]
        for audio in await asyncio.gather(*loads):
            assert torch.equal(audio.waveform, expected)


async def test_each_status_is_its_error(nginx: str) -> None:
    async with Session(http=HTTPOptions(retries=1, backoff=0.001)) as session:
        for place, error in (
            ("missing", aioaudio.SourceNotFound),
            ("gone/", aioaudio.SourceNotFound),
            ("denied/", aioaudio.SourceDenied),
            ("busy/", aioaudio.FetchError),
        ):
            with pytest.raises(error):
                await session.load(f"{nginx}/{place}")


async def test_a_body_is_continued_after_the_server_has_ended_it(nginx: str, folder: Path) -> None:
    """nginx speaks only through one that cuts each of its answers short."""
    data = (folder / "wav.wav").read_bytes()
    port = int(nginx.rpartition(":")[2])
    num_connections = 0

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_connections
        num_connections += 1
        from_nginx, to_nginx = await asyncio.open_connection("127.0.0.1", port)
        to_nginx.write(await reader.readuntil(b"\r\n\r\n"))
        writer.write(await from_nginx.read(60_000))
        for one in (writer, to_nginx):
            one.close()
            await one.wait_closed()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    async with server, Session(http=HTTPOptions(backoff=0.001)) as session:
        encoded = await session.fetch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/wav.wav")
    assert await asyncio.to_thread(bytes, encoded) == data
    assert num_connections > 1
