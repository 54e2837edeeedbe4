"""What all benchmarks share: rounds in which everybody takes a turn, the figures that come of them, and the report.

A case puts one question to several contenders. In each round all of them take a turn, in an order that changes, so that
whatever else the machine does falls on all alike. Figures are medians over the rounds; comparisons are medians of what
was compared within each round. The first round only warms up.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from plot import draw

import aioaudio

__all__ = [
    "Case",
    "Grid",
    "Report",
    "Rounds",
    "Stopwatch",
    "Target",
    "Turn",
    "order_of_turns",
    "parse_arguments",
    "print_cases",
    "publish",
    "run_cases",
    "run_program",
]

RESULTS = Path(__file__).resolve().parent / "results"

# Beyond this load average somebody else is at work.
BUSY_LOAD = 1.5

#: What a contender measured in one turn, by the name of the quantity.
Turn = Mapping[str, float]
Contender = Callable[[], Turn]


@dataclass(frozen=True)
class Case:
    """One question. `prepare` gives the contenders by name; it is called, untimed, just before their first turns."""

    name: str
    prepare: Callable[[], Mapping[str, Contender]]


class Stopwatch:
    """Seconds on the clock, and seconds of CPU of the whole process, between entering and leaving."""

    def __enter__(self) -> Stopwatch:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = self.wall + time.perf_counter(), self.cpu + time.process_time()

    def turn(self, count: int) -> Turn:
        """The turn in which so many things were done."""
        return {"cpu_us": 1e6 * self.cpu / count, "wall_us": 1e6 * self.wall / count, "per_second": count / self.wall}


@dataclass(frozen=True)
class Rounds:
    """The turns of a case: `turns[contender][round]`."""

    turns: Mapping[str, Sequence[Turn]]

    def __contains__(self, name: str) -> bool:
        return name in self.turns

    def values(self, name: str, quantity: str) -> list[float]:
        return [turn[quantity] for turn in self.turns[name]]

    def median(self, name: str, quantity: str) -> float:
        return statistics.median(self.values(name, quantity))

    def ratios(self, name: str, to: str, quantity: str) -> list[float]:
        """`name` divided by `to`, round by round."""
        pairs = zip(self.values(name, quantity), self.values(to, quantity), strict=True)
        return [a / b if b else float("inf") for a, b in pairs]

    def differences(self, name: str, to: str, quantity: str) -> list[float]:
        """`name` less `to`, round by round."""
        return [a - b for a, b in zip(self.values(name, quantity), self.values(to, quantity), strict=True)]


@dataclass
class Grid:
    """A table of figures: a row for each case, a column for each contender, and remarks beside them."""

    title: str
    unit: str
    rows: dict[str, dict[str, float]] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    remark_title: str = ""

    def cells(self) -> list[list[str]]:
        columns = list(dict.fromkeys(name for row in self.rows.values() for name in row))
        table = [["", *columns, *([self.remark_title] if self.remark_title else [])]]
        for name, row in self.rows.items():
            figures = [_number(row[column]) if column in row else "–" for column in columns]
            table.append([name, *figures, *([self.remarks.get(name, "")] if self.remark_title else [])])
        return table


@dataclass(frozen=True)
class Target:
    """Something to aim at. `values` are the rounds, `limit` bounds their median: from above, or with `least` below."""

    what: str
    values: Sequence[float]
    limit: float
    least: bool = False
    unit: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        return self.median >= self.limit if self.least else self.median <= self.limit

    def cells(self) -> list[str]:
        spread = f"{_number(self.median)} ({_number(min(self.values))} to {_number(max(self.values))})"
        bound = f"{'≥' if self.least else '≤'} {_number(self.limit)}"
        return [self.what, f"{spread} {self.unit}".strip(), f"{bound} {self.unit}".strip(), "yes" if self.met else "no"]


@dataclass
class Report:
    """All that one run of a program has to say."""

    program: str
    is_quick: bool
    num_rounds: int
    contenders: Mapping[str, str]
    absent: Mapping[str, str]
    results: Mapping[str, Rounds]
    notes: Sequence[str]
    grids: Sequence[Grid]
    targets: Sequence[Target]
    load_before: float
    date: str = field(default_factory=lambda: datetime.datetime.now().astimezone().date().isoformat())
    load_after: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def machine(self) -> str:
        cpus = len(os.sched_getaffinity(0))
        return f"{_cpu_model()}, {cpus} CPUs, {platform.system()}, Python {platform.python_version()}"

    def remarks(self) -> list[str]:
        """What to know before reading the figures."""
        versions = ", ".join(f"{name} {version}" for name, version in self.contenders.items())
        lines = [
            f"{self.date}, {self.machine}.",
            f"Rounds: {self.num_rounds}. Load average {self.load_before:.1f} before and {self.load_after:.1f} after.",
            f"Contenders: {versions}." + "".join(f" Absent: {name} ({why})." for name, why in self.absent.items()),
        ]
        if self.is_quick:
            lines.insert(0, "**From a run with `--quick`, which only shows that the program works: no measurement.**")
        return lines


def parse_arguments(description: str | None, program: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short turns and one round: does it work?")
    parser.add_argument("--repeat", type=int, metavar="N", help="rounds that count (default: 5; 1 with --quick)")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="cases with one of these in their names")
    parser.add_argument("--list", action="store_true", help="print the cases and the contenders, and measure nothing")
    parser.add_argument(
        "--json", type=Path, default=RESULTS / f"{program}.json", metavar="FILE", help="(default: %(default)s)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures; needs matplotlib")
    parser.add_argument(
        "--docs", type=Path, metavar="FILE", help=f"paste the tables into this page, between its {program}.py markers"
    )
    parser.set_defaults(program=program, load_before=os.getloadavg()[0])
    arguments = parser.parse_args()
    arguments.repeat = arguments.repeat or (1 if arguments.quick else 5)
    return arguments


def run_program(
    arguments: argparse.Namespace,
    cases: Iterable[Case],
    contenders: Mapping[str, str],
    summarize: Callable[[dict[str, Rounds]], tuple[Sequence[Grid], Sequence[Target]]],
    *,
    absent: Mapping[str, str] | None = None,
    notes: Callable[[dict[str, Rounds]], Sequence[str]] = lambda _: (),
) -> None:
    """What a program's arguments ask for: list its cases, or measure them and publish what came out."""
    absent = absent or {}
    if arguments.list:
        print_cases(cases, arguments.only, contenders, absent)
        return
    results = run_cases(cases, arguments.only, arguments.repeat)
    grids, targets = summarize(results)
    report = Report(
        program=arguments.program,
        is_quick=arguments.quick,
        num_rounds=arguments.repeat,
        contenders=contenders,
        absent=absent,
        results=results,
        notes=notes(results),
        grids=grids,
        targets=targets,
        load_before=arguments.load_before,
    )
    publish(report, arguments)


