"""How many CPUs this process may use, and how many of them are its share."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["available_cpus", "cgroup_quota", "default_decode_threads"]


def available_cpus() -> int:
    """CPUs that this process may use, at least 1: its affinity now, and the quotas that its cgroups had at the start.

    A quota of one and a half CPUs counts as two.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cpus, math.ceil(_QUOTA)) if _QUOTA is not None else cpus)


def default_decode_threads() -> int:
    """This process's share of the available CPUs, at least 1.

    They are shared with the other ranks that torchrun starts on this machine (`LOCAL_WORLD_SIZE`) and, inside a
    DataLoader worker, with its siblings.
    """
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    num_ranks = int(ranks) if ranks.isdecimal() else 1
    return max(1, available_cpus() // max(1, num_ranks) // _num_dataloader_workers())


def _num_dataloader_workers() -> int:
    # Only a process that has imported torch can be a DataLoader worker.
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data else None
    return worker.num_workers if worker else 1


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """The least CPU quota of this process's cgroups (v1 and v2) and of all above them, in CPUs; None without any.

    `root` is where `proc` and `sys` are found.
    """
    return min(_quotas(root), default=None)


def _quotas(root: Path) -> Iterator[float]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / controllers
        # Inside a container the path may be the host's; then only the mount's own files exist here.
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            folder = mount / group.relative_to("/")
            quota = _quota_v1(folder) if controllers else _quota_v2(folder)
            if quota is not None:
                yield quota


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # ValueError: "max", which is no quota
        return None


# Read once, so that no event loop ever waits for it.
_QUOTA = cgroup_quota()
