"""The check of a GPU runs: in full where there is one, and elsewhere on the CPU, all but what needs streams."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import create_autospec

import pytest
import torch

from aioaudio.device import PlainTransfer, _Cuda

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "gpu_check.py"


def run(report: Path, *arguments: str, timeout: float) -> tuple[int, dict[str, Any], str]:
    command = [sys.executable, "-W", "error", str(SCRIPT), "--report", str(report), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    return done.returncode, json.loads(report.read_text()) if report.exists() else {}, done.stderr


@pytest.fixture
def gpu_check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here")
def test_a_gpu_passes(tmp_path: Path) -> None:
    status, report, said = run(tmp_path / "report.json", timeout=240)
    assert status == 0, said
    assert report["passed"]
    assert {check.get("passed") for check in report["checks"].values()} == {True, None}


def test_the_cpu_passes_what_needs_no_streams(tmp_path: Path) -> None:
    status, report, said = run(tmp_path / "report.json", "--device", "cpu", "--quick", timeout=100)
    assert status == 0, said
    assert report["checks"]["equality"]["exact"] > 30
    assert report["checks"]["races"]["clips"] == 160
    assert [name for name, check in report["checks"].items() if "skipped" in check] == ["timeline"]


def test_it_fails_where_something_else_arrives(gpu_check: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def corrupting(transfer: PlainTransfer, host: torch.Tensor, work: Any) -> Any:
        host[101] ^= 1
        return work(host), None

    monkeypatch.setattr(PlainTransfer, "send", corrupting)
    report = gpu_check.check_all("cpu", quick=True)
    assert not report["passed"]
    assert report["checks"]["equality"]["wrong"]
    assert report["checks"]["races"]["wrong"]


def test_the_calls_of_cuda_have_the_names_and_arguments_that_torch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = create_autospec(torch.cuda)
    monkeypatch.setattr(torch, "cuda", cuda)
    calls = _Cuda(torch.device("cpu"))
    stream = calls.new_stream()
    cuda.Stream.assert_called_once_with(calls.device)
    host = torch.arange(3)
    [sent] = calls.launch(stream, host, lambda copy: [copy + cuda.stream.call_count])
    assert sent.tolist() == [1, 2, 3]  # done in the stream
    cuda.stream.assert_called_once_with(stream)
    event = calls.record(stream)
    event.record.assert_called_once_with(stream)
    event.synchronize()
    calls.wait(stream, event)
    stream.wait_event.assert_called_once_with(event)
    tensor = create_autospec(torch.Tensor, instance=True)
    calls.keep(tensor, stream)
    tensor.record_stream.assert_called_once_with(stream)
    assert calls.current_stream() is cuda.current_stream.return_value
    calls.adopt(tensor)
    cuda.current_stream.return_value.wait_stream.assert_called_once_with(cuda.default_stream.return_value)


def test_every_call_of_cuda_is_in_the_list_of_the_documentation() -> None:
    page = (SCRIPT.parents[1] / "docs" / "devices.md").read_text("utf-8")
    source = (SCRIPT.parents[1] / "aioaudio" / "device.py").read_text("utf-8")
    used = {name for name in vars(_Cuda) if not name.startswith("_")}
    assert {name for name in used if f"`{name}`" not in page} == set()
    for folder in ("batch", "decode", "workers"):
        for module in (SCRIPT.parents[1] / "aioaudio" / folder).rglob("*.py"):
            assert "torch.cuda" not in module.read_text("utf-8"), module
    assert "torch.cuda" in source
