"""Lists of clips as files and as rows: JSON lines, CSV, TSV, mappings, rows of Hugging Face datasets. Read lazily."""

from __future__ import annotations

import csv
import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aioaudio.audio import Clip, as_number

__all__ = ["MANIFEST_SUFFIXES", "Manifest", "as_clip", "clip_of_row"]

MANIFEST_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv")

# Names for the audio of a row, the first of them that a row has: NeMo's, Hugging Face's, and plain ones.
_SOURCES = ("audio_filepath", "audio", "path", "file_name", "source")


class Manifest:
    """A file that lists clips: a JSON object in each line (`.jsonl`, `.json`), or CSV or TSV with a head line.

    Iterating reads it line by line. Relative paths are relative to its folder. Raises ValueError that names the line.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.suffix.lower() not in MANIFEST_SUFFIXES:
            raise ValueError(
                f"a manifest must be {', '.join(MANIFEST_SUFFIXES)}, not {os.fspath(path)!r}: give a list of sources, "
                "also for one"
            )

    def __iter__(self) -> Iterator[Clip]:
        with self.path.open("rb") as encoded:
            file = _decoded(encoded)
            lines = _json_rows(file) if self.path.suffix.lower() in (".jsonl", ".json") else self._table_rows(file)
            number = 0
            while True:
                try:
                    number, row = next(lines)
                    yield clip_of_row(row, self.path.parent)
                except StopIteration:
                    return
                except _BadLine as error:
                    raise ValueError(f"{self.path}, line {error.number}: {error}") from error.__cause__
                except (TypeError, ValueError) as error:
                    raise ValueError(f"{self.path}, line {number}: {error}") from error

    def _table_rows(self, file: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        # Quotes are those of CSV; transcripts in TSV have them as they are.
        is_tsv = self.path.suffix.lower() == ".tsv"
        reader = (
            csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
            if is_tsv
            else csv.DictReader(file, strict=True)
        )
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise _BadLine(reader.reader.line_num, str(error)) from error
            if not reader.fieldnames:
                raise _BadLine(1, "is no head line: it is empty")
            if None in row or None in row.values():
                raise _BadLine(reader.line_num, f"has not the {len(reader.fieldnames or ())} columns of the head line")
            yield reader.line_num, row


class _BadLine(Exception):
    """A line that is no row."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


def _decoded(file: Iterable[bytes]) -> Iterator[str]:
    """The lines of a file as text, with their ends."""
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _BadLine(number, f"is no UTF-8: {error}") from error


def _json_rows(file: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _BadLine(number, f"is no JSON object, of which each line has one: {error}") from error
        if not isinstance(row, Mapping):
            raise _BadLine(number, f"is no JSON object, of which each line has one: {line.strip()[:40]!r}")
        yield number, row


def as_clip(item: Any) -> Clip:
    """A clip, a row, or any source as a `Clip`. Raises TypeError and ValueError for a row that is none."""
    if isinstance(item, Clip):
        return item
    if not isinstance(item, Mapping):
        return Clip(item)
    try:
        return clip_of_row(item)
    except (TypeError, ValueError) as error:
        error.add_note(f"row: {reprlib.repr(dict(item))}")
        raise


def clip_of_row(row: Mapping[str, Any], folder: Path | None = None) -> Clip:
    """The clip that a row describes.

    Its source is `audio_filepath`, `audio`, `path`, `file_name` or `source`, the first that there is: a path, or a
    mapping with `bytes` or `path` as `Audio(decode=False)` of Hugging Face's datasets gives it. `offset` and `duration`
    are the range in seconds. All columns but the source are the clip's `fields`.
    """
    name = next((name for name in _SOURCES if row.get(name) is not None), None)
    if name is None:
        raise ValueError(f"a row must have one of {', '.join(_SOURCES)}, but has only {', '.join(map(str, row))}")
    start = _seconds(row, "offset") or 0.0
    duration = _seconds(row, "duration")
    return Clip(
        _source(row[name], name, folder),
        start_seconds=start,
        stop_seconds=None if duration is None else start + duration,
        fields={key: value for key, value in row.items() if key != name},
    )


def _source(value: Any, name: str, folder: Path | None) -> Any:
    if isinstance(value, Mapping):
        data, path = value.get("bytes"), value.get("path")
        if data is None and path is None:
            raise ValueError(f"{name} has neither bytes nor a path: a dataset gives them with Audio(decode=False)")
        value = path if data is None else data
    if isinstance(value, str) and not value:
        raise ValueError(f"{name} is empty")
    if folder is None:
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a path, not {value!r}")
    return value if "://" in value else str(folder / value)


def _seconds(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        return float(as_number(name, value))
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name} must be a number of seconds, not {value!r}") from None
