"""Load every audio file under a folder at once, and print a table of what they hold and how loud they are.

Files that fail stand apart below the table, and the exit status is 1 if there are any. Only numbers are kept of each
file, so a folder of any size needs the memory of a few files.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aioaudio

SUFFIXES = {".aac", ".aif", ".aiff", ".flac", ".m4a", ".mka", ".mp3", ".oga", ".ogg", ".opus", ".wav", ".webm", ".wv"}


@dataclass(frozen=True)
class Measured:
    """One file: seconds, and levels in dB below full scale."""

    sample_rate: int
    num_channels: int
    seconds: float
    peak_db: float
    rms_db: float


async def measure(path: Path) -> Measured:
    audio = await aioaudio.load(path)
    peak, rms = 0.0, 0.0
    if audio.num_samples:
        peak, rms = float(audio.waveform.abs().max()), float(audio.waveform.square().mean().sqrt())
    return Measured(audio.sample_rate, audio.num_channels, audio.duration_seconds, decibels(peak), decibels(rms))


def decibels(amplitude: float) -> float:
    return 20.0 * math.log10(amplitude) if amplitude > 0 else -math.inf


async def measure_all(paths: Sequence[Path]) -> tuple[dict[Path, Measured], dict[Path, aioaudio.AudioError]]:
    """What was measured, and what failed."""
    results = await asyncio.gather(*map(measure, paths), return_exceptions=True)
    measured, failed = {}, {}
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, Measured):
            measured[path] = result
        elif isinstance(result, aioaudio.AudioError):
            failed[path] = result
        else:  # a mistake in this program
            raise result
    return measured, failed


def print_table(folder: Path, measured: dict[Path, Measured]) -> None:
    width = max(len(str(path.relative_to(folder))) for path in measured)
    print(f"{'file':{width}}  {'rate':>6}  {'channels':>8}  {'seconds':>8}  {'peak dB':>7}  {'RMS dB':>7}")
    for path, row in measured.items():
        numbers = (
            f"{row.sample_rate:6}  {row.num_channels:8}  {row.seconds:8.2f}  {row.peak_db:7.1f}  {row.rms_db:7.1f}"
        )
        print(f"{path.relative_to(folder)!s:{width}}  {numbers}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)

    measured, failed = aioaudio.run(measure_all(paths))
    if measured:
        print_table(folder, measured)
    print(f"\n{len(measured)} loaded, {len(failed)} failed")
    for error in failed.values():
        print(f"{type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
