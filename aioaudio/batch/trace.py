"""What happened when, as a file in Chrome's trace format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from typing import Any, TextIO

__all__ = ["Trace"]


class Trace:
    """Collects spans in any thread; `open` begins the file, `write` puts them into it, and `end` makes it whole. These
    block, and raise OSError."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._events: list[dict[str, Any]] = []
        self._lanes: dict[str, int] = {}
        self._num_overlapping = 0

    def span(self, lane: str, name: str, began: float, ended: float) -> None:
        """Something took so long in a lane, which does one thing at a time or several in groups; in seconds."""
        self._add(lane, {"ph": "X", "name": name, "ts": began * 1e6, "dur": (ended - began) * 1e6})

    def overlapping(self, lane: str, name: str, began: float, ended: float) -> None:
        """Something took so long in a lane that does many things at once."""
        self._num_overlapping += 1
        common = {"cat": lane, "id": self._num_overlapping, "name": name}
        self._add(lane, {"ph": "b", "ts": began * 1e6, **common})
        self._add(lane, {"ph": "e", "ts": ended * 1e6, **common})

    def open(self) -> None:
        """Begin the file."""
        self._file = open(self._path, "w", encoding="utf-8")  # noqa: SIM115
        self._file.write("[\n")

    def write(self) -> None:
        """Write what was collected."""
        assert self._file is not None
        events, self._events = self._events, []
        self._file.writelines(json.dumps(event) + ",\n" for event in events)

    def end(self) -> None:
        """Write the rest, and close the file."""
        assert self._file is not None
        with self._file as file:
            self.write()
            # The list ends with an event, since JSON allows no comma behind the last.
            json.dump({"ph": "M", "name": "process_name", "pid": os.getpid(), "args": {"name": "aioaudio"}}, file)
            file.write("\n]\n")

    def _add(self, lane: str, event: dict[str, Any]) -> None:
        number = self._lanes.get(lane)
        common = {"pid": os.getpid()}
        if number is None:
            number = self._lanes[lane] = len(self._lanes) + 1
            self._events.append({"ph": "M", "name": "thread_name", "tid": number, "args": {"name": lane}, **common})
        self._events.append({**event, "tid": number, **common})