def print_cases(
    cases: Iterable[Case], only: Sequence[str], contenders: Mapping[str, str], absent: Mapping[str, str]
) -> None:
    """What `--list` prints."""
    for case in _chosen(cases, only):
        print(case.name)
    print("\ncontenders: " + ", ".join(f"{name} {version}" for name, version in contenders.items()))
    for name, why in absent.items():
        print(f"absent: {name} ({why})")


def _chosen(cases: Iterable[Case], only: Sequence[str]) -> list[Case]:
    return [case for case in cases if not only or any(text in case.name for text in only)]


def run_cases(cases: Iterable[Case], only: Sequence[str], num_rounds: int) -> dict[str, Rounds]:
    """Measure the cases whose names contain one of `only`, or all."""
    _warn_if_busy()
    chosen = _chosen(cases, only)
    results = {}
    for i, case in enumerate(chosen, 1):
        started = time.perf_counter()
        results[case.name] = _run_case(case, num_rounds)
        print(f"[{i}/{len(chosen)}] {case.name}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    _warn_if_busy()
    return results


def _run_case(case: Case, num_rounds: int) -> Rounds:
    contenders = case.prepare()
    turns: dict[str, list[Turn]] = {name: [] for name in contenders}
    for index in range(num_rounds + 1):
        for name in order_of_turns(list(contenders), index):
            turns[name].append(contenders[name]())
    return Rounds({name: taken[1:] for name, taken in turns.items()})


def order_of_turns(names: list[str], index: int) -> list[str]:
    """Who comes after whom in a round: everybody is first at times, and has different neighbours."""
    start = index // 2 % len(names)
    return (names[start:] + names[:start])[:: -1 if index % 2 else 1]


def _warn_if_busy() -> None:
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(f"WARNING: the load average is {load:.1f}; this machine is busy, and the figures are unreliable")


def publish(report: Report, arguments: argparse.Namespace) -> None:
    """Print the report, write it as JSON, and draw it and paste it into a page where the arguments ask for that."""
    print("\n".join(line.replace("**", "") for line in report.remarks()))
    for grid in report.grids:
        print(f"\n{grid.title}, {grid.unit}")
        _print_cells(grid.cells())
    if report.targets:
        print("\nTargets: median over the rounds (least to most)")
        _print_cells(_target_cells(report.targets))
    if report.notes:
        print("\n" + "\n".join(f"note: {note}" for note in report.notes))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(_as_json(report), indent=1) + "\n", "utf-8")
    print(f"\nwrote {os.path.relpath(arguments.json)}")
    if arguments.plot is not None:
        title = "\n".join(report.remarks()[:-1]).replace("**", "").replace("`", "")
        draw(title, report.grids, arguments.plot)
        print(f"wrote {os.path.relpath(arguments.plot)}")
    if arguments.docs is not None:
        _paste(report, arguments.docs)
        print(f"wrote {os.path.relpath(arguments.docs)}")


