"""A feeder's turn, in a process of its own, so that nothing is warm from another's.

`take_turn` starts that process and watches the memory of it and of its children, from outside. The process runs
`child`, which is given what to do as JSON, and prints what it measured as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from feeders import FEEDERS
from harness import Turn

__all__ = ["Order", "loops_that_take", "take_turn"]

# Looking into /proc takes CPU, too; this is rare enough not to count.
POLL_SECONDS = 0.2

CHILD = [sys.executable, "-c", "import feeder_turns; feeder_turns.child()"]


@dataclass(frozen=True)
class Order:
    """What a process has to do. Its consumer runs `num_loops` turns of Python for each batch.

    `keep` names a file for all clips, without their padding.
    """

    title: str
    paths: Sequence[str]
    num_loops: int = 0
    keep: str | None = None


def take_turn(order: Order) -> Turn:
    """Feed as ordered, in a new process; raises RuntimeError, with what it said last, if it fails."""
    process = subprocess.Popen(  # noqa: S603 - this program
        CHILD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parent,
    )
    words: str | None = json.dumps(asdict(order))
    most = 0
    while True:
        try:
            out, err = process.communicate(words, timeout=POLL_SECONDS)
            break
        except subprocess.TimeoutExpired:
            words = None
            most = max(most, sum(map(_pss, _tree(process.pid))))
    if process.returncode:
        raise RuntimeError(f"{order.title}: {(err.strip().splitlines() or ['no word'])[-1]}")
    turn: Turn = json.loads(out.splitlines()[-1])
    return {**turn, "memory_bytes": most, "own_memory_bytes": max(0, most - turn["imported_bytes"])}


def _tree(pid: int) -> Iterator[int]:
    """A process and all that come of it. Who ends meanwhile is left out."""
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from _tree(child)


def _pss(pid: int) -> int:
    """The memory of a process in bytes; what it shares with others is divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def run_python(num_loops: int) -> None:
    """Hold the GIL, but for handing it over when asked."""
    value = 1
    for _ in range(num_loops):
        value = 5 * value & 255


def loops_that_take(seconds: float) -> int:
    """So many turns of `run_python` take about so long where nothing else runs."""
    num_loops, times = 200_000, []
    for _ in range(9):
        began = time.perf_counter()
        run_python(num_loops)
        times.append(time.perf_counter() - began)
    return round(num_loops * seconds / min(times))


class Consumer:
    """Takes batches, and counts."""

    def __init__(self, order: Order) -> None:
        self._num_loops, self._is_keeping = order.num_loops, order.keep is not None
        self.clips: list[torch.Tensor] = []
        self.num_clips = self.num_samples = self.num_all_samples = 0
        self._began = time.perf_counter()
        self.first_seconds = self.all_seconds = 0.0

    def __call__(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> None:
        if not self.num_clips:
            self.first_seconds = time.perf_counter() - self._began
        self.num_clips += len(lengths)
        self.num_samples += int(lengths.sum())
        self.num_all_samples += waveforms.numel()
        if self._is_keeping:
            rows = waveforms.reshape(len(lengths), -1)
            self.clips += [row[:length].clone() for row, length in zip(rows, lengths.tolist(), strict=True)]
        run_python(self._num_loops)
        self.all_seconds = time.perf_counter() - self._began

    def turn(self, cpu_seconds: float) -> Turn:
        return {
            "cpu_ms": 1e3 * cpu_seconds / self.num_clips,
            "num_cpus": cpu_seconds / self.all_seconds,
            "per_second": self.num_clips / self.all_seconds,
            "first_seconds": self.first_seconds,
            "padding": 1 - self.num_samples / self.num_all_samples,
            "num_clips": self.num_clips,
            "num_samples": self.num_samples,
        }


def _cpu_seconds() -> float:
    """CPU of this process, and of its children that have ended."""
    return sum(os.times()[:4])


def child() -> None:
    """The process of a turn. The clock runs from when all is imported to when the last batch has been consumed."""
    order = Order(**json.load(sys.stdin))
    feed = next(feeder for feeder in FEEDERS if feeder.title == order.title).make()
    imported = _pss(os.getpid())
    consumer, began = Consumer(order), _cpu_seconds()
    feed(order.paths, consumer)
    turn = {**consumer.turn(_cpu_seconds() - began), "imported_bytes": imported}
    if order.keep is not None:
        torch.save(consumer.clips, order.keep)
    print(json.dumps(turn))
