"""What can be seen of a run: statistics, a bar, a trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import aioaudio


async def test_statistics_count_what_every_stage_did(paths: list[Path], broken: Path) -> None:
    clips = [*paths, broken, broken.with_name("missing.wav")]
    async with aioaudio.batches(clips, batch_size=4, on_error="skip") as batches:
        assert batches.statistics()["decode"].done == 0
        made = [batch async for batch in batches]
    statistics = batches.statistics()
    assert list(statistics) == ["input", "fetch", "decode", "collate", "consumer"]
    assert (statistics["decode"].done, statistics["decode"].failed) == (24, 1)
    assert statistics["fetch"].failed == 1
    assert statistics["collate"].done == statistics["consumer"].done == len(made)
    for stage in statistics.values():
        assert 0 <= stage.waited_p50 <= stage.waited_p90 <= stage.waited_p99
        assert 0 <= stage.busy <= 1
        assert stage.depth == 0
    assert statistics["decode"].busy > 0


async def test_the_input_is_a_stage_too(paths: list[Path]) -> None:
    async with aioaudio.load_many(iter(paths)) as results:
        assert len([result async for result in results]) == 24
    assert results.statistics()["input"].done == 24


def test_progress_shows_clips_speed_and_failures(
    paths: list[Path], broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in aioaudio.sync.batches([*paths, broken], batch_size=4, on_error="skip", progress=True):
        pass
    last = capfd.readouterr().err.strip().split("\r")[-1]
    assert "25/25" in last
    assert re.search(r"\d+ s of audio/s, 1 failed", last)


@pytest.mark.parametrize("is_left_early", [False, True])
async def test_a_trace_shows_reads_decodes_batches_and_the_consumer(
    paths: list[Path], tmp_path: Path, is_left_early: bool
) -> None:
    trace = tmp_path / "trace.json"
    clips = [*map(str, paths), paths[0].open("rb")]
    async with aioaudio.batches(clips, batch_size=5, trace=trace) as batches:
        async for _ in batches:
            if is_left_early:
                break
    clips[-1].close()  # type: ignore[union-attr]
    events = json.loads(trace.read_text("utf-8"))
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans = [(lanes[event["tid"]], event["name"], event["dur"]) for event in events if event["ph"] == "X"]
    assert all(duration >= 0 for _, _, duration in spans)
    decodes = {name for lane, name, _ in spans if lane.startswith("aioaudio-decode")}
    assert "collate" in {name for lane, name, _ in spans if lane.startswith("aioaudio-read")}
    assert {"works", "waits"} == {name for lane, name, _ in spans if lane == "consumer"}
    if not is_left_early:
        assert {str(path) for path in paths} <= decodes
        reads = [event["ph"] for event in events if event.get("cat") == "fetch"]
        assert reads.count("b") == reads.count("e") > 0


def test_a_trace_that_cannot_be_written_is_an_error_and_one_that_is_cut_short_a_warning(
    paths: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        next(aioaudio.sync.batches(paths, batch_size=4, trace=tmp_path / "missing" / "trace.json"))
    with pytest.warns(RuntimeWarning, match="not complete"):
        assert len(list(aioaudio.sync.batches(paths, batch_size=4, trace="/dev/full"))) == 6
