"""Load any number of files, with a progress bar, and sum up how long they are; those that fail are named at the end.

python examples/gather_many.py talks/*.mp3
python examples/gather_many.py train.jsonl
"""

from __future__ import annotations

import argparse
import sys

import aioaudio
from aioaudio import Audio


async def gather(clips: list[str] | str) -> int:
    seconds, count = 0.0, 0
    async with aioaudio.load_many(clips, order="completion", on_error="skip", progress=True) as results:
        async for audio in results:
            assert isinstance(audio, Audio)  # with on_error="return", a Failure may come, too
            seconds, count = seconds + audio.duration_seconds, count + 1
    print(f"{count} files, {seconds:.1f} s of audio")
    if results.failures is None:
        return 0
    for error in results.failures.exceptions:
        print(f"{type(error).__name__}: {error}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="audio files, or one manifest (.jsonl, .json, .csv, .tsv)")
    files = parser.parse_args().files
    is_manifest = len(files) == 1 and files[0].endswith((".jsonl", ".json", ".csv", ".tsv"))
    return aioaudio.run(gather(files[0] if is_manifest else files))


if __name__ == "__main__":
    sys.exit(main())
