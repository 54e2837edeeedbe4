"""Many processes and many event loops: forks, DataLoader workers, loops that come and go; and too little memory."""

from __future__ import annotations

import asyncio
import json
import os
import random
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from children import run_program
from clips import FORMS, KnownClip, load_and_check

import aioaudio
from aioaudio.workers import default_decode_threads, default_workers

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@needs_fork
@pytest.mark.timeout(900)
def test_parent_and_child_load_on_after_a_fork_during_decoding(
    clips: list[KnownClip], clip_folder: Path, soak: Callable[[int], int]
) -> None:
    finished = run_program("run_forks.py", clip_folder, soak(100), patience=soak(800))
    assert (finished.code, finished.stderr) == (0, "")


@pytest.mark.parametrize("start_method", [pytest.param("fork", marks=needs_fork), "forkserver", "spawn"])
def test_dataloader_workers_load_the_same_with_their_share_of_threads(
    clips: list[KnownClip], clip_folder: Path, start_method: str
) -> None:
    finished = run_program("run_dataloader.py", clip_folder, start_method)
    assert (finished.code, finished.stderr) == (0, "")
    report = json.loads(finished.stdout)
    assert report == {"parent": default_decode_threads(), "workers": [max(1, default_decode_threads() // 2)]}


@pytest.mark.timeout(600)
def test_loops_that_come_and_go_share_the_same_threads(clips: list[KnownClip], soak: Callable[[int], int]) -> None:
    rng, num_cancelled = random.Random(0), 0
    before = threading.active_count()

    async def load(is_left: bool) -> list[asyncio.Task[None]]:
        await asyncio.gather(*(load_and_check(rng.choice(clips), rng.choice(FORMS)) for _ in range(5)))
        left = [asyncio.create_task(load_and_check(clip, rng.choice(FORMS))) for clip in clips if is_left]
        await asyncio.sleep(0)
        return left

    for i in range(soak(1000)):
        run = (asyncio.run, aioaudio.run)[i // 2 % 2]
        for task in run(load(is_left=bool(i % 2))):
            assert task.cancelled() or task.result() is None  # by the end of its loop, or right just before
            num_cancelled += task.cancelled()
        workers = default_workers()
        assert threading.active_count() - before <= workers.read_threads + workers.decode_threads
    assert num_cancelled > 0


@pytest.mark.timeout(600)
def test_loops_in_several_threads_load_at_once(clips: list[KnownClip], soak: Callable[[int], int]) -> None:
    num_threads, num_loads = 6, soak(1000)
    together = threading.Barrier(num_threads)
    errors: list[BaseException] = []

    async def load(seed: int) -> None:
        rng = random.Random(seed)
        await asyncio.gather(*(load_and_check(rng.choice(clips), rng.choice(FORMS)) for _ in range(num_loads)))

    def load_without_a_loop(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(num_loads):
            clip = rng.choice(clips)
            clip.check(aioaudio.sync.load(clip.path))

    runs: list[Callable[[int], None]] = [
        lambda seed: asyncio.run(load(seed), debug=False),
        lambda seed: aioaudio.run(load(seed), debug=False),
        load_without_a_loop,
    ]

    def run(seed: int) -> None:
        try:
            together.wait()
            runs[seed % len(runs)](seed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_too_little_memory_for_one_load_is_that_loads_error(
    clips: list[KnownClip], clip_folder: Path, tmp_path: Path
) -> None:
    wav, flac = tmp_path / "huge.wav", tmp_path / "claims.flac"
    num_bytes = 600_000_000  # and four times as much when decoded
    with wav.open("wb") as file:
        form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8_000, 8_000, 1, 8)
        file.write(
            b"RIFF" + struct.pack("<I", 36 + num_bytes) + b"WAVE" + form + b"data" + struct.pack("<I", num_bytes)
        )
        file.truncate(44 + num_bytes)  # a hole, which takes no room on the disk
    data = bytearray(next(clip.data for clip in clips if clip.path.suffix == ".flac"))
    data[21] |= 0x0F
    data[22:26] = b"\xff" * 4  # 2 to the power of 36 samples
    flac.write_bytes(data)
    finished = run_program("run_huge.py", clip_folder, wav, flac)
    assert (finished.code, finished.stderr) == (0, "")
    assert json.loads(finished.stdout) == ["MemoryError", "DamagedAudioError"]
