"""Decoding what is at hand: aioaudio beside the PyAV frame loop, soundfile, SPDL and torchcodec, on the same clips.

Speech as WAV, FLAC, MP3, Vorbis, Opus and M4A, stereo at 44.1 kHz (Opus: 48 kHz), is made first, in a temporary folder.
Every contender has to give as many samples as aioaudio, and nearly the same ones; who does not is named in a note. All
is read from the page cache, or from bytes, and becomes float32 (num_channels, num_samples).

loads     CPU of the whole process for each clip, and clips a second, with one thread and with two. aioaudio loads all
          in one gather on an event loop; the peers' threads take sources from a deque, and do nothing else. "control"
          is SHA-256 in one thread and in two: what two threads gain on this machine at all.
busy      Clips a second of one decoding thread beside a main thread that runs Python without pause, and so gives the
          GIL away only when it is asked to, every 5 ms. The peers load in a thread of their own. aioaudio's event loop
          has a thread of its own, too, and keeps 32 loads in flight; so its results have to get the GIL twice, in the
          decode thread and in the loop's. "aioaudio ahead" has no loop thread: the main thread itself begins all loads
          on its event loop, which it then blocks.
short     CPU of a load of a clip of 10 ms, where all but decoding counts, and of 1 s of speech at 16 kHz mono. What
          aioaudio adds is its load, in a gather of thousands and one await at a time, less its own kernel in a plain
          loop (in groups of eight, and alone).
threads   OS threads that are not Python's, while two threads load: FFmpeg's, and those of thread pools.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from decode_cases import QUICK, Bench, Effort
from decode_summary import control_notes, summarize
from harness import parse_arguments, run_program
from peers import versions_of


def main() -> None:
    arguments = parse_arguments(__doc__, "decode")
    effort = QUICK if arguments.quick else Effort()
    with tempfile.TemporaryDirectory() as folder, closing(Bench(Path(folder), effort)) as bench:
        run_program(
            arguments,
            bench.cases(),
            versions_of(bench.peers),
            lambda results: summarize(results, list(bench.peers)),
            absent=bench.absent,
            notes=lambda results: [*control_notes(results), *bench.notes()],
        )


if __name__ == "__main__":
    main()
