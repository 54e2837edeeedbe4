"""From options to a run: every part is made here, and nothing begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aioaudio.batch.agree import Ranks
from aioaudio.batch.failures import FailureLog
from aioaudio.batch.flow import Flow
from aioaudio.batch.grouping import Sizes
from aioaudio.batch.options import FlowOptions, OrderOptions, resolve_shard
from aioaudio.batch.order import Order, Progress, is_indexable
from aioaudio.batch.pipeline import Pipeline
from aioaudio.batch.reporter import Reporter
from aioaudio.batch.room import Room
from aioaudio.batch.run import Run
from aioaudio.batch.statistics import Meter
from aioaudio.batch.trace import Trace
from aioaudio.workers import MAX_GROUP, Workers

__all__ = ["RunPlan"]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that a run is made of but the workers and the loads. `batch_clips` is how many clips a batch has, about."""

    clips: Any
    which: OrderOptions
    flow: FlowOptions
    sizes: Sizes
    batch_clips: int

    def run(self, workers: Callable[[], Workers], make_stages: Callable[[Workers, Mapping[str, Any]], Any]) -> Run[Any]:
        """A run on `workers`, which are asked for as it begins; what is done with the clips is made then, too."""
        which = self.which
        rank, world_size = resolve_shard(which.shard)
        order = Order(which.shuffle, which.shuffle_buffer, which.seed, rank, world_size)
        meter = Meter(None if self.flow.trace is None else Trace(self.flow.trace))
        total = self._num_clips(rank, world_size)
        log = FailureLog(self.flow.max_failures, total)
        reporter = Reporter(meter, log, progress=self.flow.progress, total=total)
        flow = Flow(
            in_order=self.flow.order == "input",
            on_error=self.flow.on_error,
            first_epoch=which.epoch,
            epochs=which.epochs,
            uneven=which.uneven,
        )
        agree = Ranks() if which.uneven != "allow" and world_size > 1 else None

        def make(
            workers: Workers, home: asyncio.AbstractEventLoop | None, start: Progress
        ) -> tuple[Pipeline[Any, Any], Room]:
            input = {"clips": self.clips, "order": order, "meter": meter, "workers": workers, "home": home}
            input["reporter"] = reporter
            room = Room(
                prefetch=self.flow.prefetch,
                bucket=self.sizes.bucket or 0,
                max_bytes=self.flow.prefetch_bytes,
                batch_clips=self.batch_clips,
                is_exact=self.sizes.batch_seconds is None,
                least=workers.decode_threads * 2,  # one to decode, and one that is read meanwhile
                least_clips=workers.decode_threads * MAX_GROUP,
            )
            return Pipeline(make_stages(workers, input), flow, self.sizes, order, log, start, agree), room

        window = {**asdict(self.sizes), "order": self.flow.order}
        return Run(
            make, workers, order, log, meter, Progress(which.epoch), window, None if agree is None else agree.leave
        )

    def _num_clips(self, rank: int, world_size: int) -> int | None:
        if self.which.epochs is None or not is_indexable(self.clips):
            return None
        return len(range(rank, len(self.clips), world_size)) * self.which.epochs
