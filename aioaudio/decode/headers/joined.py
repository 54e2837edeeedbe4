"""FLAC and WavPack files that were joined end to end, and the tags behind them: what only the whole file shows.

Their headers count the samples of one file. Decoders go on into the next, so that the length, the checksums and the
end that the first header tells are not those of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers import flac, wavpack
from aioaudio.decode.headers.flac_frames import run_through
from aioaudio.decode.headers.tags import audio_stop, skip_filler
from aioaudio.decode.headers.window import Window, skip_id3v2
from aioaudio.encoded import OpenBytes

__all__ = ["JOINABLE", "with_parts"]

#: Containers that are looked through.
JOINABLE = frozenset({"flac", "wv"})

# A larger WavPack file is taken for what its first header says.
_MAX_WALK_BYTES = 1 << 28
_BLOCK_BYTES = 1 << 17
_MAX_PARTS = 4096

_HEAD_BYTES = 4096
_FLAC_MAGIC = b"fLaC"
_STREAMINFO_HEADERS = (b"\0\0\0\x22", b"\x80\0\0\x22")


def with_parts(file: OpenBytes, facts: Facts) -> Facts:
    """`facts`, which are those of the first header, as those of the whole of a FLAC or WavPack file."""
    is_flac = facts.container == "flac"
    window = Window(file, file.read(_HEAD_BYTES, 0))
    if is_flac:
        starts = [skip_id3v2(window, 0)] if _is_one(window, facts) else [*_flac_starts(window)]
    else:
        starts = [*_wavpack_starts(window)] if file.size <= _MAX_WALK_BYTES else []
    stop = audio_stop(window, starts[-1]) if starts else window.size
    if len(starts) < 2:
        return facts if stop == window.size else replace(facts, pieces=((0, stop),))
    heads = [file.read(_HEAD_BYTES, start) for start in starts]
    parts = [
        flac.parse(file, head, start) if is_flac else wavpack.parse(head)
        for head, start in zip(heads, starts, strict=True)
    ]
    form = (facts.sample_rate, facts.num_channels)
    lengths = [part.num_samples for part in parts if part and (part.sample_rate, part.num_channels) == form]
    known = [length for length in lengths if length is not None]
    return replace(
        facts,
        num_samples=sum(known) if len(known) == len(starts) else None,
        pieces=tuple(zip(starts, [*starts[1:], stop], strict=True)),
        preroll_seconds=None,
        md5=None,
    )


def _is_one(window: Window, facts: Facts) -> bool:
    at, num_samples = facts.frames_at, facts.num_samples
    return at is not None and num_samples is not None and run_through(window, at, num_samples, facts.frame_samples)


def _flac_starts(window: Window) -> Iterator[int]:
    first = skip_id3v2(window, 0)
    yield first
    num_parts, offset = 1, first + len(_FLAC_MAGIC)
    while offset < window.size and num_parts < _MAX_PARTS:
        block = bytes(window.read(_BLOCK_BYTES, offset))
        at = block.find(_FLAC_MAGIC)
        while at >= 0:
            if bytes(window.read(4, offset + at + len(_FLAC_MAGIC))) in _STREAMINFO_HEADERS:
                num_parts += 1
                yield offset + at
            at = block.find(_FLAC_MAGIC, at + 1)
        # Three bytes again, for a magic that begins at the very end of this block.
        offset += max(1, len(block) - len(_FLAC_MAGIC) + 1)


def _wavpack_starts(window: Window) -> Iterator[int]:
    offset = num_parts = 0
    while num_parts < _MAX_PARTS:
        block = wavpack.block_at(window, offset)
        if block is None:
            after, _ = skip_filler(window, offset, window.size)
            if after == offset:
                return
            offset = after
            continue
        if block.is_first and block.start == 0 and block.num_samples:
            num_parts += 1
            yield offset
        offset = block.stop
