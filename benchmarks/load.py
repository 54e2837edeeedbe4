"""A gather of whole loads: aioaudio beside soundfile and PyAV's frame loop, each of these in a pool of threads.

All take turns within one run, so that what else the machine does falls on all alike. Prints medians over the rounds,
and the ratio to aioaudio as the median of the ratios within each round; writes all rounds as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import av
import numpy as np
import soundfile
import torch

import aioaudio

ROOT = Path(__file__).resolve().parents[1]
CLIPS = sorted(path for path in (ROOT / "tests" / "data").iterdir() if path.suffix != ".md")

Load = Callable[[str], Awaitable[object]]


@dataclass
class Measured:
    """One turn of one contender: seconds on the clock, and seconds of CPU of the whole process."""

    wall: float
    cpu: float


def load_soundfile(path: str) -> torch.Tensor:
    samples, _ = soundfile.read(path, dtype="float32", always_2d=True)
    return torch.from_numpy(samples.T).contiguous()


def load_frames(path: str, sample_rate: int | None) -> torch.Tensor:
    """PyAV's frame loop; with `sample_rate`, resampled and mixed to mono."""
    with av.open(path) as container:
        stream = container.streams.audio[0]
        layout = "mono" if sample_rate else stream.layout
        resampler = av.AudioResampler("fltp", layout, sample_rate or stream.rate)
        frames = [out for frame in container.decode(stream) for out in resampler.resample(frame)]
        frames += resampler.resample(None)
    return torch.from_numpy(np.concatenate([frame.to_ndarray() for frame in frames], axis=1))


def contenders(pool: ThreadPoolExecutor) -> dict[str, dict[str, Load]]:
    """By task, then by name: how one file is loaded. soundfile does not resample."""

    def in_pool(function: Callable[..., object], *args: object) -> Awaitable[object]:
        return asyncio.get_running_loop().run_in_executor(pool, function, *args)

    return {
        "as in the file": {
            "aioaudio": lambda path: aioaudio.load(path),
            "soundfile": lambda path: in_pool(load_soundfile, path),
            "PyAV frames": lambda path: in_pool(load_frames, path, None),
        },
        "16 kHz mono": {
            "aioaudio": lambda path: aioaudio.load(path, sample_rate=16_000, num_channels=1),
            "PyAV frames": lambda path: in_pool(load_frames, path, 16_000),
        },
    }


async def measure(load: Load, paths: Sequence[str]) -> Measured:
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(load(path) for path in paths))
    return Measured(time.perf_counter() - wall, time.process_time() - cpu)


async def run_rounds(loads: dict[str, Load], paths: Sequence[str], rounds: int) -> dict[str, list[Measured]]:
    measured: dict[str, list[Measured]] = {name: [] for name in loads}
    order = list(loads)
    for _ in range(rounds + 1):
        for name in order:
            measured[name].append(await measure(loads[name], paths))
        order.append(order.pop(0))  # nobody always follows the same neighbour
    return {name: turns[1:] for name, turns in measured.items()}  # the first round only warms up


def print_table(task: str, measured: dict[str, list[Measured]], num_files: int) -> None:
    print(f"\n{task:<16} {'files/s':>9} {'ms wall':>9} {'ms CPU':>9} {'wall ratio':>11} {'CPU ratio':>10}")
    ours = measured["aioaudio"]
    for name, turns in measured.items():
        wall, cpu = (statistics.median(getattr(turn, unit) for turn in turns) for unit in ("wall", "cpu"))
        wall_ratio = statistics.median(turn.wall / our.wall for turn, our in zip(turns, ours, strict=True))
        cpu_ratio = statistics.median(turn.cpu / our.cpu for turn, our in zip(turns, ours, strict=True))
        print(
            f"{name:<16} {num_files / wall:>9.0f} {wall * 1e3:>9.1f} {cpu * 1e3:>9.1f} "
            f"{wall_ratio:>11.2f} {cpu_ratio:>10.2f}"
        )


async def main(arguments: argparse.Namespace) -> dict[str, dict[str, list[Measured]]]:
    cpus = len(os.sched_getaffinity(0))
    results = {}
    with ThreadPoolExecutor(cpus) as pool:
        for task, loads in contenders(pool).items():
            readable = [path for path in arguments.paths if "soundfile" not in loads or can_soundfile(path)]
            paths = readable * arguments.repeat
            results[task] = await run_rounds(loads, paths, arguments.rounds)
            print_table(task, results[task], len(paths))
    return results


def can_soundfile(path: str) -> bool:
    try:
        soundfile.info(path)
    except soundfile.LibsndfileError:
        return False
    return True


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="FILE", default=[str(path) for path in CLIPS], help="audio files")
    parser.add_argument("--repeat", type=int, default=5, help="loads of each file in a turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds that count (default: %(default)s)")
    parser.add_argument(
        "--json", type=Path, default=ROOT / "benchmarks" / "results" / "load.json", help="where to write"
    )
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse_arguments()
    results = aioaudio.run(main(arguments))
    report = {
        "report": str(aioaudio.doctor()),
        "repeat": arguments.repeat,
        "files": [Path(path).name for path in arguments.paths],
        "rounds": {task: {n: [asdict(t) for t in turns] for n, turns in by.items()} for task, by in results.items()},
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"\nwrote {os.path.relpath(arguments.json)}")
