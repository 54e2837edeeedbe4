"""Streams a file from its start to its end, as fast as it goes, and prints what that took, as JSON: resident memory
after each tenth of it, and how far the source was read ahead at most.

run_stream.py PATH FORM        FORM is "path", "bytes" or "iterator"
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aioaudio


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Counted:
    """The bytes of a file as they arrive, and how many were asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.num_bytes = path, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self.path.open("rb") as file:
            while block := file.read(16_000):
                self.num_bytes += len(block)
                yield block


async def stream(path: Path, data: bytes, form: str) -> dict[str, Any]:
    info = await aioaudio.info(path)
    assert info.duration_seconds is not None
    counted, size = Counted(path), len(data)
    source = {"path": path, "bytes": data, "iterator": counted}[form]
    resident: list[int] = []
    seconds, most_ahead = 0.0, 0.0
    async with aioaudio.open(source, chunk_seconds=0.5, sample_rate=22_050) as reader:
        async for chunk in reader:
            seconds += chunk.duration_seconds
            most_ahead = max(most_ahead, counted.num_bytes - seconds / info.duration_seconds * size)
            if seconds >= info.duration_seconds * (len(resident) + 1) / 10:
                resident.append(resident_bytes())
    return {"seconds": seconds, "resident": resident, "most_ahead": int(most_ahead)}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    print(json.dumps(aioaudio.run(stream(path, path.read_bytes(), sys.argv[2]))))
