"""A websocket that receives compressed audio, in any format that decodes as it comes, and prints how loud it is.

python examples/websocket_levels.py                 serve on port 8080, until Ctrl-C
python examples/websocket_levels.py talk.opus ...   serve, and send it these files as clients would
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aioaudio

try:
    from aiohttp import ClientSession, WSMsgType, web
except ImportError:
    sys.exit("this example needs aiohttp: pip install aiohttp")

BLOCK_BYTES = 4_000


async def bytes_of(socket: web.WebSocketResponse) -> AsyncIterator[bytes]:
    """The audio that a client sends, up to an empty message."""
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            if not message.data:
                return
            yield message.data
    raise ConnectionResetError("the client went away before the end")


async def print_levels(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    name = request.query.get("name", "client")
    try:
        async with aioaudio.open(bytes_of(socket), chunk_seconds=0.5, num_channels=1, timeout=30) as reader:
            async for chunk in reader:
                level = 20 * chunk.waveform.square().mean().sqrt().clamp(min=1e-5).log10().item()
                print(f"{name}  {chunk.start_seconds:5.1f} s  {level:6.1f} dB  {'#' * int(level / 2 + 40)}")
    except aioaudio.AudioError as error:
        print(f"{name}  {type(error).__name__}: {error}")
    await socket.close()
    return socket


async def send(path: Path, port: int) -> None:
    """What a client does."""
    async with (
        ClientSession() as session,
        session.ws_connect(f"http://localhost:{port}/?name={path.name}") as socket,
    ):
        data = await asyncio.to_thread(path.read_bytes)
        for start in range(0, len(data), BLOCK_BYTES):
            await socket.send_bytes(data[start : start + BLOCK_BYTES])
        await socket.send_bytes(b"")
        await socket.receive()  # the server closes when it has heard all


async def main(paths: list[Path]) -> None:
    app = web.Application()
    app.router.add_get("/", print_levels)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0 if paths else 8080)
    await site.start()
    _, port, *_ = runner.addresses[0]
    try:
        if paths:
            await asyncio.gather(*(send(path, port) for path in paths))
        else:
            print(f"ws://localhost:{port}/")
            await asyncio.Event().wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    aioaudio.run(main([Path(argument) for argument in sys.argv[1:]]))
