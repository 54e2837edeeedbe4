"""The harness of the benchmarks reckons rightly, and the programs on it run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
from feeder_turns import Order, take_turn
from feeders import FEEDERS, OURS, OURS_SYNC
from harness import Case, Grid, Report, Rounds, Target, Turn, order_of_turns, publish, run_cases
from pipeline_summary import summarize

from aioaudio.workers import default_decode_threads

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def make_report(targets: list[Target]) -> Report:
    grid = Grid("CPU of a load", "ms", {"wav 1 s": {"aioaudio": 0.25, "other": 123.4}, "mp3 1 s": {"aioaudio": 2.0}})
    rounds = Rounds({"aioaudio": [{"cpu_us": 250.0}]})
    return Report(
        program="decode",
        is_quick=True,
        num_rounds=1,
        contenders={"aioaudio": "1.2.3"},
        absent={"other": "No module"},
        results={"loads/wav": rounds},
        notes=["other: fewer samples"],
        grids=[grid],
        targets=targets,
        load_before=0.0,
    )


def test_ratios_and_differences_are_taken_within_a_round() -> None:
    rounds = Rounds({"a": [{"x": 10.0}, {"x": 40.0}, {"x": 9.0}], "b": [{"x": 5.0}, {"x": 20.0}, {"x": 3.0}]})
    assert rounds.ratios("a", "b", "x") == [2.0, 2.0, 3.0]
    assert rounds.differences("a", "b", "x") == [5.0, 20.0, 6.0]
    assert rounds.median("a", "x") == 10.0
    assert "a" in rounds
    assert "c" not in rounds


def test_everybody_takes_one_turn_a_round_and_the_first_round_does_not_count() -> None:
    taken: list[str] = []

    def contender(name: str) -> Turn:
        taken.append(name)
        return {"turn": float(taken.count(name))}

    case = Case("letters", lambda: {name: lambda name=name: contender(name) for name in "abc"})  # type: ignore[misc]
    results = run_cases([case, Case("numbers", dict)], ["lett"], num_rounds=5)
    assert list(results) == ["letters"]
    assert [sorted(taken[at : at + 3]) for at in range(0, 18, 3)] == [["a", "b", "c"]] * 6
    for name in "abc":
        assert results["letters"].values(name, "turn") == [2, 3, 4, 5, 6]


def test_nobody_keeps_a_place_or_a_neighbour() -> None:
    orders = [order_of_turns(list("abcd"), index) for index in range(8)]
    assert {order[0] for order in orders} == set("abcd")
    assert len({order[order.index("a") - 1] for order in orders if order[0] != "a"}) > 1


@pytest.mark.parametrize(("values", "least", "met"), [([1, 2, 9], False, True), ([1, 3, 9], False, False)])
def test_a_target_bounds_the_median(values: list[float], least: bool, met: bool) -> None:
    assert Target("ratio", values, 2.5, least=least).met is met
    assert Target("ratio", values, 2.5, least=not least).met is not met


def test_a_page_is_filled_between_its_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- decode.py -->\nold\n<!-- end of decode.py -->\nafter\n")
    arguments = argparse.Namespace(json=tmp_path / "decode.json", plot=None, docs=page)
    targets = [Target("met", [1.0], 2.0), Target("missed", [3.0], 2.0)]
    for _ in range(2):
        publish(make_report(targets), arguments)
    text = page.read_text()
    assert text.startswith("before\n<!-- decode.py -->")
    assert text.endswith("<!-- end of decode.py -->\nafter\n")
    assert "old" not in text
    assert "| wav 1 s | 0.250 | 123 |" in text
    assert "| mp3 1 s | 2.00 | – |" in text
    assert "1 of 2 are met" in text
    assert "| missed | 3.00 (3.00 to 3.00) | ≤ 2.00 | no |" in text
    assert text.count("no measurement") == 1
    assert json.loads(arguments.json.read_text())["cases"] == {"loads/wav": {"aioaudio": [{"cpu_us": 250.0}]}}
    assert "other (No module)" in capsys.readouterr().out


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing to fill")
    with pytest.raises(ValueError, match=r"no <!-- decode\.py -->"):
        publish(make_report([]), argparse.Namespace(json=tmp_path / "decode.json", plot=None, docs=page))
    assert page.read_text() == "nothing to fill"


def test_decode_measures_short_clips(tmp_path: Path) -> None:
    file, picture = tmp_path / "decode.json", tmp_path / "new" / "decode.png"
    done = run("decode.py", "--quick", "--only", "short/wav 10 ms", "--json", file, "--plot", picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    measured = json.loads(file.read_text())["cases"]
    assert set(measured) == {"short/wav 10 ms/path", "short/wav 10 ms/bytes"}
    for contenders in measured.values():
        assert {"aioaudio", "kernel, groups of 8", "PyAV frames", "soundfile"} <= set(contenders)
        assert all(turn["cpu_us"] > 0 for turns in contenders.values() for turn in turns)
    assert "wav 10 ms from bytes: added in a gather" in done.stdout


def test_responsiveness_measures_gaps_and_gathers(tmp_path: Path) -> None:
    file = tmp_path / "responsiveness.json"
    done = run("responsiveness.py", "--quick", "--only", "gap, bytes", "together, flac", "--json", file)
    assert done.returncode == 0, done.stderr
    assert "Longest gap of the event loop" in done.stdout
    cases = json.loads(file.read_text())["cases"]
    assert set(cases) == {"gap, bytes", "together, flac"}
    assert set(cases["gap, bytes"]) == {"idle loop", "200 loads"}
    assert all(turn["gap_ms"] > 0 for turns in cases["gap, bytes"].values() for turn in turns)
    assert set(cases["together, flac"]) == {"one clip", f"{default_decode_threads()} clips"}
    assert all(turn["wall_ms"] > 0 for turns in cases["together, flac"].values() for turn in turns)


def test_lazy_measures_what_is_hidden(tmp_path: Path) -> None:
    file = tmp_path / "lazy.json"
    done = run("lazy.py", "--quick", "--only", "wav, torch", "flac, failures", "--json", file)
    assert done.returncode == 0, done.stderr
    measured = json.loads(file.read_text())
    assert set(measured["cases"]) == {"wav, torch", "flac, failures"}
    for contenders in measured["cases"].values():
        assert set(contenders) == {"loads", "computation", "submit, compute, use"}
        assert all(turn["seconds"] > 0 for turns in contenders.values() for turn in turns)
    assert [target["what"] for target in measured["targets"]] == ["wav, torch", "flac, failures"]


def test_services_measures_batches_over_http(tmp_path: Path) -> None:
    file = tmp_path / "services.json"
    done = run("services.py", "--quick", "--repeat", "1", "--only", "batches, mp3", "--json", file)
    assert done.returncode == 0, done.stderr
    cases = json.loads(file.read_text())["cases"]
    assert set(cases) == {"batches, mp3"}
    assert set(cases["batches, mp3"]) == {"files", "HTTP", "files, blocked", "HTTP, blocked"}
    assert all(turn["per_second"] > 0 for turns in cases["batches, mp3"].values() for turn in turns)


def test_the_list_names_cases_and_contenders() -> None:
    done = run("decode.py", "--list", "--only", "threads")
    assert done.returncode == 0, done.stderr
    assert "threads/flac 10 s\n" in done.stdout
    assert "loads/" not in done.stdout
    assert "soundfile" in done.stdout
    done = run("pipeline.py", "--list", "--only", "mp3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mp3/idle\nmp3/busy\n\ncontenders: aioaudio ")


def test_the_turns_of_pipeline_measure_batches() -> None:
    paths = [str(path) for path in sorted((BENCHMARKS.parent / "tests" / "data").glob("*.mp3"))] * 10
    turns = {title: take_turn(Order(title, paths, num_loops=100)) for title in (OURS, OURS_SYNC)}
    for turn in turns.values():
        assert turn["num_clips"] == 20
        assert turn["per_second"] > 0
        assert turn["first_seconds"] > 0
        assert turn["cpu_ms"] > 0
        assert turn["memory_bytes"] > turn["imported_bytes"] > 1 << 20
        assert 0 < turn["padding"] < 1
    assert turns[OURS]["num_samples"] == turns[OURS_SYNC]["num_samples"]
    grids, targets = summarize({"mp3/idle": Rounds({title: [turn] for title, turn in turns.items()})}, FEEDERS)
    assert len(grids) == 7
    assert [target.what for target in targets] == ["mp3/idle: rate of the sync face ÷ async"]


def test_pools_are_varied(tmp_path: Path) -> None:
    file = tmp_path / "pools.json"
    done = run("pools.py", "--quick", "--only", "decode threads: 2", "--json", file)
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert set(report["cases"]) == {"slow source, decode threads: 2", "cold files, decode threads: 2"}
    for contenders in report["cases"].values():
        assert {"4 read threads", "32 read threads", "in memory"} <= set(contenders)
        assert all(turn["per_second"] > 0 for turns in contenders.values() for turn in turns)


def test_the_first_chunk_of_a_stream_is_timed() -> None:
    done = run("first_chunk.py", "MP3", "AAC in MP4, in fragments")
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["MP3", "AAC in MP4, in fragments"]
    assert all(float(row[2]) > 0 and float(row[3]) < 64 for row in rows)
