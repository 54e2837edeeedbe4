"""Programs in processes of their own: started, and awaited with patience."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import aioaudio

__all__ = ["Finished", "assert_said", "run_program"]

HERE = Path(__file__).parent
PATIENCE = 100  # seconds until a process counts as hanging; the full counts take longer

# Said on standard error where something was not put away.
_ALARMS = ("Exception in", "ignored", "Fatal", "never", "destroyed", "Warning", "leaked", "terminate called")


@dataclass(frozen=True)
class Finished:
    """How a program has ended."""

    code: int
    stdout: str
    stderr: str


def run_program(name: str, *arguments: object, stdin: str = "", patience: float = PATIENCE) -> Finished:
    """Run the program `name` of this folder to its end; one that hangs fails, and takes its own children with it."""
    folders = [str(Path(path).parent) for path in aioaudio.__path__] + [str(HERE.parent)]
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(HERE / name), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        pytest.fail(f"{name} hangs; it has said {stdout!r} and {stderr!r}")
    return Finished(process.returncode, stdout, stderr)


def assert_said(stderr: str, last_line: str) -> None:
    """Fail unless `stderr` ends with `last_line`, and nothing in it says that something was left over."""
    assert stderr.rstrip().rpartition("\n")[2] == last_line, stderr
    for word in _ALARMS:
        assert word not in stderr, stderr
