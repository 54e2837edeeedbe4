"""The documentation is true: its code runs and prints what it shows, its links lead somewhere, its tables are right."""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import av
import pytest
from media import DATA, KINDS

import aioaudio
from aioaudio import errors
from aioaudio.decode.mix import mix_matrix
from aioaudio.options import DTYPES, SAMPLE_FORMATS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Where first-steps.md tells its readers to serve the folder, for those of its pages that load URLs.
SITE = "http://127.0.0.1:8000"

LAYOUTS = ["3.0", "4.0", "quad", "5.0", "5.1", "6.1", "7.1"]


class Example(NamedTuple):
    """A fence of Python: its code with line numbers of the page, and what the text fence after it shows, if any."""

    line: int
    code: str
    shown: str | None


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def examples(page: Path) -> list[Example]:
    text = page.read_text("utf-8")
    fences = [(match[1], match[2], text.count("\n", 0, match.start(2))) for match in FENCE.finditer(text)]
    return [
        Example(line + 1, "\n" * line + body, shown if next_language == "text" else None)
        for (language, body, line), (next_language, shown, _) in pairwise([*fences, ("", "", 0)])
        if language == "python"
    ]


def code_of(text: str) -> str:
    """All that stands in fences and between backticks."""
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    return "\n".join([*spans, *(match[2] for match in FENCE.finditer(text))])


def run(example: Example, page: Path, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    """Run it as a REPL would: on the page's event loop where it awaits outside a function, without a loop elsewhere."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(example.code, str(page), "exec", flags=flags, dont_inherit=True)
    result = eval(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(result)


def assert_shows(printed: str, shown: str, where: str) -> None:
    """`...` in what is shown stands for anything in one line."""
    pattern = re.escape(shown).replace(r"\.\.\.", r"[^\n]*")
    assert re.fullmatch(pattern, printed), f"{where} shows\n{shown}\nbut prints\n{printed}"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the pages use: the copies that first-steps.md tells its readers to make."""
    for source, name in re.findall(r"^cp (tests/data/\S+) (\S+)$", read("first-steps.md"), re.MULTILINE):
        shutil.copy(ROOT / source, tmp_path / name)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(DATA)
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("libav")
    level = logger.level
    yield tmp_path
    logger.setLevel(level)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/radio":
            self.play()
        else:
            super().do_GET()

    def play(self) -> None:
        """What a station sends, with a title behind each 16000 bytes."""
        self.send_response(200)
        for header in ("Content-Type: audio/mpeg", "icy-name: Radio Loopback", "icy-metaint: 16000"):
            self.send_header(*header.split(": "))
        self.end_headers()
        data = Path(self.directory, "talk.mp3").read_bytes()
        for number, start in enumerate(range(0, len(data), 16_000)):
            self.wfile.write(data[start : start + 16_000])
            self.wfile.write(b"\x02" + f"StreamTitle='It's song {number}';".encode().ljust(32, b"\0"))


@pytest.fixture
def site(workplace: Path) -> Iterator[str]:
    """The address of a server of the workplace."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(workplace))) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_runs_and_prints_what_is_shown(
    page: Path, workplace: Path, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner(debug=True) as runner:
        for example in examples(page):
            run(example._replace(code=example.code.replace(SITE, site)), page, namespace, runner)
            printed = capsys.readouterr().out.replace(site, SITE)
            if example.shown is not None:
                assert_shows(printed, example.shown, f"{page.name}:{example.line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_fence_escapes_the_test(page: Path) -> None:
    opened = re.findall(r"^ *(?:```|~~~)(\w+)", page.read_text("utf-8"), re.MULTILINE)
    assert set(opened) <= {"python", "text", "sh", "console"}
    assert opened.count("python") == len(examples(page))
    assert opened.count("text") == sum(example.shown is not None for example in examples(page))


def anchors(page: Path) -> set[str]:
    """The anchors that a code host makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text("utf-8")))
    for path, _, anchor in (link.partition("#") for link in links if "://" not in link):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", read("index.md")))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}


def test_every_public_name_and_option_is_documented() -> None:
    code = "\n".join(code_of(page.read_text("utf-8")) for page in (ROOT / "docs").glob("*.md"))
    operations: list[Callable[..., object]] = [aioaudio.load, aioaudio.info, aioaudio.fetch, aioaudio.decode]
    operations += [aioaudio.load_many, aioaudio.batches, aioaudio.open, aioaudio.Session, aioaudio.HTTPOptions]
    options = {name for operation in operations for name in inspect.signature(operation).parameters}
    names = (set(aioaudio.__all__) | options) - {"source"}
    assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set()


def test_the_tree_of_errors_is_the_one_of_the_module() -> None:
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    assert inspect.cleandoc(tree) in read("damage.md")


def rows(page: str, first_cell: str) -> list[list[str]]:
    """The body of the table whose heading begins with `first_cell`."""
    table = re.search(rf"^\| {re.escape(first_cell)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", read(page), re.MULTILINE)
    assert table is not None, first_cell
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


@pytest.mark.parametrize(("heading", "num_channels"), [("to mono from", 1), ("to left from", 2)])
def test_the_downmix_table_is_the_matrix(heading: str, num_channels: int) -> None:
    columns = re.search(rf"^\| {heading} \|(.*)\|$", read("timeline-and-ranges.md"), re.MULTILINE)
    assert columns is not None
    names = [name.strip() for name in columns[1].split("|")]
    printed = {
        row[0]: {n: float(cell) for n, cell in zip(names, row[1:], strict=True) if cell}
        for row in rows("timeline-and-ranges.md", heading)
    }
    assert list(printed) == LAYOUTS
    for layout, gains in printed.items():
        channels = [channel.name for channel in av.AudioLayout(layout).channels]
        matrix = mix_matrix(len(channels), layout, num_channels)
        assert set(gains) == set(channels), layout
        assert [gains[name] for name in channels] == pytest.approx(matrix[0], abs=5e-5), layout
        mirrored = [
            channels.index(name.translate(str.maketrans("LR", "RL")) if name != "LFE" else name) for name in channels
        ]
        assert matrix[-1] == pytest.approx([matrix[0][i] for i in mirrored]), layout


def test_sides_have_the_gains_of_backs() -> None:
    for layout in ("5.0", "5.1"):
        for num_channels in (1, 2):
            backs = mix_matrix(int(layout[0]) + int(layout[2]), layout, num_channels)
            assert mix_matrix(len(backs[0]), f"{layout}(side)", num_channels) == backs


def test_every_kind_of_file_that_the_tests_make_is_listed() -> None:
    listed = "".join(row[0] for row in rows("sources-and-formats.md", "container"))
    assert {kind.suffix for kind in KINDS.values()} <= set(re.findall(r"`(\.\w+)`", listed))


def test_every_dtype_and_pcm_format_is_listed() -> None:
    dtypes = {name for row in rows("timeline-and-ranges.md", "`dtype`") for name in re.findall(r"`([\w.]+)`", row[0])}
    assert dtypes == {str(dtype) for dtype in DTYPES}
    assert set(SAMPLE_FORMATS) <= set(code_of(read("sources-and-formats.md")).split())


def test_every_module_that_is_named_exists() -> None:
    cells = "".join(row[1] for row in rows("how-it-works.md", "stage"))
    modules = re.findall(r"`([\w/.]+)`", cells)
    assert len(modules) > 10
    assert [module for module in modules if not (ROOT / "aioaudio" / module).exists()] == []
