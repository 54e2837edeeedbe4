"""What this machine and its libraries are, in a form to paste into a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

import av
import torch

from aioaudio.workers import available_cpus, default_decode_threads

__all__ = ["doctor"]

_COMMON_CODECS = ("aac", "ac3", "alac", "amrnb", "flac", "mp3", "opus", "vorbis", "wavpack", "wmav2")


def doctor() -> str:
    """Describe the installation: versions, codecs, threads, devices, and what looks wrong. Several lines of text."""
    sections = {
        "versions": _versions(),
        "codecs": _codecs(),
        "threads": _threads(),
        "devices": _devices(),
    }
    lines = [f"{title:9}{line}" for title, found in sections.items() for title, line in _titled(title, found)]
    return "\n".join(["aioaudio doctor", *lines, *(f"WARNING  {warning}" for warning in _warnings())])


def _titled(title: str, lines: list[str]) -> list[tuple[str, str]]:
    return [(title if i == 0 else "", line) for i, line in enumerate(lines)]


def _versions() -> list[str]:
    libraries = ", ".join(f"{name} {'.'.join(map(str, version))}" for name, version in av.library_versions.items())
    packages = ("aioaudio", "av", "torch", "numpy", "aiofiles", "aiohttp", "uvloop")
    return [
        ", ".join(f"{name} {_version(name)}" for name in packages),
        f"Python {platform.python_version()} ({platform.python_implementation()}), {platform.platform()}",
        f"FFmpeg: {libraries}",
    ]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _codecs() -> list[str]:
    missing = [codec for codec in _COMMON_CODECS if codec not in av.codecs_available]
    return ["all common decoders" if not missing else f"no decoder for {', '.join(missing)}"]


def _threads() -> list[str]:
    switch_interval = sys.getswitchinterval() * 1000
    return [
        f"{available_cpus()} CPUs for this process (of {os.cpu_count()}), LOCAL_WORLD_SIZE="
        f"{os.environ.get('LOCAL_WORLD_SIZE', 'unset')}",
        f"{default_decode_threads()} decode threads by default; torch computes with {torch.get_num_threads()}; "
        f"GIL switch interval {switch_interval:g} ms",
    ]


def _devices() -> list[str]:
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [", ".join(devices) or "CPU only"]


def _warnings() -> list[str]:
    warnings = []
    busy, cpus = default_decode_threads() + torch.get_num_threads(), available_cpus()
    world_size = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    if world_size > 1 and torch.get_num_threads() * world_size > cpus:
        warnings.append(
            f"{world_size} ranks of {torch.get_num_threads()} torch threads each share {cpus} CPUs: "
            "set OMP_NUM_THREADS or torch.set_num_threads"
        )
    elif busy > 2 * cpus:
        warnings.append(f"{busy} threads compute on {cpus} CPUs: lower torch.set_num_threads or decode_threads")
    return warnings
