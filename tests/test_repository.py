"""What stands around the package agrees with it: files, links, versions, commands."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(ROOT.glob("aioaudio/**/*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/data/*.md")])

project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_version_is_the_same_everywhere() -> None:
    version = project["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)[0] == version
    assert version in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    missing = [t for t in targets if "://" not in t and not (page.parent / t.split("#")[0]).exists()]
    assert not missing


def test_the_map_of_the_house_names_every_module() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_/]+(?:\.py|/))`", text))
    packages = {f"{path.parent.name}/" for path in MODULES if path.parent.name != "aioaudio"}
    modules = {path.name for path in MODULES if path.parent.name in ("aioaudio", "decode")} - {"__init__.py"}
    assert packages | modules <= named


def test_every_module_has_a_place_among_the_floors() -> None:
    [floors] = [c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    placed = {name.strip() for layer in floors["layers"] for name in layer.split("|")}
    top = {f"aioaudio.{path.stem}" for path in (ROOT / "aioaudio").glob("*.py") if path.stem != "__init__"}
    top |= {f"aioaudio.{path.parent.name}" for path in (ROOT / "aioaudio").glob("*/__init__.py")}
    assert placed == top


def test_modules_are_small() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {path: count for path, count in lines.items() if count > 350} == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [path.name for path in MODULES if not path.read_text("utf-8").startswith('"""')] == []


def test_the_package_is_typed_and_licensed() -> None:
    assert (ROOT / "aioaudio" / "py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    assert project["project"]["license"] == "Apache-2.0"


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "soak"])
def test_make_knows_its_commands(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_an_old_python_is_refused_with_a_clear_word(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'raise SystemExit(1)'\n")
    old.chmod(0o755)
    command = ["make", "--silent", "check", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode != 0
    assert "Python 3.11" in said.stderr
    assert not (tmp_path / "venv").exists()
