"""Record an internet radio to files of an hour, each with a list of the titles in it, until Ctrl-C.

python examples/record_radio.py http://radio.example.org/stream.mp3
python examples/record_radio.py URL --into recordings --seconds-per-file 600

`2026-12-01T05-00-00.wav` is named by the time at which it begins. Beside it, `2026-12-01T05-00-00.csv` has a row for
each title: the second at which it begins in the file, what kind of event that is, and the text.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
import wave
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

import aioaudio

CHUNK_SECONDS = 1.0


def new_path(folder: Path) -> Path:
    name, number = f"{datetime.now().astimezone():%Y-%m-%dT%H-%M-%S}", 1
    path = folder / f"{name}.wav"
    while path.exists():
        number += 1
        path = folder / f"{name}_{number}.wav"
    return path


@contextlib.contextmanager
def recording(folder: Path, sample_rate: int, num_channels: int) -> Iterator[Recording]:
    """A new file, which is whole when this is left, in whatever way."""
    path = new_path(folder)
    with wave.open(str(path), "wb") as wav, path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as text:
        wav.setnchannels(num_channels)
        wav.setsampwidth(2)
        wav.setframerate(sample_rate)
        print(path, flush=True)
        yield Recording(wav, csv.writer(text))


class Recording:
    def __init__(self, wav: wave.Wave_write, rows: Any) -> None:
        self.wav, self.rows, self.num_chunks = wav, rows, 0
        rows.writerow(["seconds", "kind", "text"])

    def write(self, chunk: aioaudio.Audio) -> None:
        for event in chunk.events:
            at_seconds = self.num_chunks * CHUNK_SECONDS + event.at_seconds - chunk.start_seconds
            text = event.fields.get("StreamTitle", event.fields.get("icy-name", ""))
            self.rows.writerow([f"{at_seconds:.2f}", event.kind, text])
        self.wav.writeframesraw(chunk.waveform.T.contiguous().numpy().tobytes())
        self.num_chunks += 1


async def record(url: str, folder: Path, seconds_per_file: float) -> None:
    chunks_per_file = max(1, round(seconds_per_file / CHUNK_SECONDS))
    reader = aioaudio.open(url, chunk_seconds=CHUNK_SECONDS, dtype=torch.int16, on_damage="conceal")
    with contextlib.ExitStack() as files:
        current: Recording | None = None
        async with reader:
            async for chunk in reader:
                if current is None or current.num_chunks == chunks_per_file:
                    files.close()
                    current = files.enter_context(recording(folder, chunk.sample_rate, chunk.num_channels))
                current.write(chunk)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record an internet radio, until Ctrl-C.")
    parser.add_argument("url")
    parser.add_argument("--into", type=Path, default=Path())
    parser.add_argument("--seconds-per-file", type=float, default=3600)
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    try:
        aioaudio.run(record(arguments.url, arguments.into, arguments.seconds_per_file))
    except KeyboardInterrupt:
        pass
    except aioaudio.AudioError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
