"""How soon the first chunk of a stream comes, for each container, from a source of 64 kB a second.

A chunk is 0.1 s. "hint" is the same with format= given. Beside the time stands how much of the source had been sent by
then: what the time would be made of on a slower line. Files are speech, stereo at 48 kHz, lossy ones at 128 kbit/s.

    python benchmarks/first_chunk.py [KIND ...]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import av
from media import MediaLibrary

import aioaudio

BYTES_PER_SECOND = 64_000
TICK_SECONDS = 0.005
CLIP_SECONDS = 12.0

# The container, what it is made by, and the hint.
KINDS = {
    "WAV": ("wav", "wav"),
    "MP3": ("mp3", "mp3"),
    "AAC in ADTS": ("adts", "aac"),
    "AC-3": ("ac3", "ac3"),
    "FLAC": ("flac", "flac"),
    "Opus in Ogg": ("opus", "ogg"),
    "Vorbis in Ogg": ("vorbis", "ogg"),
    "Opus in WebM": ("opus-webm", "webm"),
    "FLAC in Matroska": ("flac-mka", "matroska"),
    "AAC in MPEG-TS": ("mpegts", "mpegts"),
    "AAC in MP4, in fragments": ("fragments", "mp4"),
    "AAC in MP4, index first": ("faststart", "mp4"),
    "AAC in MP4, index last": ("aac", "mp4"),
}

REMUXED = {
    "mpegts": ("mpegts", {}),
    "fragments": ("mp4", {"movflags": "frag_every_frame+empty_moov"}),
    "faststart": ("mp4", {"movflags": "faststart"}),
}


def make(library: MediaLibrary, kind: str, folder: Path) -> bytes:
    """A file of a kind."""
    if kind not in REMUXED:
        return library.make(kind, seconds=CLIP_SECONDS, channels=2, bit_rate=_bit_rate(kind)).path.read_bytes()
    muxer, options = REMUXED[kind]
    source, path = library.make("aac", seconds=CLIP_SECONDS, channels=2, bit_rate=128_000).path, folder / kind
    with av.open(str(source)) as given, av.open(str(path), "w", format=muxer, options=options) as made:
        stream = made.add_stream_from_template(given.streams.audio[0])
        for packet in given.demux(audio=0):
            if packet.dts is not None:
                packet.stream = stream
                made.mux(packet)
    return path.read_bytes()


def _bit_rate(kind: str) -> int | None:
    return 128_000 if kind in ("mp3", "adts", "ac3", "opus", "opus-webm") else None


class Line:
    """Sends bytes at the rate of the line."""

    def __init__(self, data: bytes) -> None:
        self.data, self.num_sent = data, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        began = time.perf_counter()
        while self.num_sent < len(self.data):
            await asyncio.sleep(TICK_SECONDS)
            due = int((time.perf_counter() - began) * BYTES_PER_SECOND)
            block = self.data[self.num_sent : due]
            self.num_sent += len(block)
            yield block


async def first_chunk(data: bytes, hint: str | None) -> tuple[float, int]:
    """Seconds until the first chunk, and the bytes that had been sent."""
    line = Line(data)
    began = time.perf_counter()
    async with aioaudio.open(line, chunk_seconds=0.1, format=hint) as reader:
        await anext(reader)
        return time.perf_counter() - began, line.num_sent


async def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = MediaLibrary(Path(folder))
        print("| container | kbit/s | first chunk, s | of kB | with a hint, s | of kB |")
        print("|---|---|---|---|---|---|")
        for name in names:
            kind, hint = KINDS[name]
            data = make(library, kind, Path(folder))
            cells = [name, f"{len(data) * 8 / CLIP_SECONDS / 1000:.0f}"]
            for given in (None, hint):
                seconds, num_bytes = await first_chunk(data, given)
                cells += [f"{seconds:.2f}", f"{num_bytes / 1000:.0f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    aioaudio.run(main(sys.argv[1:] or [*KINDS]))
