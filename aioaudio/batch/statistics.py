"""What the stages of a run have done: counts, waiting times, how busy they are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aioaudio.batch.trace import Trace
from aioaudio.loading import Times

__all__ = ["Meter", "StageStatistics"]

# Waiting times that the percentiles are taken of: the latest.
_RECENT = 4096


@dataclass(frozen=True, slots=True)
class StageStatistics:
    """What one stage of a run has done.

    `done` and `failed` are counts. `waited_p50`, `waited_p90` and `waited_p99` are percentiles of the seconds that a
    clip or batch waited before the stage took it; for the consumer, the seconds that it waited for a result. `depth`
    is how many are in the stage or wait for it now. `busy` is the share of the time for which the threads of the stage
    worked for this run, from 0 to 1; for the consumer, the share for which it did not wait.
    """

    done: int
    failed: int
    waited_p50: float
    waited_p90: float
    waited_p99: float
    depth: int
    busy: float


class _Stage:
    def __init__(self) -> None:
        self.done = self.failed = 0
        self.busy_seconds = 0.0
        self._waits: deque[float] = deque(maxlen=_RECENT)

    def add(self, waited: float, busy: float, *, failed: bool = False, count: int = 1) -> None:
        if failed:
            self.failed += count
        else:
            self.done += count
        self.busy_seconds += busy
        self._waits.append(waited)

    def tell(self, depth: int, available: float) -> StageStatistics:
        waits = list(self._waits)
        p50, p90, p99 = map(float, np.percentile(waits, (50, 90, 99))) if waits else (0.0, 0.0, 0.0)
        busy = min(1.0, self.busy_seconds / available) if available > 0 else 0.0
        return StageStatistics(self.done, self.failed, p50, p90, p99, depth, busy)


class Meter:
    """Collects what the stages do. The I/O thread and the consumer write, any thread reads."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace = trace
        self._stages = {name: _Stage() for name in ("input", "fetch", "decode", "collate", "consumer")}
        self._live: dict[int, Times] = {}
        self._threads = {"input": 1, "fetch": 1, "decode": 1, "collate": 1, "consumer": 1}
        self._began = self._ended = self._last_taken = 0.0
        self.collating = self.ready = 0
        self.num_clips = self.num_failures = 0
        self.seconds = 0.0
        self._samples = self._padded_samples = 0

    def begin(self, *, read_threads: int, decode_threads: int) -> None:
        """The run begins."""
        self._began = time.perf_counter()
        self._threads |= {"fetch": read_threads, "decode": decode_threads, "collate": read_threads}

    def end(self) -> None:
        """The run has ended."""
        self._ended = time.perf_counter()

    def stage(self, name: str, waited: float, busy: float, *, failed: bool = False) -> None:
        """A stage has done something, after waiting so many seconds, in so many."""
        self._stages[name].add(waited, busy, failed=failed)

    def took(self, num_clips: int, waited: float) -> None:
        """The input was asked, and gave so many clips after so many seconds."""
        self._stages["input"].add(waited, waited, count=num_clips)

    def load_began(self, times: Times) -> None:
        """A clip is to be loaded; `times` is filled meanwhile."""
        self._live[id(times)] = times

    def load_ended(self, times: Times, name: str, failed_stage: str | None) -> None:
        """A clip was loaded, or failed in a stage."""
        del self._live[id(times)]
        if times.read_queued:
            began, ended = times.read_began or times.read_queued, times.read_ended or time.perf_counter()
            self.stage("fetch", began - times.read_queued, ended - began, failed=failed_stage == "fetch")
            if self.trace is not None:
                self.trace.overlapping("fetch", name, began, ended)
        elif failed_stage == "fetch":
            self.stage("fetch", 0.0, 0.0, failed=True)
        if times.decode_ended and failed_stage != "fetch":
            waited, busy = times.decode_began - times.decode_queued, times.decode_ended - times.decode_began
            self.stage("decode", max(0.0, waited), busy / times.decode_group, failed=failed_stage == "decode")
            if self.trace is not None:
                self.trace.span(times.decode_thread, name, times.decode_began, times.decode_ended)

    def collated(
        self, asked: float, began: float, ended: float, thread: str, num_samples: int, padded_samples: int
    ) -> None:
        """A batch was made, with so many samples of audio, padding excluded and included."""
        self.stage("collate", began - asked, ended - began)
        if self.trace is not None:
            self.trace.span(thread, "collate", began, ended)
        self._samples += num_samples
        self._padded_samples += padded_samples

    def delivered(self, num_clips: int, num_failures: int, seconds: float, asked: float) -> None:
        """The consumer has taken a result that it had asked for."""
        now = time.perf_counter()
        since = self._last_taken or asked
        self.stage("consumer", now - asked, asked - since)
        if self.trace is not None:
            self.trace.span("consumer", "works", since, asked)
            self.trace.span("consumer", "waits", asked, now)
        self._last_taken = now
        self.ready -= 1
        self.num_clips += num_clips
        self.num_failures += num_failures
        self.seconds += seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, or from it to the end."""
        return (self._ended or time.perf_counter()) - self._began if self._began else 0.0

    @property
    def padding(self) -> float:
        """Share of samples that are padding."""
        return 1 - self._samples / self._padded_samples if self._padded_samples else 0.0

    def statistics(self) -> Mapping[str, StageStatistics]:
        """What each stage has done."""
        live = list(self._live.values())
        fetching = sum(bool(one.read_queued and not one.read_ended) for one in live)
        depths = {
            "input": 0,
            "fetch": fetching,
            "decode": len(live) - fetching,
            "collate": self.collating,
            "consumer": self.ready,
        }
        elapsed = self.elapsed
        return {name: stage.tell(depths[name], elapsed * self._threads[name]) for name, stage in self._stages.items()}
