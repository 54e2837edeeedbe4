"""The event loop goes round while loads run, and loads run beside each other. How fast is the benchmark's to say."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from clips import KnownClip

import aioaudio

PATIENCE = 30  # seconds after which a thread that waits in vain gives up


@pytest.mark.parametrize("num_threads", [2, 4, 7])
async def test_as_many_clips_as_threads_are_decoded_all_at_once(
    clips: list[KnownClip], num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = importlib.import_module("aioaudio.decode")
    decode_group, together = decode.decode_group, threading.Barrier(num_threads)

    def decode_together(jobs: Sequence[Any], stops: Sequence[Any]) -> Any:
        together.wait(PATIENCE)  # passed only when all of the threads are here
        return decode_group(jobs, stops)

    monkeypatch.setattr(decode, "decode_group", decode_together)
    async with aioaudio.Session(decode_threads=num_threads) as session:
        chosen = [clips[i % len(clips)] for i in range(num_threads)]
        audios = await asyncio.gather(*(session.load(clip.path) for clip in chosen))
    for clip, audio in zip(chosen, audios, strict=True):
        clip.check(audio)


async def test_the_loop_goes_round_while_every_thread_is_busy(
    clips: list[KnownClip], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = importlib.import_module("aioaudio.decode")
    decode_group, opened = decode.decode_group, threading.Event()

    def decode_later(jobs: Sequence[Any], stops: Sequence[Any]) -> Any:
        assert opened.wait(PATIENCE)
        return decode_group(jobs, stops)

    monkeypatch.setattr(decode, "decode_group", decode_later)
    loads = [asyncio.ensure_future(aioaudio.load(clips[i % len(clips)].path)) for i in range(200)]
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not any(load.done() for load in loads)
    opened.set()
    for i, audio in enumerate(await asyncio.gather(*loads)):
        clips[i % len(clips)].check(audio)


_COUNT_THREADS = """
import os, sys, threading, torch, aioaudio

def others():
    return len(os.listdir("/proc/self/task")) - threading.active_count()

before = others()
for path in sys.argv[1:]:
    for dtype in (torch.float32, torch.int16, torch.int32):
        aioaudio.sync.load(path, dtype=dtype)
        assert others() == before, f"{path} as {dtype} has started {others() - before} threads"
"""


def test_no_library_starts_threads_beside_ours(long_clips: list[KnownClip]) -> None:
    paths = [clip.path for clip in long_clips]
    done = subprocess.run([sys.executable, "-c", _COUNT_THREADS, *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
