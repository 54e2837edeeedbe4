"""How many CPUs are this process's: affinity, cgroups, ranks and DataLoader workers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aioaudio.workers import available_cpus, cpus, default_decode_threads
from aioaudio.workers.cpus import cgroup_quota


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/user/job\n",
                "sys/fs/cgroup/user/job/cpu.max": "max 100000\n",
                "sys/fs/cgroup/user/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/cpu.max": "400000 100000\n",
            },
            2,
        ),
        ({"proc/self/cgroup": "0::/of/the/host\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3),
        (
            {
                "proc/self/cgroup": "4:memory:/\n2:cpu,cpuacct:/docker/ab\n1:name=systemd:/\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            0.5,
        ),
        (
            {
                "proc/self/cgroup": "2:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1 0"}, None),
    ],
)
def test_the_least_quota_counts(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    assert cgroup_quota(tree(tmp_path, files)) == quota


@pytest.mark.parametrize(("quota", "expected"), [(None, 6), (0.1, 1), (1.5, 2), (4, 4), (99, 6)])
def test_affinity_and_quota_bound_the_cpus(monkeypatch: pytest.MonkeyPatch, quota: float | None, expected: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(cpus, "_QUOTA", quota)
    assert available_cpus() == expected


@pytest.mark.parametrize(
    ("ranks", "expected"), [(None, 12), ("1", 12), ("4", 3), ("5", 2), ("100", 1), ("0", 12), ("many", 12)]
)
def test_ranks_share_the_cpus(monkeypatch: pytest.MonkeyPatch, ranks: str | None, expected: int) -> None:
    monkeypatch.setattr(cpus, "available_cpus", lambda: 12)
    if ranks is None:
        monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    else:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert default_decode_threads() == expected


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_dataloader_workers_share_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("torch.utils.data")
    monkeypatch.setattr(cpus, "available_cpus", lambda: 12)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)

    class Threads(data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            return default_decode_threads()

    loader = data.DataLoader(Threads(), num_workers=3, multiprocessing_context="fork")
    assert [int(threads) for threads in loader] == [4, 4, 4]
    assert default_decode_threads() == 12