def _target_cells(targets: Sequence[Target]) -> list[list[str]]:
    return [["", "measured", "target", "met"], *(target.cells() for target in targets)]


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 or value == 0 else f"{value:#.3g}"


def _print_cells(table: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        print("  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip())


def _as_json(report: Report) -> dict[str, object]:
    targets = [{**asdict(target), "median": target.median, "met": target.met} for target in report.targets]
    return {
        "program": report.program,
        "date": report.date,
        "machine": report.machine,
        "doctor": aioaudio.doctor(),
        "quick": report.is_quick,
        "rounds": report.num_rounds,
        "load_average": [report.load_before, report.load_after],
        "contenders": dict(report.contenders),
        "absent": dict(report.absent),
        "notes": list(report.notes),
        "targets": targets,
        "cases": {name: dict(rounds.turns) for name, rounds in report.results.items()},
    }


def _paste(report: Report, page: Path) -> None:
    """Replace what stands between the markers of the program in a Markdown page."""
    first, last = f"<!-- {report.program}.py -->", f"<!-- end of {report.program}.py -->"
    parts = [" ".join(report.remarks())]
    parts += [f"**{grid.title}**, {grid.unit}\n\n{_markdown(grid.cells())}" for grid in report.grids]
    missed = [target for target in report.targets if not target.met]
    if report.targets:
        parts.append(f"**Targets**: {len(report.targets) - len(missed)} of {len(report.targets)} are met.")
    if missed:
        parts[-1] += " These are missed: median over the rounds (least to most)."
        parts.append(_markdown(_target_cells(missed)))
    if report.notes:
        parts.append("**Notes**\n\n" + "\n".join(f"- {note}" for note in report.notes))
    text = page.read_text("utf-8")
    pattern = re.compile(re.escape(first) + ".*?" + re.escape(last), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{page} has no {first} … {last}")
    block = "\n\n".join([first, *parts, last])
    page.write_text(pattern.sub(lambda _: block, text), "utf-8")


def _markdown(table: list[list[str]]) -> str:
    head, *rows = table
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])


def _cpu_model() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        if found:
            return found[1]
    return platform.machine()
