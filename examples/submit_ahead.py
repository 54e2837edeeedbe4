"""Tell loud recordings from quiet ones, in code without an event loop: the next files load while one is analysed.

python examples/submit_ahead.py talks/*.mp3
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterable, Iterator

import torch

import aioaudio


def submit_ahead(paths: Iterable[str], count: int) -> Iterator[tuple[str, aioaudio.LazyAudio]]:
    """Each path with its load, begun while those of up to `count` paths before it were still in use."""
    begun: deque[tuple[str, aioaudio.LazyAudio]] = deque()
    for path in paths:
        begun.append((path, aioaudio.submit(path, sample_rate=16_000, num_channels=1)))
        if len(begun) > count:
            yield begun.popleft()
    while begun:
        yield begun.popleft()


def levels(waveform: torch.Tensor | aioaudio.LazyAudio) -> torch.Tensor:
    """The level of each half second, in dB below full scale."""
    power = torch.nn.functional.avg_pool1d(waveform.square(), 8_000, ceil_mode=True)
    return 10 * torch.log10(power + 1e-10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="audio files")
    num_failed = 0
    for path, waveform in submit_ahead(parser.parse_args().files, count=8):
        try:
            level = levels(waveform)  # here it waits, if it has to
        except aioaudio.AudioError as error:
            print(f"{type(error).__name__}: {error}")
            num_failed += 1
        else:
            print(f"{level.median():6.1f} dB, loudest {level.max():6.1f} dB  {path}")
    return num_failed > 0


if __name__ == "__main__":
    sys.exit(main())
