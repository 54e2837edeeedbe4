"""Files of plain PCM, byte by byte, and two decoders that the project did not write to compare with."""

from __future__ import annotations

import io
import struct
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import NDArray

from aioaudio.decode import wav
from aioaudio.decode.facts import Facts
from aioaudio.decode.headers import pcm
from aioaudio.encoded import Encoded, Readable
from aioaudio.errors import FetchError
from aioaudio.options import SAMPLE_FORMATS, LoadOptions

Array = NDArray[Any]

GUID_TAIL = bytes.fromhex("00001000800000AA00389B71")
W64_TAIL = bytes.fromhex("F3ACD3118CD100C04F8EDB8A")

#: Format tag and bits of each sample format that RIFF knows.
RIFF_FORMATS = {
    "u8": (1, 8),
    "s16le": (1, 16),
    "s24le": (1, 24),
    "s32le": (1, 32),
    "f32le": (3, 32),
    "f64le": (3, 64),
    "alaw": (6, 8),
    "mulaw": (7, 8),
}


def chunk(name: bytes, body: bytes, *, size: int | None = None, pad: bool = True, byte_order: str = "<") -> bytes:
    """A RIFF or IFF chunk; `size` is what its header claims."""
    header = name + struct.pack(f"{byte_order}I", len(body) if size is None else size)
    return header + body + (b"\0" if pad and len(body) % 2 else b"")


def riff(*chunks: bytes, magic: bytes = b"RIFF", size: int | None = None) -> bytes:
    """A WAVE file of these chunks."""
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack(">I" if magic == b"RIFX" else "<I", len(body) if size is None else size) + body


def wave_format(
    tag: int = 1,
    num_channels: int = 1,
    sample_rate: int = 16_000,
    bits: int = 16,
    *,
    block_align: int | None = None,
    byte_order: str = "<",
    more: bytes = b"",
) -> bytes:
    """A "fmt " chunk."""
    align = num_channels * ((bits + 7) // 8) if block_align is None else block_align
    fields = (tag, num_channels, sample_rate, sample_rate * align % 2**32, align, bits)
    return chunk(b"fmt ", struct.pack(f"{byte_order}HHIIHH", *fields) + more, byte_order=byte_order)


def extensible_format(
    tag: int = 1, num_channels: int = 1, bits: int = 16, *, valid_bits: int = 0, mask: int = 0, tail: bytes = GUID_TAIL
) -> bytes:
    """A "fmt " chunk of WAVEFORMATEXTENSIBLE with the sub-format `tag`."""
    more = struct.pack("<HHII", 22, valid_bits or bits, mask, tag) + tail
    return wave_format(0xFFFE, num_channels, bits=bits, more=more)


def wav_file(samples: bytes, sample_format: str = "s16le", num_channels: int = 1, *before: bytes) -> bytes:
    """A plain WAV, with the chunks `before` the data."""
    tag, bits = RIFF_FORMATS[sample_format]
    return riff(wave_format(tag, num_channels, bits=bits), *before, chunk(b"data", samples))


def w64_chunk(name: bytes, body: bytes, *, size: int | None = None) -> bytes:
    """A chunk of a Wave64 file; `size` is what its header claims."""
    header = name + W64_TAIL + struct.pack("<Q", 24 + len(body) if size is None else size)
    return header + body + bytes(-len(body) % 8)


def w64_file(*chunks: bytes) -> bytes:
    """A Wave64 file of these chunks."""
    body = b"wave" + W64_TAIL + b"".join(chunks)
    return bytes.fromhex("726966662E91CF11A5D628DB04C10000") + struct.pack("<Q", 24 + len(body)) + body


def common_chunk(
    num_channels: int = 1, bits: int = 16, compression: bytes = b"", *, rate: bytes = bytes.fromhex("400CFA00")
) -> bytes:
    """A "COMM" chunk of AIFF; `rate` begins an 80-bit float, 16000 by default."""
    fields = struct.pack(">HIH", num_channels, 0, bits) + rate.ljust(10, b"\0") + compression
    return chunk(b"COMM", fields, byte_order=">")


def sound_chunk(samples: bytes, *, offset: int = 0, size: int | None = None) -> bytes:
    """An "SSND" chunk of AIFF."""
    return chunk(b"SSND", struct.pack(">II", offset, 0) + bytes(offset) + samples, size=size, byte_order=">")


def aiff_file(*chunks: bytes, form: bytes = b"AIFF") -> bytes:
    """An AIFF or AIFF-C file of these chunks."""
    body = form + b"".join(chunks)
    return b"FORM" + struct.pack(">I", len(body)) + body


def random_samples(sample_format: str, num_samples: int, seed: int = 0) -> bytes:
    """Interleaved samples over the whole range of the format; floats a little beyond full scale."""
    rng = np.random.default_rng(seed)
    if sample_format.startswith("f"):
        dtype = f"{'<' if sample_format.endswith('le') else '>'}f{SAMPLE_FORMATS[sample_format]}"
        return rng.normal(0, 0.5, num_samples).astype(dtype).tobytes()
    return rng.bytes(num_samples * SAMPLE_FORMATS[sample_format])


class CountingBytes:
    """Bytes that note which of them are read. From `fail_at` on, reading fails."""

    def __init__(self, data: bytes, *, fail_at: int | None = None) -> None:
        self.size = len(data)
        self.reads: list[tuple[int, int]] = []
        self._data, self._fail_at = data, fail_at

    def read(self, num_bytes: int, offset: int) -> memoryview:
        assert num_bytes >= 0
        assert offset >= 0
        self.reads.append((offset, offset + num_bytes))
        if self._fail_at is not None and offset + num_bytes > self._fail_at:
            raise FetchError("reading failed: I/O error")
        return memoryview(self._data)[offset : offset + num_bytes]

    def ffmpeg_path(self) -> str:
        raise AssertionError("FFmpeg is not asked")


def parse(data: bytes) -> Facts | None:
    """The facts of the file `data`."""
    return pcm.parse(CountingBytes(data), memoryview(data)[:4096])


def load(source: bytes | Readable, **options: Any) -> tuple[Facts, torch.Tensor]:
    """The facts and the samples of a whole file."""
    readable = Encoded(source) if isinstance(source, bytes) else source
    with readable.open() as file:
        facts = pcm.parse(file, file.read(4096, 0))
        assert facts is not None
        assert facts.num_samples is not None
        return facts, wav.decode(file, facts, 0, facts.num_samples, LoadOptions(**options))


def ffmpeg_decode(data: bytes, dtype: torch.dtype, demuxer: str | None = None, **options: str) -> torch.Tensor:
    """What FFmpeg makes of `data`: (num_channels, num_samples) in float32 or float64."""
    # Interleaved: PyAV's arrays of more than eight planes read beyond them.
    resampler = av.AudioResampler(format="flt" if dtype == torch.float32 else "dbl")
    with av.open(io.BytesIO(data), format=demuxer, options=options) as container:
        num_channels = container.streams.audio[0].codec_context.channels
        frames = [part.to_ndarray() for frame in container.decode(audio=0) for part in resampler.resample(frame)]
    return torch.from_numpy(np.concatenate(frames, axis=1).reshape(-1, num_channels).T.copy())
