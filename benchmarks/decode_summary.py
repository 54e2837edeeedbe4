"""What `decode.py` says: figures and targets from the rounds of its cases. What was not measured is left out."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from decode_cases import (
    AHEAD,
    ALONE,
    BUSY,
    CLIPS,
    CONTROL,
    KERNEL_OF_1,
    KERNEL_OF_8,
    KINDS,
    MIDDLE,
    NOBODY,
    ONE_SECOND,
    OURS,
    RATES,
    SHORT,
    Clip,
    busy_name,
    loads_name,
    short_name,
    threads_name,
    with_threads,
)
from harness import Grid, Rounds, Target
from peers import Peer

__all__ = ["control_notes", "summarize"]

Results = Mapping[str, Rounds]
Findings = tuple[list[Grid], list[Target]]


def summarize(results: Results, peers: Sequence[Peer]) -> Findings:
    """The grids and the targets."""
    titles = [OURS, *(peer.title for peer in peers)]
    ffmpeg_titles = [peer.title for peer in peers if peer.uses_ffmpeg]
    found = [
        *(_cpu(results, titles, ffmpeg_titles, rate, kind) for rate, kind in product(RATES, KINDS)),
        *(_two_threads(results, titles, rate) for rate in RATES),
        *(_busy(results, titles, kind) for kind in KINDS),
        _short(results, titles),
        _threads(results, titles),
    ]
    grids = [grid for some, _ in found for grid in some if grid.rows]
    return grids, [target for _, some in found for target in some]


def control_notes(results: Results) -> list[str]:
    """What two threads do of what is no audio."""
    if CONTROL not in results:
        return []
    ratios = results[CONTROL].ratios(with_threads(CONTROL, 2), with_threads(CONTROL, 1), "per_second")
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return [f"in this run two threads hash {ratio} times as fast as one: no decoder can be expected to do better"]


def _cpu(results: Results, titles: Sequence[str], ffmpeg_titles: Sequence[str], rate: str, kind: str) -> Findings:
    grid = Grid(f"CPU of a load from {kind}, {rate}, one thread", "ms", remark_title="aioaudio ÷ best with FFmpeg")
    targets = []
    for clip, rounds in _measured(results, CLIPS, lambda clip: loads_name(clip, rate, kind)):
        grid.rows[str(clip)] = row = {
            title: rounds.median(with_threads(title, 1), "cpu_us") / 1e3
            for title in titles
            if with_threads(title, 1) in rounds
        }
        rivals = [title for title in ffmpeg_titles if title in row]
        if rivals:
            best = min(rivals, key=row.__getitem__)
            ratios = rounds.ratios(with_threads(OURS, 1), with_threads(best, 1), "cpu_us")
            targets.append(Target(f"{clip} from {kind}, {rate}: CPU ÷ {best}", ratios, 1.05))
            grid.remarks[str(clip)] = f"{targets[-1].median:.2f}"
    return [grid], targets


def _two_threads(results: Results, titles: Sequence[str], rate: str) -> Findings:
    grid = Grid(f"Loads a second by path, {rate}", "1/s", remark_title="aioaudio, 2 threads ÷ 1")
    targets = []
    for clip, rounds in _measured(results, MIDDLE, lambda clip: loads_name(clip, rate, "path")):
        for n in (1, 2):
            grid.rows[with_threads(str(clip), n)] = {
                title: rounds.median(with_threads(title, n), "per_second")
                for title in titles
                if with_threads(title, n) in rounds
            }
        ratios = rounds.ratios(with_threads(OURS, 2), with_threads(OURS, 1), "per_second")
        targets.append(Target(f"{clip}, {rate}: 2 threads ÷ 1", ratios, 1.7, least=True))
        grid.remarks[with_threads(str(clip), 2)] = f"{targets[-1].median:.2f}"
    return [grid], targets


def _busy(results: Results, titles: Sequence[str], kind: str) -> Findings:
    grid = Grid(f"Loads a second from {kind}, 16 kHz mono, beside a busy main thread", "1/s")
    grid.remark_title = "aioaudio ÷ SPDL"
    pace = Grid(f"The pace of that main thread, from {kind}", "% of its pace alone")
    targets = []
    for clip, rounds in _measured(results, BUSY, lambda clip: busy_name(clip, kind)):
        present = [title for title in (OURS, AHEAD, *titles[1:]) if title in rounds]
        grid.rows[str(clip)] = {title: rounds.median(title, "per_second") for title in present}
        alone = rounds.median(NOBODY, "python")
        pace.rows[str(clip)] = {title: 100 * rounds.median(title, "python") / alone for title in present}
        if "SPDL" in rounds:
            ratios = rounds.ratios(OURS, "SPDL", "per_second")
            what = f"{clip} from {kind}, beside busy Python: rate ÷ SPDL"
            targets.append(Target(what, ratios, 2 if kind == "path" else 1, least=True))
            grid.remarks[str(clip)] = f"{targets[-1].median:.2f}"
    return [grid, pace], targets


def _short(results: Results, titles: Sequence[str]) -> Findings:
    grid = Grid("CPU of a load of a short clip", "µs", remark_title="added in a gather, one by one")
    targets = []
    for kind in KINDS:
        for clip, rounds in _measured(results, SHORT, lambda clip, kind=kind: short_name(clip, kind)):  # type: ignore[misc]
            name = f"{clip} from {kind}"
            present = [title for title in (OURS, KERNEL_OF_8, ALONE, KERNEL_OF_1, *titles[1:]) if title in rounds]
            grid.rows[name] = {title: rounds.median(title, "cpu_us") for title in present}
            added = _added(rounds, name, 100 if clip.codec == "flac" else 60)
            grid.remarks[name] = ", ".join(f"{target.median:.0f}" for target in added)
            targets += _one_second(rounds, name, kind) if clip is ONE_SECOND else added
    return [grid], targets


def _added(rounds: Rounds, name: str, limit: float) -> list[Target]:
    """What a load costs beyond its kernel in a plain loop."""
    in_a_gather = rounds.differences(OURS, KERNEL_OF_8, "cpu_us")
    one_by_one = rounds.differences(ALONE, KERNEL_OF_1, "cpu_us")
    return [
        Target(f"{name}: added in a gather", in_a_gather, limit, unit="µs"),
        Target(f"{name}: added one by one", one_by_one, limit, unit="µs"),
    ]


def _one_second(rounds: Rounds, name: str, kind: str) -> list[Target]:
    targets = []
    if "soundfile" in rounds and kind == "bytes":
        targets.append(Target(f"{name}, 16 kHz: CPU ÷ soundfile", rounds.ratios(OURS, "soundfile", "cpu_us"), 1))
    if "SPDL" in rounds:
        ratios = rounds.ratios("SPDL", OURS, "cpu_us")
        targets.append(Target(f"{name}, 16 kHz: CPU of SPDL's load_audio ÷ ours", ratios, 5, least=True))
    return targets


def _threads(results: Results, titles: Sequence[str]) -> Findings:
    grid = Grid("OS threads that Python did not start, while two threads load", "most at once")
    targets = []
    for clip, rounds in _measured(results, MIDDLE, threads_name):
        grid.rows[str(clip)] = {title: rounds.median(title, "threads") for title in titles if title in rounds}
        targets.append(Target(f"{clip}: threads of FFmpeg", rounds.values(OURS, "threads"), 0))
    return [grid], targets


def _measured(results: Results, clips: Sequence[Clip], name_of: Callable[[Clip], str]) -> Iterator[tuple[Clip, Rounds]]:
    return ((clip, results[name_of(clip)]) for clip in clips if name_of(clip) in results)
