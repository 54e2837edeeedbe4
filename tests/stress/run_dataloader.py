"""A DataLoader whose workers load, after their parent has done so.

run_dataloader.py FOLDER START_METHOD        prints as JSON how many decode threads each process takes
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import warnings
from pathlib import Path

import torch
from clips import KnownClip, load_all, read_clips
from torch.utils.data import DataLoader, Dataset

import aioaudio
from aioaudio.workers import default_decode_threads, default_workers

NUM_WORKERS = 2


class Clips(Dataset[tuple[int, torch.Tensor, int]]):
    def __init__(self, folder: Path) -> None:
        self.clips = read_clips(folder)

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, int]:
        audio = aioaudio.sync.load(self.clips[index].path)
        assert default_workers().decode_threads == default_decode_threads()
        return index, audio.waveform, default_workers().decode_threads


class Loading:
    """A thread that goes on loading meanwhile."""

    def __init__(self, clips: list[KnownClip]) -> None:
        self._clips, self._ended = clips, threading.Event()
        self._thread = threading.Thread(target=self._load)

    def _load(self) -> None:
        while not self._ended.is_set():
            aioaudio.run(load_all(self._clips))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def main(folder: Path, start_method: str) -> None:
    dataset = Clips(folder)
    aioaudio.run(load_all(dataset.clips))
    dataset.clips[0].check(aioaudio.sync.load(dataset.clips[0].path))
    loader = DataLoader(dataset, batch_size=None, num_workers=NUM_WORKERS, multiprocessing_context=start_method)
    seen, threads = [], set()
    # Where the workers are forks of this process, they begin in the middle of it.
    with Loading(dataset.clips) if start_method == "fork" else contextlib.nullcontext():
        for index, waveform, decode_threads in loader:
            assert torch.equal(waveform, dataset.clips[index].samples), dataset.clips[index].path
            seen.append(index)
            threads.add(decode_threads)
    assert seen == list(range(len(dataset)))
    print(json.dumps({"parent": default_workers().decode_threads, "workers": sorted(threads)}))


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 says it of any fork beside threads
    main(Path(sys.argv[1]), sys.argv[2])
