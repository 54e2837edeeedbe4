"""The header of PCM in AIFF and AIFF-C, and in Sun's AU: formats that are big-endian at heart."""

from __future__ import annotations

import struct

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.chunks import Chunk, Encoding, chunks, pcm_facts
from aioaudio.decode.headers.window import Window

__all__ = ["AIFF_CHUNKS", "parse_aiff", "parse_au"]

#: Names of chunks that are in use.
AIFF_CHUNKS = frozenset(b"COMM,SSND,FVER,MARK,INST,MIDI,AESD,APPL,COMT,NAME,AUTH,(c) ,ANNO,ID3 ,CHAN,PEAK".split(b","))

# Integers whose width COMM gives, by bytes per sample; they fill the high bits where fewer are in use.
_INTEGERS = {1: "s8", 2: "s16be", 3: "s24be", 4: "s32be"}

# AIFF-C's compression types that stand for one sample format each.
_COMPRESSION_TYPES = {
    b"raw ": "u8",
    b"in24": "s24be",
    b"in32": "s32be",
    b"fl32": "f32be",
    b"FL32": "f32be",
    b"fl64": "f64be",
    b"FL64": "f64be",
    b"alaw": "alaw",
    b"ALAW": "alaw",
    b"ulaw": "mulaw",
    b"ULAW": "mulaw",
}
_BITS = {"u8": 8, "s8": 8, "s24be": 24, "s32be": 32, "f32be": 32, "f64be": 64, "alaw": 8, "mulaw": 8}

_AU_ENCODINGS = {
    1: ("mulaw", 8),
    2: ("s8", 8),
    3: ("s16be", 16),
    4: ("s24be", 24),
    5: ("s32be", 32),
    6: ("f32be", 32),
    7: ("f64be", 64),
    27: ("alaw", 8),
}


def parse_aiff(window: Window, form: bytes) -> Facts | None:
    """The facts of a file that begins with "FORM", a size and `form`: "AIFF" or "AIFC"."""
    encoding: Encoding | None = None
    sound: Chunk | None = None
    for chunk in chunks(window, ">", AIFF_CHUNKS):
        if chunk.id == b"COMM" and encoding is None:
            encoding = _encoding(window.read(min(chunk.size, 22), chunk.offset), form)
            if encoding is None:
                return None
        elif chunk.id == b"SSND" and sound is None:
            sound = chunk
        elif chunk.id == b"CHAN" and encoding is not None and encoding.num_channels > 2:
            return None  # Apple's table of layouts is FFmpeg's to read
        if encoding is not None and sound is not None:
            return _sound_facts(window, encoding, sound)
    return None


def _sound_facts(window: Window, encoding: Encoding, sound: Chunk) -> Facts | None:
    padding = window.read(4, sound.offset)
    if len(padding) < 4:
        return None
    offset = sound.offset + 8 + int.from_bytes(padding, "big")
    promised = max(0, sound.size - (offset - sound.offset))
    present = max(0, window.size - offset)
    if sound.size >= 8 and promised == 0:
        present = 0
    return pcm_facts("aiff", encoding, offset=offset, promised=promised, present=present)


def _encoding(comm: memoryview, form: bytes) -> Encoding | None:
    """What a "COMM" chunk says; None where it is not plain PCM."""
    if len(comm) < 18 or (form == b"AIFC" and len(comm) < 22):
        return None
    num_channels, _, num_bits, exponent, mantissa = struct.unpack_from(">HIHHQ", comm)
    compression = bytes(comm[18:22]) if form == b"AIFC" else b"NONE"
    if compression == b"sowt":
        sample_format = "s16le" if 8 < num_bits <= 16 else None
    elif compression in (b"NONE", b"twos"):
        sample_format = _INTEGERS.get((num_bits + 7) // 8)
    else:
        sample_format = _COMPRESSION_TYPES.get(compression)
        num_bits = _BITS.get(sample_format or "", 0)
    sample_rate = _rounded_rate(exponent, mantissa)
    if sample_format is None or sample_rate is None:
        return None
    return Encoding(sample_format, num_bits, sample_rate, num_channels, None)


def _rounded_rate(exponent: int, mantissa: int) -> int | None:
    """A positive 80-bit float (mantissa with its leading one) rounded half up; None beyond 63 bits."""
    shift = 16383 + 63 - exponent
    return None if shift < 0 else (mantissa + (1 << shift >> 1)) >> shift


def parse_au(window: Window) -> Facts | None:
    """The facts of a Sun AU file, which begins with ".snd"."""
    fields = window.read(24, 0)
    if len(fields) < 24:
        return None
    offset, size, code, sample_rate, num_channels = struct.unpack_from(">5I", fields, 4)
    present = max(0, window.size - offset)
    if code not in _AU_ENCODINGS or offset < 24:
        return None
    sample_format, num_bits = _AU_ENCODINGS[code]
    encoding = Encoding(sample_format, num_bits, sample_rate, num_channels, None)
    return pcm_facts("au", encoding, offset=offset, promised=size, present=present)
