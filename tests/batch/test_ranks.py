"""Ranks that go through their epochs in step: two gloo processes, and the rules alone."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioaudio
from aioaudio.batch.agree import Answer, decide

PROGRAM = Path(__file__).with_name("rank_program.py")


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.sampled_from(["drop", "repeat"]))
def test_all_ranks_give_as_many_batches(counts: list[int], uneven: Any) -> None:
    given = [0] * len(counts)
    for step in itertools.count():
        has = [step < count for count in counts]
        answers = [decide(uneven, one, any(has), not all(has)) for one in has]
        if Answer.END in answers:
            assert set(answers) == {Answer.END}
            break
        given = [one + 1 for one in given]
    assert set(given) == {min(counts) if uneven == "drop" else max(counts)}


def run_ranks(folder: Path, mode: str) -> list[Any]:
    """What the two ranks write."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(PROGRAM)]
    done = subprocess.run([*command, str(folder), mode], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text("utf-8")) for rank in (0, 1)]


@pytest.mark.parametrize("uneven", ["drop", "repeat"])
def test_two_gloo_ranks_finish_together(paths: list[Path], broken: Path, tmp_path: Path, uneven: str) -> None:
    # The odd places are the second rank's; most of them fail.
    clips = [str(broken if i % 2 and i % 5 else path) for i, path in enumerate(paths[:21])]
    (tmp_path / "clips.json").write_text(json.dumps(clips))
    first, second = run_ranks(tmp_path, uneven)
    assert [len(epoch) for epoch in first] == [len(epoch) for epoch in second]
    good = [[clip for clip in clips[rank::2] if clip != str(broken)] for rank in (0, 1)]
    full = [-(-len(own) // 2) for own in good]
    expected = min(full) if uneven == "drop" else max(full)
    for own, epochs in zip(good, (first, second), strict=True):
        assert [len(epoch) for epoch in epochs] == [expected] * 2
        for epoch in epochs:
            come = [clip for batch in epoch for clip in batch]
            assert set(come) == set(own) if uneven == "repeat" or len(own) <= 2 * expected else set(come) < set(own)


def test_ranks_in_step_need_torch_distributed() -> None:
    with pytest.raises(ValueError, match=r"torch\.distributed"):
        aioaudio.batches(["a.wav"], batch_size=1, shard=(0, 2), uneven="drop")


def test_a_rank_that_leaves_does_not_keep_the_others_waiting(paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "clips.json").write_text(json.dumps([str(path) for path in paths] * 4))
    first, second = run_ranks(tmp_path, "leave")
    assert first == "left"
    assert "another rank has left" in second


def test_a_rank_that_ends_its_run_before_it_begins_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []

    class Ranks:
        def leave(self) -> None:
            left.append("left")

    monkeypatch.setattr("aioaudio.batch.setup.Ranks", Ranks)
    with aioaudio.sync.batches(["a.wav"], batch_size=1, shard=(0, 2), uneven="drop") as batches:
        pass
    batches.close()
    assert left == ["left"]
