"""The examples run as a reader would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matplotlib.image

ROOT = Path(__file__).resolve().parents[1]


def run_demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_demo_lists_every_clip_and_draws_it(data: Path, tmp_path: Path) -> None:
    png = tmp_path / "demo.png"
    done = run_demo("--png", png)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.count("  ") > 3}
    clips = [path for path in data.iterdir() if path.suffix != ".md"]
    assert {clip.name for clip in clips} <= set(rows)
    assert rows["jfk.m4a"][1:5] == ["aac", "44100", "2", "11.000"]
    assert rows["ljspeech.wav"][1:5] == ["pcm_s16le", "22050", "1", "5.139"]
    assert "largest gap of the heartbeat" in done.stdout
    assert "100%" in done.stderr  # the progress bar
    height, width = matplotlib.image.imread(png).shape[:2]
    assert height > 800
    assert width > 1200


def test_demo_takes_files_and_says_which_of_them_fails(data: Path, tmp_path: Path) -> None:
    not_audio = tmp_path / "notes.txt"
    not_audio.write_text("no audio\n")
    done = run_demo("--png", tmp_path / "demo.png", data / "jfk.opus", not_audio)
    assert done.returncode == 1
    assert "jfk.opus" in done.stdout
    assert "notes.txt" in done.stdout
    assert "Error" in done.stdout
    assert (tmp_path / "demo.png").exists()


def test_demo_explains_itself() -> None:
    done = run_demo("--help")
    assert done.returncode == 0
    assert "--png" in done.stdout
