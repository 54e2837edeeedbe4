"""Feeding a model: batches of aioaudio beside SPDL's pipeline and PyTorch's DataLoader, from the same list of files.

The files are LibriSpeech's FLAC (16 kHz) and LJ Speech's MP3 (22.05 kHz) of `../shared/audio`, repeated; where that is
missing, the clips of `tests/data`. All come out in order, in padded batches of 16, as mono float32 at 16 kHz, from two
decode threads or two worker processes. In "idle" the consumer does nothing with a batch; in "busy" it runs Python for
each, which takes 20 ms where nothing else runs.

Every turn is a process of its own. Clips a second count from when all is imported, and the pipeline begins, to when the
last batch was consumed. Memory is the most that was seen of the process with its children, where what they share counts
once (PSS). Before the first turns, all clips of a contender are compared with aioaudio's; notes say what differs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path

import torch
from feeder_turns import Order, loops_that_take, take_turn
from feeders import OURS, OURS_SYNC, find_feeders, versions_of
from harness import Case, Contender, Turn, parse_arguments, run_program
from pipeline_summary import summarize

REPOSITORY = Path(__file__).resolve().parents[1]

# By suffix: what the clips are called, and where they lie.
CORPORA = {
    "flac": ("LibriSpeech", "librispeech/**/*.flac"),
    "mp3": ("LJ Speech", "ljspeech/**/*.mp3"),
}
CONSUMERS = {"idle": 0.0, "busy": 0.02}

# Lossy decoders differ a little, and resamplers more.
MAX_DIFFERENCE = 0.02


@dataclass(frozen=True)
class Effort:
    num_clips: int = 1024


QUICK = Effort(num_clips=40)


class Bench:
    """The clips, the feeders, and the cases that bring them together."""

    def __init__(self, folder: Path, effort: Effort) -> None:
        self.folder = folder
        self.effort = effort
        self.feeders, self.absent = find_feeders()
        self.checked: dict[str, list[str]] = {}
        self.notes: list[str] = []

    def cases(self) -> Iterator[Case]:
        for suffix, consumer in product(CORPORA, CONSUMERS):
            yield Case(f"{suffix}/{consumer}", partial(self.feeding, suffix, CONSUMERS[consumer]))

    def feeding(self, suffix: str, python_seconds: float) -> Mapping[str, Contender]:
        if suffix not in self.checked:
            self.checked[suffix] = self.check(suffix)
        paths = list(islice(cycle(clips_of(suffix)[1]), self.effort.num_clips))
        num_loops = loops_that_take(python_seconds)
        return {title: partial(self.turn, Order(title, paths, num_loops)) for title in self.checked[suffix]}

    def turn(self, order: Order) -> Turn:
        turn = take_turn(order)
        if turn["num_clips"] != len(order.paths):
            raise RuntimeError(f"{order.title} gave {turn['num_clips']:.0f} of {len(order.paths)} clips")
        return turn

    def check(self, suffix: str) -> list[str]:
        """The titles of those that can feed these clips; whoever fails or gives something else is noted."""
        corpus, paths = clips_of(suffix)
        paths = paths[: self.effort.num_clips]
        self.notes.append(f"{suffix}: {len(paths)} clips of {corpus}, repeated to {self.effort.num_clips}")
        ours = self.clips_by(OURS, paths)
        able = [OURS]
        for feeder in self.feeders:
            if feeder.title == OURS:
                continue
            try:
                theirs = self.clips_by(feeder.title, paths)
            except RuntimeError as error:
                if feeder.title == OURS_SYNC:
                    raise
                self.notes.append(f"{suffix}: {error}")
                continue
            able.append(feeder.title)
            if oddity := difference(theirs, ours):
                self.notes.append(f"{suffix}: {feeder.title}: {oddity}")
        return able

    def clips_by(self, title: str, paths: Sequence[str]) -> list[torch.Tensor]:
        file = self.folder / "clips.pt"
        take_turn(Order(title, paths, keep=str(file)))
        clips: list[torch.Tensor] = torch.load(file, weights_only=True)
        return clips


def clips_of(suffix: str) -> tuple[str, list[str]]:
    """What these clips are called, and their paths."""
    corpus, pattern = CORPORA[suffix]
    paths = sorted((REPOSITORY.parent / "shared" / "audio").glob(pattern))
    if not paths:
        corpus, paths = "tests/data", sorted((REPOSITORY / "tests" / "data").glob(f"*.{suffix}"))
    return corpus, [str(path) for path in paths]


def difference(theirs: Sequence[torch.Tensor], ours: Sequence[torch.Tensor]) -> str | None:
    """In which way clips are not the same, None if they are, but for what lossy decoders and resamplers make of them.

    Where lengths differ, samples are compared as far as both go.
    """
    if len(theirs) != len(ours):
        return f"{len(theirs)} clips instead of {len(ours)}"
    oddities = []
    longer = [len(a) - len(b) for a, b in zip(theirs, ours, strict=True) if len(a) != len(b)]
    if longer:
        oddities.append(
            f"{len(longer)} of {len(ours)} clips differ in length, by {min(longer):+} to {max(longer):+} samples"
        )
    pairs = [(a[: len(b)], b[: len(a)]) for a, b in zip(theirs, ours, strict=True)]
    largest = max(float((a - b).abs().max()) for a, b in pairs)
    if largest > MAX_DIFFERENCE:
        oddities.append(f"samples differ by up to {largest:.2g}")
    return "; ".join(oddities) or None


def main() -> None:
    arguments = parse_arguments(__doc__, "pipeline")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), QUICK if arguments.quick else Effort())
        run_program(
            arguments,
            bench.cases(),
            versions_of(bench.feeders),
            lambda results: summarize(results, bench.feeders),
            absent=bench.absent,
            notes=lambda _: bench.notes,
        )


if __name__ == "__main__":
    main()
