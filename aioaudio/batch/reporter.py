"""What is shown while a run goes on: a bar, and the file of its trace. Blocks; called in read workers."""

from __future__ import annotations

import threading
from typing import Any

from aioaudio.batch.failures import FailureLog
from aioaudio.batch.statistics import Meter

__all__ = ["Reporter"]


class Reporter:
    """Shows what a meter has collected. `total` is how many clips there are, None where that is not known."""

    def __init__(self, meter: Meter, log: FailureLog, *, progress: bool, total: int | None) -> None:
        self._meter, self._log, self._progress, self._total = meter, log, progress, total
        self._lock = threading.Lock()
        self._finished = False
        self._bar: Any = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to show."""
        return self._progress or self._meter.trace is not None

    def report(self) -> None:
        """Show how it stands."""
        with self._lock:
            if self._finished:
                return
            if self._progress:
                self._show()
            if self._meter.trace is not None:
                self._meter.trace.write()

    def finish(self) -> None:
        """Show how it stands in the end."""
        with self._lock:
            self._finished = True
            if self._progress:
                self._show()
                self._bar.close()
            if self._meter.trace is not None:
                self._meter.trace.end()

    def _show(self) -> None:
        if self._bar is None:
            self._bar = _make_bar(self._total)
        meter, num_failures = self._meter, self._log.num_failures
        self._bar.n = meter.num_clips + num_failures
        speed = meter.seconds / meter.elapsed if meter.elapsed else 0.0
        self._bar.set_postfix_str(f"{speed:.0f} s of audio/s, {num_failures} failed")


def _make_bar(total: int | None) -> Any:
    from tqdm import tqdm  # only for who wants to see it

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread of its own

    return Bar(total=total, unit=" clips", dynamic_ncols=True)
