"""What the parsers of plain PCM share: the walk over a file's chunks, and the length of the audio."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from aioaudio.audio import Damage
from aioaudio.decode.facts import Facts, Pcm
from aioaudio.decode.headers.window import Window
from aioaudio.errors import CorruptAudioError

__all__ = ["MAX_CHUNKS", "Chunk", "Encoding", "chunks", "pcm_facts", "was_never_filled_in"]

# More than any recorder writes; bounds the reads that a file of nothing but empty chunks can cause.
MAX_CHUNKS = 10_000

# What FFmpeg's mixers know by name; more channels, and rates that overflow its integers, are left to its judgement.
_MAX_CHANNELS = 64
_MAX_RATE = 2**31 - 1

# Where a writer does not know the size, it claims about the largest that it can think of (SoX has its own for AIFF),
# less some bytes of header, or rounded down to pages or frames.
_SIZE_LIMITS = (0x7F000000, 2**31, 2**32, 2**63, 2**64)
_MAX_SHORT_OF_LIMIT = 2**16


class Chunk(NamedTuple):
    """A chunk's name, the offset of its first byte after the chunk's header, and its size as promised."""

    id: bytes
    offset: int
    size: int


class Encoding(NamedTuple):
    """How samples are encoded: `sample_format` is a name in SAMPLE_FORMATS, `channel_layout` FFmpeg's name or None."""

    sample_format: str
    num_bits: int
    sample_rate: int
    num_channels: int
    channel_layout: str | None


def chunks(window: Window, byte_order: str, known: frozenset[bytes]) -> Iterator[Chunk]:
    """The chunks of a RIFF or IFF file after its 12 bytes of header; `byte_order` is "<" or ">".

    A chunk of odd size is followed by a pad byte. Some writers leave that out: where one of the `known` names begins
    at once, they did.
    """
    fields = struct.Struct(f"{byte_order}4sI")
    offset = 12
    for _ in range(MAX_CHUNKS):
        data = window.read(8, offset)
        if len(data) < 8:
            return
        name, size = fields.unpack(data)
        yield Chunk(name, offset + 8, size)
        offset += 8 + size
        if size & 1 and bytes(window.read(4, offset)) not in known:
            offset += 1


def pcm_facts(container: str, encoding: Encoding, *, offset: int, promised: int, present: int) -> Facts | None:
    """The facts of PCM that begins at `offset`: `promised` bytes by the header, `present` up to the end of the file.

    None where FFmpeg must decide. Raises CorruptAudioError where there is no audio to speak of.
    """
    sample_format, num_bits, sample_rate, num_channels, channel_layout = encoding
    if num_channels == 0:
        raise CorruptAudioError(f"the {container} header says 0 channels")
    if sample_rate == 0:
        raise CorruptAudioError(f"the {container} header says a sample rate of 0")
    if num_channels > _MAX_CHANNELS or sample_rate > _MAX_RATE:
        return None
    if channel_layout is None and num_channels <= 2:
        channel_layout = ("mono", "stereo")[num_channels - 1]
    if was_never_filled_in(promised, present):
        promised = present
    pcm = Pcm(sample_format, offset, num_bits)
    frame_bytes = pcm.bytes_per_sample * num_channels
    num_samples = promised // frame_bytes
    num_present = present // frame_bytes
    damage: tuple[Damage, ...] = ()
    if num_present < num_samples:
        message = f"the header promises {num_samples} samples, the file ends after {num_present}"
        damage = (Damage(num_present / sample_rate, "truncated", message),)
    return Facts(
        container=container,
        codec=f"pcm_{sample_format}",
        sample_rate=sample_rate,
        num_channels=num_channels,
        channel_layout=channel_layout,
        bits_per_sample=num_bits,
        num_samples=num_samples,
        preroll_seconds=0.0,
        pcm=pcm,
        damage=damage,
    )


def was_never_filled_in(promised: int, present: int) -> bool:
    """Whether a size is what a writer puts down that cannot come back to correct it (a pipe), or did not live to."""
    if promised in (0, 2**32 - 1):
        return True
    return promised > present and any(0 <= limit - promised <= _MAX_SHORT_OF_LIMIT for limit in _SIZE_LIMITS)
