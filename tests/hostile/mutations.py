"""Broken files, each the work of a number: the same number gives the same bytes again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from media import DATA, KINDS, MediaLibrary

__all__ = ["Mutation", "mutate", "originals"]

_EXTREMES = [
    value.to_bytes(size, order)
    for size in (1, 2, 3, 4, 8)
    for value in (0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 2, 2 ** (8 * size) - 1)
    for order in ("big", "little")
]


@dataclass(frozen=True)
class Mutation:
    """A broken file; `story` tells how it came about."""

    number: int
    story: str
    suffix: str
    data: bytes


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """The suffix and the bytes of an intact file of every kind, the same in every run. `folder` is for making them."""
    library = MediaLibrary(folder, bit_exact=True)
    made = [
        library.make(kind, seconds=0.4, channels=channels, signal="speech", seed=channels)
        for kind in KINDS
        if kind != "vorbis"  # libsndfile draws a serial number
        for channels in (1, 2)
    ]
    paths = [*(media.path for media in made), DATA / "ljspeech.ogg"]
    files = [(path.suffix, path.read_bytes()) for path in paths]
    opus = next(data for suffix, data in files if suffix == ".opus")
    return [*files, (".opus", opus * 3)]  # a chain


def mutate(number: int, files: Sequence[tuple[str, bytes]]) -> Mutation:
    """The broken file of that number: one to three changes to one of `files`."""
    draw = random.Random(number)
    which = number % len(files)
    suffix, original = files[which]
    data, story = bytearray(original), [f"#{number}: file {which} ({suffix})"]
    for _ in range(draw.choice((1, 1, 2, 3))):
        change = draw.choice((_flip, _cut, _insert, _repeat, _zero, _extreme, _extreme, _splice))
        story.append(change(draw, data, files))
    return Mutation(number, ", ".join(story), suffix, bytes(data))


def _place(draw: random.Random, data: bytearray) -> int:
    """Mostly in the header, where every byte counts; often near the end."""
    size = max(1, len(data))
    place = draw.choice((draw.randrange(64), draw.randrange(600), size - 1 - draw.randrange(300), draw.randrange(size)))
    return min(max(0, place), size - 1)


def _flip(draw: random.Random, data: bytearray, _: object) -> str:
    places = [at for at in (_place(draw, data) for _ in range(draw.choice((1, 1, 8, 64)))) if at < len(data)]
    for at in places:
        data[at] ^= 1 << draw.randrange(8)
    return f"bits flipped at {places[:8]}"


def _cut(draw: random.Random, data: bytearray, _: object) -> str:
    at = _place(draw, data)
    stop = draw.choice((len(data), at + draw.randrange(1, 200), at + draw.randrange(1, 5000)))
    del data[at:stop]
    return f"[{at}, {stop}) cut out"


def _insert(draw: random.Random, data: bytearray, _: object) -> str:
    at, size = _place(draw, data), draw.choice((1, 3, 4, 17, 512, 70_000))
    data[at:at] = draw.randbytes(size)
    return f"{size} bytes inserted at {at}"


def _repeat(draw: random.Random, data: bytearray, _: object) -> str:
    at, size, times = _place(draw, data), draw.choice((1, 4, 8, 64, 1000)), draw.choice((1, 2, 200))
    data[at:at] = bytes(data[at : at + size]) * times
    return f"[{at}, {at + size}) repeated {times} times"


def _zero(draw: random.Random, data: bytearray, _: object) -> str:
    at = _place(draw, data)
    size = min(draw.choice((1, 4, 16, 400, 10_000)), len(data) - at)
    data[at : at + size] = bytes(size)
    return f"[{at}, {at + size}) zeroed"


def _extreme(draw: random.Random, data: bytearray, _: object) -> str:
    at, value = _place(draw, data), draw.choice(_EXTREMES)
    data[at : at + len(value)] = value
    return f"{value.hex()} written at {at}"


def _splice(draw: random.Random, data: bytearray, files: Sequence[tuple[str, bytes]]) -> str:
    which = draw.randrange(len(files))
    other = files[which][1]
    at, start = _place(draw, data), draw.choice((0, draw.randrange(len(other))))
    if draw.random() < 0.5:
        data[at:] = other[start:]
        return f"from {at} on file {which} from {start} on"
    data[at:at] = other[start : start + 3000]
    return f"3000 bytes of file {which} from {start} on put in at {at}"
