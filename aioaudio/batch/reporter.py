"""What is shown while a run goes on: a bar, and the file of its trace. Blocks; called in read workers."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from aioaudio.batch.failures import FailureLog
from aioaudio.batch.statistics import Meter

__all__ = ["Reporter"]


# How often a bar is shown that goes into a file.
_LOG_SECONDS = 10.0


class Reporter:
    """Shows what a meter has collected. `total` is how many clips there are, None where that is not known."""

    def __init__(self, meter: Meter, log: FailureLog, *, progress: bool, total: int | None) -> None:
        self._meter, self._log, self._progress, self._total = meter, log, progress, total
        self._trace = meter.trace
        self._lock = threading.Lock()
        self._finished = False
        self._bar: Any = None
        self._is_terminal = False
        self._shown = 0.0

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to show."""
        return self._progress or self._trace is not None

    def begin(self) -> None:
        """Open what is written to. Raises OSError."""
        if (trace := self._trace) is not None:
            self._trace = None  # unless it can be opened
            trace.open()
            self._trace = trace

    def report(self) -> None:
        """Show how it stands."""
        with self._lock:
            if self._finished:
                return
            if self._progress:
                self._show(is_last=False)
            if self._trace is not None:
                self._write(self._trace.write)

    def finish(self) -> None:
        """Show how it stands in the end."""
        with self._lock:
            self._finished = True
            if self._progress:
                self._show(is_last=True)
                self._bar.close()
            if self._trace is not None:
                self._write(self._trace.end)

    def _write(self, write: Callable[[], None]) -> None:
        """Write the trace; a long run is not ended by a full disk."""
        try:
            write()
        except OSError as error:
            self._trace = None
            warnings.warn(f"the trace is not complete: {error}", RuntimeWarning, stacklevel=2)

    def _show(self, *, is_last: bool) -> None:
        if self._bar is None:
            self._bar = _make_bar(self._total)
            self._is_terminal = bool(getattr(self._bar.fp, "isatty", bool)())
        meter, num_failures = self._meter, self._log.num_failures
        self._bar.n = meter.num_clips + num_failures
        speed = meter.seconds / meter.elapsed if meter.elapsed else 0.0
        self._bar.set_postfix_str(f"{speed:.0f} s of audio/s, {num_failures} failed", refresh=False)
        # A log keeps every line that a terminal would overwrite.
        is_due = time.monotonic() - self._shown >= (0 if self._is_terminal else _LOG_SECONDS)
        if is_last or is_due:
            self._shown = time.monotonic()
            self._bar.refresh()


def _make_bar(total: int | None) -> Any:
    from tqdm import tqdm  # only for who wants to see it

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread of its own

    return Bar(total=total, unit=" clips", dynamic_ncols=True)
