"""The guards of conftest.py go off: a suite whose alarms are silent proves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

TESTS = Path(__file__).parent

FAULTY = """
import asyncio
import sys
import threading
import time

import pytest
from hypothesis import given, strategies

from aioaudio.encoded import LocalFile
from aioaudio.fetch import warm

kept = []
end = threading.Event()


async def test_harmless():
    assert asyncio.get_running_loop().get_debug()


async def test_own_blocking_call(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    time.sleep(0)


async def test_blocking_call_of_the_library():
    warm(LocalFile(__file__))


async def test_kernel_on_the_loop():
    sys.modules["aioaudio.decode"].decode_group([], [])


async def test_task_left():
    kept.append(asyncio.create_task(asyncio.sleep(100)))


@given(strategies.booleans())
async def test_task_left_by_hypothesis(value):
    kept.append(asyncio.create_task(asyncio.sleep(100)))


def test_descriptor_left():
    kept.append(open(__file__))


def test_thread_left():
    thread = threading.Thread(target=end.wait)
    thread.start()


def test_last():
    end.set()
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What is said of each test in FAULTY, "" where it passes."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "test_faulty.py").write_text(FAULTY)
    options = ["-c", str(TESTS.parent / "pyproject.toml"), "-p", "conftest", "-p", "no:cacheprovider"]
    options += ["--rootdir", str(folder), "--basetemp", str(folder / "temporary")]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--junitxml=report.xml", "test_faulty.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    said: dict[str, str] = {}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        name = case.attrib["name"]
        said[name] = said.get(name, "") + "".join(problem.attrib.get("message", "?") for problem in case)
    return said


def test_async_tests_run_on_both_kinds_of_loop(outcomes: Mapping[str, str]) -> None:
    pytest.importorskip("uvloop")
    assert outcomes["test_harmless[asyncio]"] == outcomes["test_harmless[uvloop]"] == ""


def test_a_blocking_call_of_the_library_fails_and_one_of_the_test_does_not(outcomes: Mapping[str, str]) -> None:
    assert outcomes["test_own_blocking_call[asyncio]"] == ""
    assert "Blocking call" in outcomes["test_blocking_call_of_the_library[asyncio]"]


def test_a_kernel_that_is_called_on_the_loop_fails(outcomes: Mapping[str, str]) -> None:
    assert "runs on an event loop" in outcomes["test_kernel_on_the_loop[asyncio]"]


@pytest.mark.parametrize(
    ("test", "alarm"),
    [
        ("test_task_left[asyncio]", "tasks left running"),
        ("test_task_left_by_hypothesis[asyncio]", "tasks left running"),
        ("test_descriptor_left", "descriptors left open"),
        ("test_thread_left", "threads left running"),
    ],
)
def test_what_is_left_over_fails(outcomes: Mapping[str, str], test: str, alarm: str) -> None:
    assert alarm in outcomes[test]
