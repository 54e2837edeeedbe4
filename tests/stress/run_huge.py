"""Loads files that claim far more samples than the process may have memory for, among others that fit.

run_huge.py FOLDER HUGE_FILE...        prints as JSON the error that each huge file raises
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

from clips import load_all, read_clips

import aioaudio

ROOM = 1 << 30  # bytes that the process may still take


def limit_memory() -> None:
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, resource.RLIM_INFINITY))


async def load_too_much(path: Path) -> str:
    try:
        await aioaudio.load(path)
    except (MemoryError, aioaudio.AudioError) as error:
        return type(error).__name__
    raise AssertionError("there was room for it")


async def main(folder: Path, huge: list[Path]) -> list[str]:
    clips = read_clips(folder)
    await load_all(clips)
    limit_memory()
    errors = []
    for path in huge:
        error, _ = await asyncio.gather(load_too_much(path), load_all(clips))
        errors.append(error)
    return errors


if __name__ == "__main__":
    print(json.dumps(aioaudio.run(main(Path(sys.argv[1]), [Path(path) for path in sys.argv[2:]]))))
