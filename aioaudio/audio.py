"""The values that aioaudio gives and takes. All are frozen and pickle; none does I/O."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import torch

__all__ = ["Audio", "AudioInfo", "Batch", "Clip", "Damage", "Failure", "StreamEvent", "Track"]


@dataclass(frozen=True, slots=True)
class Damage:
    """A place where a source is damaged.

    `at_seconds` is the position on the timeline of the whole source, None where it cannot be told; `kind` is one of
    "truncated" (the end is missing), "undecodable" (a part could not be decoded), "checksum" (a part decoded, but
    not to what was encoded) and "junk" (bytes that are no audio, with nothing missing);
    `message` is for people.
    """

    at_seconds: float | None
    kind: Literal["truncated", "undecodable", "checksum", "junk"]
    message: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audio:
    """Decoded audio. Unpacks to `(waveform, sample_rate)`.

    `waveform` is a contiguous tensor `(num_channels, num_samples)` (for `out=`, the caller's own tensor); in float
    dtypes full scale is ±1, in integer dtypes the range of the type. `sample_rate` is in Hz. `start_seconds` is where
    the waveform begins on the timeline of the source. `source` names the source. `damage` lists what is missing or
    wrong. `verified` says which checksum the samples were found to match, None where none was asked for or stored.
    `clip` is the `Clip` that it was loaded from, None where that was a plain source for `load`. `events` are what a
    radio station has told while these samples were sent.
    """

    waveform: torch.Tensor
    sample_rate: int
    start_seconds: float = 0.0
    source: str = ""
    damage: tuple[Damage, ...] = ()
    verified: Literal["md5", "crc"] | None = None
    clip: Clip | None = None
    events: tuple[StreamEvent, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.waveform, self.sample_rate))

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return int(self.waveform.shape[0])

    @property
    def num_samples(self) -> int:
        """Number of samples in each channel."""
        return int(self.waveform.shape[1])

    @property
    def duration_seconds(self) -> float:
        """Length in seconds."""
        return self.num_samples / self.sample_rate

    def __repr__(self) -> str:
        dtype = str(self.waveform.dtype).removeprefix("torch.")
        extra = f", damage={len(self.damage)}" if self.damage else ""
        extra += f", verified={self.verified!r}" if self.verified else ""
        extra += f", events={len(self.events)}" if self.events else ""
        return (
            f"Audio({self.source!r}, {tuple(self.waveform.shape)} {dtype}, {self.sample_rate} Hz, "
            f"{self.duration_seconds:.3f} s{extra})"
        )


@dataclass(frozen=True, slots=True)
class Track:
    """One audio track of a container.

    `index` is what `track=` takes: the position among the audio tracks, from 0. `language` is what the container
    says (usually ISO 639-2, such as "eng"). The other fields are as in `AudioInfo`.
    """

    index: int
    codec: str
    sample_format: str
    bits_per_sample: int | None
    sample_rate: int
    num_channels: int
    channel_layout: str
    bit_rate: int | None = None
    language: str | None = None
    title: str | None = None
    is_default: bool = False


class Tags(Mapping[str, str]):
    """Text tags by their names: a mapping that does not change, so it can be hashed. Equal to a dict of the same."""

    __slots__ = ("_tags",)

    def __init__(self, tags: Mapping[str, str]) -> None:
        self._tags = dict(tags)

    def __getitem__(self, name: str) -> str:
        return self._tags[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tags)

    def __len__(self) -> int:
        return len(self._tags)

    def __hash__(self) -> int:
        return hash(frozenset(self._tags.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Tags, (self._tags,)

    def __repr__(self) -> str:
        return repr(self._tags)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """What a radio station tells, or what happens to it, at a place of its stream.

    `at_seconds` is that place on the timeline of the stream, to a frame of its codec (of Ogg, to a page). `kind` is
    "station" (at the start: what the station says of itself, such as "icy-name", and its "content-type"), "metadata"
    (mostly "StreamTitle": what is played from here on) or "reconnect" (it broke off here, and what follows came
    "seconds" later, from a new connection; with what "station" has). `fields` are these texts by their names; they do
    not change.
    """

    at_seconds: float
    kind: Literal["station", "metadata", "reconnect"]
    fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", Tags(self.fields))


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What is known of a source without decoding it all.

    `container` and `codec` are FFmpeg's names; `sample_format` is FFmpeg's name for what the decoder yields;
    `bits_per_sample` is the width of the encoded samples, None for lossy codecs; `sample_rate` is in Hz; `bit_rate` in
    bits per second. `duration_seconds` and `num_samples` are the best that is known, None where nothing is, and
    `duration_from` says where they come from: "header" (stored in the file), "estimate" (from size and bit rate) or
    "count" (`exact=True`, or known to the sample). `tags` are text tags, keys in lower case; they do not
    change, and an info can be hashed.
    `tracks` are all the audio tracks; the fields above are those of the track that was asked for.
    """

    container: str
    codec: str
    sample_format: str
    bits_per_sample: int | None
    sample_rate: int
    num_channels: int
    channel_layout: str
    bit_rate: int | None
    duration_seconds: float | None
    num_samples: int | None
    duration_from: Literal["header", "estimate", "count"] | None
    tags: Mapping[str, str] = field(default_factory=dict)
    tracks: tuple[Track, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", Tags(self.tags))


@dataclass(frozen=True, slots=True)
class Clip:
    """A part of a source, with the caller's own data beside it.

    The range is `[start_seconds, stop_seconds)`; `stop_seconds=None` is the end. `track` is as in `load`. `fields` are
    the caller's own, such as a transcript: they come back untouched. `source` is anything that `load` takes.
    """

    source: Any
    start_seconds: float = 0.0
    stop_seconds: float | None = None
    track: int | str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_range(self.start_seconds, self.stop_seconds)


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """A clip that could not be loaded.

    `error` is what `load` would have raised; its notes name the source and the stage. `stage` is "fetch" where the
    bytes could not be had, "decode" where they are not what they should be.
    """

    clip: Clip
    error: Exception
    stage: Literal["fetch", "decode"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch:
    """Clips that were loaded together.

    `waveforms` depends on `collate`: "padded" is a tensor `(num_clips, num_channels, num_samples)` with zeros behind
    each clip, "jagged" a `torch.nested` tensor of jagged layout `(num_clips, num_channels, *)`, "list" a list of
    tensors `(num_channels, num_samples)`. `lengths` is int64 `(num_clips,)`: samples of each clip, on the device of
    `waveforms`. `sample_rate` is in Hz.
    `clips` are what was asked for, in the order of the rows, and `start_seconds` where each row begins in its source.
    `failures` are the clips that failed since the batch before; they have no row.
    """

    waveforms: torch.Tensor | list[torch.Tensor]
    lengths: torch.Tensor
    sample_rate: int
    clips: tuple[Clip, ...]
    start_seconds: tuple[float, ...] = ()
    failures: tuple[Failure, ...] = ()

    def __len__(self) -> int:
        return len(self.clips)

    def mask(self) -> torch.Tensor:
        """Bool `(num_clips, num_samples)`: True where a sample is audio, False where it is padding.

        For padded waveforms; the others have no padding, and raise ValueError.
        """
        if not isinstance(self.waveforms, torch.Tensor) or self.waveforms.is_nested:
            raise ValueError("only a padded batch has a mask")
        positions = torch.arange(self.waveforms.shape[-1], device=self.lengths.device)
        return positions < self.lengths[:, None]

    def to(self, device: torch.device | str) -> Self:
        """The batch with its tensors on another device."""
        waveforms = self.waveforms
        moved = waveforms.to(device) if isinstance(waveforms, torch.Tensor) else [one.to(device) for one in waveforms]
        return replace(self, waveforms=moved, lengths=self.lengths.to(device))

    def __repr__(self) -> str:
        if isinstance(self.waveforms, list):
            shape, dtype = f"{len(self.waveforms)} tensors", self.waveforms[0].dtype if self.waveforms else None
        else:
            shape, dtype = str(tuple(self.waveforms.shape)), self.waveforms.dtype
        extra = f", failures={len(self.failures)}" if self.failures else ""
        return f"Batch({shape} {str(dtype).removeprefix('torch.')}, {self.sample_rate} Hz{extra})"


def clip_of(source: Any, start_seconds: float, stop_seconds: float | None, track: int | str | None) -> Clip:
    """The part of a source that was asked for; a Clip as it is. Raises ValueError for a range of a Clip's own."""
    if not isinstance(source, Clip):
        return Clip(source, start_seconds, stop_seconds, track)
    if start_seconds != 0 or stop_seconds is not None or track is not None:
        raise ValueError("a Clip brings its own start_seconds, stop_seconds and track")
    return source


def sample_at(seconds: float, sample_rate: int) -> int:
    """The sample at a place, half up."""
    return math.floor(seconds * sample_rate + 0.5)


def samples_in(seconds: float, sample_rate: int) -> int:
    """How many samples a stretch is rounded to: at least one."""
    return max(1, sample_at(seconds, sample_rate))


def as_int(name: str, value: object, kind: str = "an integer") -> int:
    """`value` as a plain int, NumPy's integers included. Raises TypeError for what is none; bool is none."""
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            return operator.index(value)  # type: ignore[arg-type]
    raise TypeError(f"{name} must be {kind}, not {value!r}")


def as_number(name: str, value: object) -> int | float:
    """`value` as a plain int or float, NumPy's numbers included. Raises TypeError for what is none; bool is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def check_range(start_seconds: float, stop_seconds: float | None) -> None:
    """Raise ValueError unless `[start_seconds, stop_seconds)` is a range of finite, non-negative seconds."""
    check_number("start_seconds", start_seconds)
    if stop_seconds is not None:
        check_number("stop_seconds", stop_seconds)
    if not (math.isfinite(start_seconds) and start_seconds >= 0):
        raise ValueError(f"start_seconds must be finite and not negative, not {start_seconds!r}")
    if stop_seconds is not None and not (math.isfinite(stop_seconds) and stop_seconds >= start_seconds):
        raise ValueError(
            f"stop_seconds must be finite and not before start_seconds ({start_seconds!r}), not {stop_seconds!r}"
        )


def check_number(name: str, value: object) -> None:
    """Raise TypeError unless `value` is a real number; bool is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {value!r}")
