"""What the header of a file says about the samples that follow. Pure values, filled by the parsers in `headers`."""

from __future__ import annotations

from dataclasses import dataclass

from aioaudio.audio import Damage
from aioaudio.options import SAMPLE_FORMATS

__all__ = ["Facts", "Pcm"]


@dataclass(frozen=True, slots=True)
class Pcm:
    """Where plain PCM lies in a file: interleaved samples of `sample_format` (a name in `SAMPLE_FORMATS`).

    `offset` is the first byte; `num_bits` is the width that is in use, at most that of the format.
    """

    sample_format: str
    offset: int
    num_bits: int

    @property
    def bytes_per_sample(self) -> int:
        """Bytes of one sample of one channel."""
        return SAMPLE_FORMATS[self.sample_format]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one audio track before it is decoded.

    `container` and `codec` are FFmpeg's names. `channel_layout` is FFmpeg's name, None where the file does not say.
    `num_samples` is the length that the header promises, after the encoder's delay and padding are trimmed, None
    where it promises none; `leading_samples` is how many the decoder gives before the first of these, and `slack`
    how many it may give behind the last, without the promise being wrong: both are dropped. Where it is
    `untrimmed`, that holds with FFmpeg's own trimming turned off, since it would cut the wrong place.
    `seconds` is the length where it is known, but not in samples: links of a chain may have rates of their own.
    `frame_samples` is the length of the longest codec frame; `frames_at` is where those of a
    FLAC begin in the file. `preroll_seconds` is how far before a position
    decoding must begin to be right there, None where seeking is not exact. `pcm` is set for plain PCM. `pieces` are
    byte ranges `[start, stop)` that must be decoded each for itself and joined, None for the file as it stands.
    `demuxer_options` are what FFmpeg's demuxer must be told. `damage` is what the header alone proves. `md5` is the
    digest of the samples at `bits_per_sample`.
    """

    container: str
    codec: str
    sample_rate: int
    num_channels: int
    channel_layout: str | None = None
    bits_per_sample: int | None = None
    num_samples: int | None = None
    seconds: float | None = None
    leading_samples: int = 0
    slack: int = 0
    untrimmed: bool = False
    frame_samples: int = 1
    frames_at: int | None = None
    preroll_seconds: float | None = None
    pcm: Pcm | None = None
    pieces: tuple[tuple[int, int], ...] | None = None
    demuxer_options: tuple[tuple[str, str], ...] = ()
    damage: tuple[Damage, ...] = ()
    md5: bytes | None = None
