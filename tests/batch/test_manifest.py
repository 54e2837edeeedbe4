"""Lists of clips in files, and rows of datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioaudio
from aioaudio import Clip
from aioaudio.batch.manifest import Manifest, as_clip


def test_json_lines_are_ranges_of_files_in_the_folder(tmp_path: Path) -> None:
    manifest = tmp_path / "train.jsonl"
    rows = [
        {"audio_filepath": "a.flac", "offset": 1.5, "duration": 2, "text": "Grüße"},
        {"audio_filepath": "/else/b.flac", "text": "b"},
    ]
    manifest.write_text("\n\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    first, second = Manifest(manifest)
    assert first == Clip(str(tmp_path / "a.flac"), 1.5, 3.5, fields={"offset": 1.5, "duration": 2, "text": "Grüße"})
    assert second == Clip("/else/b.flac", fields={"text": "b"})


def test_tables_are_read_with_their_head_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('path,sentence,duration\r\nx.mp3,"hello, you",\r\n', "utf-8")
    (tmp_path / "a.tsv").write_text('client\tpath\tsentence\n1\tx.mp3\tsay "hello\n', "utf-8")
    [comma], [tab] = Manifest(tmp_path / "a.csv"), Manifest(tmp_path / "a.tsv")
    assert comma == Clip(str(tmp_path / "x.mp3"), fields={"sentence": "hello, you", "duration": ""})
    assert tab == Clip(str(tmp_path / "x.mp3"), fields={"client": "1", "sentence": 'say "hello'})


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("a.jsonl", '{"path": "a.wav"}\n{"path": \n', 2, "no JSON"),
        ("a.jsonl", '{"path": "a.wav"}\n\n["a.wav"]\n', 3, "JSON object"),
        ("a.jsonl", "[" * 100_000, 1, "JSON object"),
        ("a.jsonl", '{"path": "a.wav"}\n{"path": "\udce9.wav"}\n', 2, "UTF-8"),
        ("a.csv", "path,text\na.wav,x\nb.wav,\udce9\n", 3, "UTF-8"),
        ("a.csv", "\npath,text\na.wav,x\n", 1, "head line"),
        ("a.jsonl", '{"path": 5}\n', 1, "path must be"),
        ("a.jsonl", '{"text": "a"}\n', 1, "audio_filepath"),
        ("a.jsonl", '{"path": "a.wav", "offset": "soon"}\n', 1, "offset"),
        ("a.jsonl", '{"path": "a.wav", "duration": -1}\n', 1, "stop_seconds"),
        ("a.csv", "path,text\na.wav,x\nb.wav\n", 3, "2 columns"),
        ("a.csv", 'path,text\na.wav,"x" y\n', 2, "expected"),
        ("a.tsv", "text\nx\n", 2, "audio_filepath"),
    ],
)
def test_an_error_names_the_line(tmp_path: Path, name: str, text: str, line: int, message: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=message) as caught:
        list(Manifest(path))
    assert str(caught.value).startswith(f"{path}, line {line}: ")


def test_rows_of_datasets_bring_bytes_or_paths() -> None:
    assert as_clip({"audio": {"bytes": b"RIFF", "path": "a.wav"}, "id": 3}) == Clip(b"RIFF", fields={"id": 3})
    assert as_clip({"audio": {"bytes": None, "path": "a.wav"}}) == Clip("a.wav")
    assert as_clip({"path": "a.wav", "offset": np.float32(1), "duration": np.int64(2)}).stop_seconds == 3
    with pytest.raises(ValueError, match="has only text") as caught:
        as_clip({"text": "hello"})
    assert caught.value.__notes__ == ["row: {'text': 'hello'}"]
    with pytest.raises(ValueError, match=r"Audio\(decode=False\)"):
        as_clip({"audio": {"array": [0.0], "sampling_rate": 16_000}})


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8))))
def test_any_row_is_a_clip_or_a_plain_error(row: dict[str, Any]) -> None:
    try:
        clip = as_clip(row)
    except (TypeError, ValueError):
        return
    assert all(clip.fields[key] == value for key, value in row.items() if key in clip.fields)
    assert len(clip.fields) == len(row) - 1


@given(st.text(max_size=60), st.sampled_from([".jsonl", ".csv", ".tsv"]))
def test_any_text_is_clips_or_an_error_that_names_a_line(
    tmp_path_factory: pytest.TempPathFactory, text: str, suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_text("path,text\n" + text, "utf-8", errors="surrogatepass")
    try:
        list(Manifest(path))
    except ValueError as error:
        assert ", line " in str(error)  # noqa: PT017


async def test_batches_follow_a_manifest_and_stop_at_a_bad_line(tmp_path: Path, paths: list[Path]) -> None:
    manifest = tmp_path / "train.jsonl"
    lines = [json.dumps({"audio_filepath": str(path), "text": path.name}) for path in paths[:4]]
    manifest.write_text("\n".join([*lines, "oops"]))
    come = []
    with pytest.raises(ValueError, match="line 5"):  # noqa: PT012
        async for batch in aioaudio.batches(manifest, batch_size=2):
            come += [clip.fields["text"] for clip in batch.clips]
    assert come == [path.name for path in paths[:4]]
