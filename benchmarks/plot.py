"""The picture of a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness import Grid

__all__ = ["draw"]


def draw(title: str, grids: Sequence[Grid], file: Path) -> None:
    """A panel for each grid: a line for each row, a dot for each contender, on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    names = list(dict.fromkeys(name for grid in grids for row in grid.rows.values() for name in row))
    colours = dict(zip(names, mpl.color_sequences["tab20"], strict=False))
    num_rows = -(-len(grids) // 2)
    heights = [1.2 + 0.22 * max(len(grid.rows) for grid in grids[2 * i : 2 * i + 2]) for i in range(num_rows)]
    figure, panels = plt.subplots(
        num_rows, 2, figsize=(16, sum(heights) + 0.5), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for axes in panels.flat[len(grids) :]:
        axes.remove()
    for axes, grid in zip(panels.flat, grids, strict=False):
        axes.set_title(f"{grid.title}, {grid.unit}", loc="left", fontsize=10)
        for name in names:
            dots = [(row[name], y) for y, row in enumerate(grid.rows.values()) if row.get(name, 0) > 0]
            if dots:
                ours = {"s": 48, "marker": "D", "zorder": 3} if name.startswith("aioaudio") else {"s": 26, "zorder": 2}
                axes.scatter(*zip(*dots, strict=True), label=name, color=colours[name], **ours)
        axes.set_yticks(range(len(grid.rows)), list(grid.rows), fontsize=8)
        axes.set_ylim(len(grid.rows) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.3)
        if axes.collections:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=9)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=100)
    plt.close(figure)
