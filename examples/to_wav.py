"""Turn audio files of any kind into WAV of 16 bits and one channel: a script without an event loop.

The result for talk.mp3 is talk.mp3.wav. A file that fails does not stop the others; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import sys
import wave
from pathlib import Path

import torch

import aioaudio


def write_wav(path: Path, audio: aioaudio.Audio) -> None:
    """Write an int16 `audio`."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(audio.num_channels)
        file.setsampwidth(2)
        file.setframerate(audio.sample_rate)
        file.writeframes(audio.waveform.T.contiguous().numpy().astype("<i2").tobytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--into", type=Path, help="folder for the results (default: beside each file)")
    parser.add_argument("--rate", type=int, default=16_000, help="sample rate in Hz (default: %(default)s)")
    arguments = parser.parse_args()

    failed = False
    for path in arguments.paths:
        result = (arguments.into or path.parent) / f"{path.name}.wav"
        try:
            audio = aioaudio.sync.load(path, sample_rate=arguments.rate, num_channels=1, dtype=torch.int16)
        except aioaudio.AudioError as error:
            print(f"{type(error).__name__}: {error}")
            failed = True
        else:
            write_wav(result, audio)
            print(f"{result}: {audio.duration_seconds:.2f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
