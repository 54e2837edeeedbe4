"""The scripts that the documentation points to, run as a reader would run them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

import aioaudio

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def cut_in_half(source: Path, destination: Path) -> None:
    data = source.read_bytes()
    destination.write_bytes(data[: len(data) // 2])


def test_gather_folder_prints_a_row_for_each_file(data: Path) -> None:
    done = run("gather_folder.py", data)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert rows["jfk.mp3"][:3] == ["44100", "2", "11.00"]
    wav = aioaudio.sync.load(data / "ljspeech.wav").waveform
    peak_db, rms_db = (20 * torch.log10(level).item() for level in (wav.abs().max(), wav.square().mean().sqrt()))
    assert rows["ljspeech.wav"] == ["22050", "1", "5.14", f"{peak_db:.1f}", f"{rms_db:.1f}"]
    assert "8 loaded, 0 failed" in done.stdout


def test_gather_folder_keeps_failures_apart(data: Path, tmp_path: Path) -> None:
    (tmp_path / "album").mkdir()
    shutil.copy(data / "jfk.opus", tmp_path / "album")
    cut_in_half(data / "jfk.mp3", tmp_path / "album" / "half.mp3")
    (tmp_path / "silent.wav").write_bytes(b"RIFF")
    (tmp_path / "notes.txt").write_text("no audio, and no audio's name")
    done = run("gather_folder.py", tmp_path)
    assert done.returncode == 1, done.stderr
    assert "1 loaded, 2 failed" in done.stdout
    assert "album/jfk.opus" in done.stdout
    assert f"DamagedAudioError: {tmp_path / 'album' / 'half.mp3'}" in done.stdout
    assert f"CorruptAudioError: {tmp_path / 'silent.wav'}" in done.stdout
    assert "notes.txt" not in done.stdout


def test_to_wav_writes_what_load_gives(data: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.flac"
    done = run("to_wav.py", missing, data / "jfk.opus", data / "ljspeech.flac", "--into", tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"SourceNotFound: {missing}" in done.stdout
    for name in ("jfk.opus", "ljspeech.flac"):
        expected = aioaudio.sync.load(data / name, sample_rate=16_000, num_channels=1, dtype=torch.int16).waveform
        with wave.open(str(tmp_path / f"{name}.wav"), "rb") as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
            written = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        assert torch.from_numpy(written.copy()).equal(expected[0])


def test_gather_many_takes_files_and_names_those_that_fail(data: Path, tmp_path: Path) -> None:
    silent = tmp_path / "silent.wav"
    silent.write_bytes(b"RIFF")
    done = run("gather_many.py", data / "ljspeech.wav", silent, data / "jfk.flac")
    assert done.returncode == 1, done.stderr
    assert "2 files, 7.5 s of audio" in done.stdout
    assert f"CorruptAudioError: {silent}" in done.stdout
    assert "3/3" in done.stderr


def test_gather_many_takes_a_manifest(data: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "clips.csv"
    manifest.write_text(f"path,offset,duration\n{data / 'ljspeech.wav'},1,2\n{data / 'jfk.flac'},0,0.5\n")
    done = run("gather_many.py", manifest)
    assert done.returncode == 0, done.stderr
    assert "2 files, 2.5 s of audio" in done.stdout


def test_submit_ahead_measures_all_and_names_those_that_fail(data: Path, tmp_path: Path) -> None:
    names = ["ljspeech.wav", "jfk.opus", "ljspeech.flac"]
    done = run("submit_ahead.py", *(data / name for name in names), tmp_path / "missing.wav")
    assert done.returncode == 1, done.stderr
    *rows, last = done.stdout.splitlines()
    assert [Path(row.split()[-1]).name for row in rows] == names
    assert rows[0].split()[:5] == rows[2].split()[:5]  # the same recording
    assert last.startswith("SourceNotFound")


def assert_has_learnt(printed: str, times: int = 1) -> None:
    assert len(re.findall(r"(?:9\d|100)% right", printed)) == times, printed


@pytest.mark.parametrize("script", ["train.py", "train_dataloader.py", "train_device.py"])
def test_a_training_loop_learns_who_speaks(script: str) -> None:
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert "before training: 50% right" in done.stdout
    assert_has_learnt(done.stdout)


def test_two_ranks_train_with_as_many_batches() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = str(EXAMPLES / "train_two_ranks.py")
    done = subprocess.run([*command, script], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": 40 batches") == 2, done.stdout
    assert_has_learnt(done.stdout, times=2)


def test_lightning_trains_or_is_asked_for() -> None:
    done = run("train_lightning.py")
    if importlib.util.find_spec("lightning") is None:
        assert done.returncode == 1
        assert "pip install lightning" in done.stderr
        pytest.skip("Lightning is not installed")
    assert done.returncode == 0, done.stderr
    assert_has_learnt(done.stdout)


def test_a_websocket_prints_the_levels_of_what_arrives(data: Path) -> None:
    done = run("websocket_levels.py", data / "jfk.opus", data / "ljspeech.mp3", EXAMPLES / "train.py")
    if importlib.util.find_spec("aiohttp") is None:
        assert done.returncode == 1
        assert "pip install aiohttp" in done.stderr
        pytest.skip("aiohttp is not installed")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^jfk\.opus .* dB", done.stdout, re.MULTILINE)) == 22
    assert len(re.findall(r"^ljspeech\.mp3 .* dB", done.stdout, re.MULTILINE)) == 11
    assert re.search(r"^train\.py .*AudioError", done.stdout, re.MULTILINE)
