"""What `pipeline.py` says: figures and targets from the rounds of its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from feeders import OURS, OURS_SYNC, Feeder
from harness import Grid, Rounds, Target

__all__ = ["summarize"]

MIB = 1 << 20


def summarize(results: Mapping[str, Rounds], feeders: Sequence[Feeder]) -> tuple[list[Grid], list[Target]]:
    """The grids, a row for each case, and the targets."""
    rate = Grid("Clips a second", "1/s", remark_title="aioaudio ÷ best peer")
    cpu = Grid("CPU of a clip, the consumer's included", "ms")
    num_cpus = Grid("Use of the machine", "CPUs")
    first = Grid("The first batch", "ms", remark_title="aioaudio ÷ best peer")
    memory = Grid("Memory of all processes, at most", "MiB", remark_title="aioaudio ÷ least DataLoader")
    own_memory = Grid("Memory beyond what importing takes", "MiB", remark_title="aioaudio ÷ least DataLoader")
    padding = Grid("Share of padding", "%")
    targets: list[Target] = []
    for name, rounds in results.items():
        present = [feeder for feeder in feeders if feeder.title in rounds]
        titles = [feeder.title for feeder in present]
        rate.rows[name] = {title: rounds.median(title, "per_second") for title in titles}
        cpu.rows[name] = {title: rounds.median(title, "cpu_ms") for title in titles}
        num_cpus.rows[name] = {title: rounds.median(title, "num_cpus") for title in titles}
        first.rows[name] = {title: 1e3 * rounds.median(title, "first_seconds") for title in titles}
        memory.rows[name] = {title: rounds.median(title, "memory_bytes") / MIB for title in titles}
        own_memory.rows[name] = {title: rounds.median(title, "own_memory_bytes") / MIB for title in titles}
        padding.rows[name] = {title: 100 * rounds.median(title, "padding") for title in titles}
        peers = [title for title in titles if title not in (OURS, OURS_SYNC)]
        loaders = [feeder.title for feeder in present if feeder.has_workers]
        if peers:
            best = max(peers, key=rate.rows[name].__getitem__)
            ratios = rounds.ratios(OURS, best, "per_second")
            targets.append(_remarked(rate, name, Target(f"{name}: rate ÷ {best}", ratios, 1.2, least=True)))
            best = min(peers, key=first.rows[name].__getitem__)
            ratios = rounds.ratios(OURS, best, "first_seconds")
            targets.append(_remarked(first, name, Target(f"{name}: first batch ÷ {best}", ratios, 0.5)))
        if loaders:
            best = min(loaders, key=memory.rows[name].__getitem__)
            ratios = rounds.ratios(OURS, best, "memory_bytes")
            targets.append(_remarked(memory, name, Target(f"{name}: memory ÷ {best}", ratios, 0.5)))
            best = min(loaders, key=own_memory.rows[name].__getitem__)
            own_memory.remarks[name] = f"{median(rounds.ratios(OURS, best, 'own_memory_bytes')):.2f}"
        ratios = rounds.ratios(OURS_SYNC, OURS, "per_second")
        targets.append(Target(f"{name}: rate of the sync face ÷ async", ratios, 0.95, least=True))
    return [grid for grid in (rate, cpu, num_cpus, first, memory, own_memory, padding) if grid.rows], targets


def _remarked(grid: Grid, name: str, target: Target) -> Target:
    grid.remarks[name] = f"{target.median:.2f}"
    return target
