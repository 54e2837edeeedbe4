"""What can be asked of a load: frozen, checked once, passed down unchanged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from aioaudio.audio import as_int, check_number, check_range

__all__ = ["CONTAINERS", "DTYPES", "SAMPLE_FORMATS", "LoadOptions", "RawPCM", "as_channels", "check_timeout"]

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int16, torch.int32)

#: Bytes per sample of each format that RawPCM takes; the names are FFmpeg's demuxers of headerless PCM.
SAMPLE_FORMATS = {
    "u8": 1, "s8": 1,
    "s16le": 2, "s16be": 2, "s24le": 3, "s24be": 3, "s32le": 4, "s32be": 4,
    "f32le": 4, "f32be": 4, "f64le": 8, "f64be": 8,
    "alaw": 1, "mulaw": 1,
}  # fmt: skip

# Wider than any real recording, and narrow enough that no product of two of them overflows FFmpeg's arithmetic.
_MAX_RATE = 768_000
_MAX_CHANNELS = 64


#: Names of FFmpeg's demuxers that hold audio in the file itself. Playlists, scripts, network and device formats are not
#: here. Where FFmpeg has several names for one, each is.
CONTAINERS = tuple(
    """
    3dostr 3g2 3gp aa aac aax ac3 ac4 ace acm act adp ads adx aea afc aiff aix alaw alp amr amrnb amrwb apac apc ape
    apm aptx aptx_hd argo_asf argo_brp asf asf_o ast au avi avr bfstm boa bonk brstm caf codec2 dcstr derf dfpwm dsf
    dss dts dtshd eac3 epaf f32be f32le f64be f64le flac flv fsb fwse g722 g723_1 g726 g726le g728 g729 genh gsm hca
    hcom iff ilbc ircam iss kvag laf latm lc3 live_flv loas lvf m4a m4v matroska mca mj2 mlp mmf mov mp3 mp4 mpc
    mpc8 mpeg mpegts msf mtaf mulaw musx mxf nistsphere nsp nut ogg oma osq paf pvf qcp qoa rka rm rsd rso s16be
    s16le s24be s24le s32be s32le s8 sbc sds sdx shn siff sln smjpeg sol sox spdif svag swf tak truehd tta u8 vag
    voc vpk vqf w64 wady wav wavarc webm wsaud wsd wtv wv wve xa xmd xvag xwma
    """.split()
)


@dataclass(frozen=True, slots=True)
class RawPCM:
    """Headerless PCM, for `format=`: interleaved samples in `sample_format` (such as "s16le"), nothing else."""

    sample_format: str
    sample_rate: int
    num_channels: int = 1

    def __post_init__(self) -> None:
        if self.sample_format not in SAMPLE_FORMATS:
            raise ValueError(f"sample_format must be one of {', '.join(SAMPLE_FORMATS)}, not {self.sample_format!r}")
        _take_int(self, "sample_rate", _MAX_RATE)
        _take_int(self, "num_channels", _MAX_CHANNELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of `load`; their meaning is documented there. None is "as in the source"."""

    start_seconds: float = 0.0
    stop_seconds: float | None = None
    sample_rate: int | None = None
    num_channels: int | None = None
    channels: tuple[int, ...] | None = None
    dtype: torch.dtype = torch.float32
    track: int | str | None = None
    format: str | RawPCM | None = None
    on_damage: Literal["raise", "conceal"] = "raise"
    verify: bool = False
    out: torch.Tensor | None = None
    device: torch.device | None = None
    max_seconds: float | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        check_range(self.start_seconds, self.stop_seconds)
        if self.sample_rate is not None:
            _take_int(self, "sample_rate", _MAX_RATE)
        if self.num_channels is not None:
            _take_int(self, "num_channels", _MAX_CHANNELS)
        self._check_channels()
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(map(str, DTYPES))}, not {self.dtype!r}")
        if self.track is not None and not isinstance(self.track, str) and type(self.track) is not int:
            object.__setattr__(self, "track", as_int("track", self.track, "an index or a language"))
        if self.format is not None and not isinstance(self.format, str | RawPCM):
            raise TypeError(f"format must be the name of an FFmpeg demuxer or a RawPCM, not {self.format!r}")
        if isinstance(self.format, str) and self.format not in CONTAINERS:
            raise ValueError(f"format must be one of {', '.join(CONTAINERS)}, not {self.format!r}")
        if self.on_damage not in ("raise", "conceal"):
            raise ValueError(f"on_damage must be 'raise' or 'conceal', not {self.on_damage!r}")
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds)
        if self.max_seconds is not None and not (math.isfinite(self.max_seconds) and self.max_seconds > 0):
            raise ValueError(f"max_seconds must be finite and positive, not {self.max_seconds!r}")
        if self.max_bytes is not None:
            _take_int(self, "max_bytes", None)
        self._check_out()

    def _check_channels(self) -> None:
        if self.channels is None:
            return
        if self.num_channels is not None:
            raise ValueError("num_channels mixes and channels picks: give one of them")
        if not isinstance(self.channels, tuple) or not self.channels:
            raise TypeError(f"channels must be a sequence of at least one channel index, not {self.channels!r}")
        object.__setattr__(self, "channels", tuple(as_int("channels", c, "channel indices") for c in self.channels))
        if not all(0 <= c < _MAX_CHANNELS for c in self.channels):
            raise ValueError(f"channels must be indices from 0 to {_MAX_CHANNELS - 1}, not {list(self.channels)!r}")

    def _check_out(self) -> None:
        out = self.out
        if out is None:
            return
        if not isinstance(out, torch.Tensor):
            raise TypeError(f"out must be a tensor, not {type(out).__name__}")
        if out.dtype != self.dtype:
            raise ValueError(f"out has dtype {out.dtype}, but dtype={self.dtype} is asked for")
        place = self.device or torch.device("cpu")
        if out.layout != torch.strided or out.device != place:
            where = "the CPU" if place.type == "cpu" else place
            raise ValueError(f"out must be a strided tensor on {where}, not {out.layout} on {out.device}")
        if out.dim() != 2:
            raise ValueError(f"out must have the shape (num_channels, num_samples), not {tuple(out.shape)}")
        if out.requires_grad:
            raise ValueError("out must not require grad: its samples are overwritten")
        expected = self.num_channels if self.channels is None else len(self.channels)
        if expected is not None and out.shape[0] != expected:
            raise ValueError(f"out has {out.shape[0]} channels, but {expected} are asked for")
        if out.is_inference():
            raise ValueError("out must not be an inference tensor: other threads may not write into it")
        if _overlaps(out):
            raise ValueError("out must not overlap itself: several of its elements share one place in memory")


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements of a tensor of two dimensions lie at one place."""
    (rows, columns), (row_stride, column_stride) = tensor.shape, tensor.stride()
    if tensor.numel() < 2:
        return False
    if row_stride == 0 or column_stride == 0:
        return (row_stride == 0 and rows > 1) or (column_stride == 0 and columns > 1)
    divisor = math.gcd(row_stride, column_stride)
    return column_stride // divisor < rows and row_stride // divisor < columns


def as_channels(channels: Sequence[int] | None) -> tuple[int, ...] | None:
    """Indices of channels as `LoadOptions` takes them."""
    if channels is None:
        return None
    try:
        return tuple(channels)
    except TypeError:
        raise TypeError(f"channels must be a sequence of channel indices, not {channels!r}") from None


def check_timeout(timeout: float | None) -> None:
    """Raise ValueError unless `timeout` is None or a positive number of seconds."""
    if timeout is not None:
        check_number("timeout", timeout)
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")


def _take_int(options: object, name: str, maximum: int | None) -> None:
    """Check an integer of frozen options, and put a plain one in the place of NumPy's and the like."""
    given = getattr(options, name)
    if type(given) is not int:
        object.__setattr__(options, name, as_int(name, given))
    value = getattr(options, name)
    if value < 1 or (maximum is not None and value > maximum):
        upto = "" if maximum is None else f" and at most {maximum}"
        raise ValueError(f"{name} must be at least 1{upto}, not {value}")
