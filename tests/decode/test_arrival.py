"""What arrives is known by its first bytes, and is cut where files were joined, whatever blocks it comes in."""

from __future__ import annotations

import random

import pytest
from coded_files import ID3V1
from media import MediaLibrary

from aioaudio.decode import Kind, cutter_of, kind_of


def arrive(data: bytes, rng: random.Random) -> tuple[Kind, list[bytes]]:
    """The kind, and the files that are cut out of `data`."""
    blocks, at = [], 0
    while at < len(data):
        size = rng.choice([1, 3, 50, 400, 5_000, 70_000])
        blocks.append(data[at : at + size])
        at += size
    head, kind, parts = b"", None, [b""]
    for i, block in enumerate(blocks):
        at_end = i + 1 == len(blocks)
        if kind is None:
            head += block
            kind = kind_of(head, at_end=at_end)
            if kind is None:
                continue
            cutter, block = cutter_of(kind), head
        for cut in cutter.push(block, at_end=at_end):
            if cut.begins:
                parts.append(b"")
            parts[-1] += cut.data
    assert kind is not None
    return kind, parts


KINDS = {
    "wav": "s16le",
    "rf64": "s16le",
    "flac": "flac",
    "mp3": "mp3",
    "mp2": "mp3",
    "adts": "aac",
    "ac3": "ac3",
    "vorbis": "ogg",
    "opus": "ogg",
    "flac-ogg": "ogg",
    "opus-webm": "matroska",
    "flac-mka": "matroska",
    "aac": None,  # their index is at the end
    "alac": None,
    "aiff": None,
    "au": None,
    "caf": None,
    "tta": None,
    "wavpack": None,
    "w64": None,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_arrives_is_known_by_its_first_bytes(kind: str, media: MediaLibrary) -> None:
    data = media.make(kind, seconds=1.0).path.read_bytes()
    for seed in range(3):
        known, parts = arrive(data, random.Random(seed))
        assert known.demuxer == KINDS[kind]
        if known.raw is None:
            assert parts == [data]
        else:
            assert parts == [data[known.start :]]


def test_an_mp4_with_its_index_in_front_can_be_decoded_as_it_comes() -> None:
    def box(name: bytes, num_bytes: int) -> bytes:
        return (8 + num_bytes).to_bytes(4, "big") + name + bytes(num_bytes)

    start = box(b"ftyp", 20)
    assert kind_of(start, at_end=False) is None
    assert kind_of(start + box(b"free", 100) + box(b"moov", 10), at_end=False) == Kind("mov")
    assert kind_of(start + box(b"moov", 1_000)[:-1], at_end=False) is None
    parts = (8 + 16).to_bytes(4, "big") + b"moov" + box(b"mvex", 8)
    assert kind_of(start + parts, at_end=False) == Kind("mov", is_fragmented=True)
    assert kind_of(start + box(b"mdat", 8), at_end=False) == Kind(None)
    assert kind_of(start + bytes(4) + b"mdat" + bytes(8), at_end=False) == Kind(None)


@pytest.mark.parametrize("kind", ["mp3", "vorbis", "opus", "flac", "flac-ogg"])
@pytest.mark.parametrize("tail", [b"", ID3V1])
def test_joined_files_are_cut_apart(kind: str, tail: bytes, media: MediaLibrary) -> None:
    if tail and kind != "mp3":
        pytest.skip("no such tags")
    files = [media.make(kind, seconds=seconds, seed=i).path.read_bytes() for i, seconds in enumerate((0.7, 0.3, 1.0))]
    for seed in range(5):
        _, parts = arrive(tail.join(files) + tail, random.Random(seed))
        assert len(parts) == 3
        for part, whole in zip(parts, files, strict=True):
            begin = whole.index(part[:100])  # the tags of those behind the first are left out
            assert part == whole[begin:]


def test_what_is_not_whole_is_noticed(media: MediaLibrary) -> None:
    for kind in ("mp3", "opus", "wav"):
        data = media.make(kind, seconds=1.0).path.read_bytes()
        for end, faults in ((len(data), 0), (len(data) * 2 // 3 + 1, 1)):
            known = kind_of(data[:end], at_end=True)
            assert known is not None
            cutter = cutter_of(known)
            list(cutter.push(data[:end], at_end=True))
            assert [fault.kind for fault in cutter.faults] == ["truncated"] * faults


def test_any_bytes_are_judged_in_the_end() -> None:
    rng = random.Random(0)
    for head in (b"", b"ID3", b"\xff\xfb\x90", b"RIFF....WAVE", b"....ftyp", b"OggS", b"fLaC", b"\x47", b"\0"):
        for size in (0, 1, 200, 40_000):
            data = head + rng.randbytes(size)
            kind, parts = arrive(data, rng) if data else (kind_of(b"", at_end=True), [])
            assert kind is not None
            assert sum(map(len, parts)) <= len(data)
