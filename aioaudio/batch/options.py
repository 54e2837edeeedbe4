"""What can be asked of batches: checked at once, before any work. Frozen, passed down unchanged."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from aioaudio.audio import as_int, as_number
from aioaudio.batch.collate import Collate
from aioaudio.batch.crop import Short
from aioaudio.batch.failures import OnError
from aioaudio.batch.manifest import Manifest
from aioaudio.batch.order import is_indexable
from aioaudio.fetch import is_url

__all__ = ["BatchOptions", "FlowOptions", "OrderOptions", "ResultOrder", "Uneven", "checked_clips", "resolve_shard"]

ResultOrder = Literal["input", "completion"]
Uneven = Literal["allow", "drop", "repeat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOptions:
    """How results come; the meaning is documented at `Session.batches`."""

    order: ResultOrder = "input"
    on_error: OnError = "raise"
    max_failures: int | float | None = None
    prefetch: int = 4
    prefetch_bytes: int = 256 << 20
    progress: bool = False
    trace: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        _check_choice("order", self.order, ResultOrder)
        _check_choice("on_error", self.on_error, OnError)
        _take_int(self, "prefetch", 1)
        _take_int(self, "prefetch_bytes", 1)
        _check_bool("progress", self.progress)
        if self.trace is not None and not isinstance(self.trace, str | os.PathLike):
            raise TypeError(f"trace must be a path, not {self.trace!r}")
        if self.max_failures is None:
            return
        if self.on_error == "raise":
            raise ValueError("max_failures needs on_error='skip' or 'return'")
        object.__setattr__(self, "max_failures", as_number("max_failures", self.max_failures))
        if self.max_failures < 0 or (isinstance(self.max_failures, float) and not self.max_failures <= 1):
            raise ValueError(
                f"max_failures must be a count, or a share from 0.0 to 1.0 of the clips, not {self.max_failures!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """Which clips come; the meaning is documented at `Session.batches`."""

    shuffle: bool = False
    shuffle_buffer: int = 10_000
    seed: int = 0
    epoch: int = 0
    epochs: int | None = 1
    shard: tuple[int, int] | Literal["auto"] | None = None
    uneven: Uneven = "allow"

    def __post_init__(self) -> None:
        _check_bool("shuffle", self.shuffle)
        _take_int(self, "shuffle_buffer", 1)
        _take_int(self, "seed", 0)
        _take_int(self, "epoch", 0)
        if self.epochs is not None:
            _take_int(self, "epochs", 1)
        _check_choice("uneven", self.uneven, Uneven)
        resolve_shard(self.shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What a batch is; the meaning is documented at `Session.batches`."""

    batch_size: int | None = None
    batch_seconds: float | None = None
    bucket: int | None = None
    drop_last: bool = False
    collate: Collate = "padded"
    pad_to_multiple: int = 1
    crop_seconds: float | None = None
    crop_short: Short = "keep"

    def __post_init__(self) -> None:
        if self.batch_size is None and self.batch_seconds is None:
            raise ValueError("give batch_size, batch_seconds, or both")
        if self.batch_size is not None:
            _take_int(self, "batch_size", 1)
        if self.bucket is not None:
            _take_int(self, "bucket", 1)
        _check_bool("drop_last", self.drop_last)
        _check_choice("collate", self.collate, Collate)
        _take_int(self, "pad_to_multiple", 1)
        if self.pad_to_multiple > 1 and self.collate != "padded":
            raise ValueError("pad_to_multiple needs collate='padded'")
        _check_choice("crop_short", self.crop_short, Short)
        if self.crop_short != "keep" and self.crop_seconds is None:
            raise ValueError("crop_short needs crop_seconds")
        for name in ("batch_seconds", "crop_seconds"):
            if getattr(self, name) is not None:
                value = as_number(name, getattr(self, name))
                if not (math.isfinite(value) and value > 0):
                    raise ValueError(f"{name} must be finite and positive, not {value!r}")
                object.__setattr__(self, name, value)


def checked_clips(clips: Any, epochs: int | None) -> Any:
    """`clips`, or the `Manifest` that a path names. Raises TypeError and ValueError for what cannot be iterated so."""
    if isinstance(clips, str) and is_url(clips):
        raise ValueError("a manifest must be a local file, not a URL: give a list of sources, also for one")
    if isinstance(clips, str | os.PathLike):
        return Manifest(clips)
    is_source = isinstance(clips, Mapping | bytes | bytearray | memoryview | torch.Tensor) or hasattr(clips, "read")
    if is_source or not (isinstance(clips, Iterable | AsyncIterable) or is_indexable(clips)):
        raise TypeError(
            "clips must be an iterable or async iterable of sources, or the path of a manifest, "
            f"not {type(clips).__name__}" + ": give a list, also for one" * is_source
        )
    if epochs != 1 and isinstance(clips, Iterator | AsyncIterator):
        raise ValueError(f"epochs={epochs} needs clips that can be iterated again, not {type(clips).__name__}")
    return clips


def resolve_shard(shard: Any) -> tuple[int, int]:
    """Rank and world size: as given, or by torch.distributed, or by the environment that torchrun sets."""
    if shard is None:
        return 0, 1
    if shard == "auto":
        return _shard_of_process()
    if not (isinstance(shard, tuple) and len(shard) == 2):
        raise TypeError(f"shard must be (rank, world_size), 'auto' or None, not {shard!r}")
    world_size = _checked_int("the world size of shard", shard[1], 1)
    rank = _checked_int("the rank of shard", shard[0], 0)
    if rank >= world_size:
        raise ValueError(f"the rank of shard must be less than its world size, not {shard!r}")
    return rank, world_size


def _shard_of_process() -> tuple[int, int]:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _check_choice(name: str, value: object, choices: Any) -> None:
    allowed = get_args(choices)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def _take_int(options: object, name: str, minimum: int) -> None:
    """Check an integer of frozen options, and put a plain one in the place of NumPy's and the like."""
    object.__setattr__(options, name, _checked_int(name, getattr(options, name), minimum))


def _checked_int(name: str, value: object, minimum: int) -> int:
    number = as_int(name, value)
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {number}")
    return number
