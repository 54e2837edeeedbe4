"""Audio files that know what is in them, made with PyAV from the signals of `signals`, each once in a test run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import soundfile
import torch
from signals import DATA, Array, Signal, make_signal

__all__ = ["DATA", "KINDS", "Kind", "Media", "MediaLibrary"]


@dataclass(frozen=True, eq=False)
class Media:
    """An audio file and the truth about it.

    `samples` is what the encoder was given: float64 `(num_channels, num_samples)`, full scale ±1, quantised to
    `sample_format`. With `lossless` a decoder returns exactly these values. `exact_length` says whether the file
    records its length to the sample; where it does not, a decoder returns up to a few frames more. Opus always
    decodes at 48 kHz.
    """

    path: Path
    kind: str
    codec: str
    sample_rate: int
    samples: torch.Tensor
    sample_format: str
    lossless: bool
    exact_length: bool
    language: str | None = None

    @property
    def num_channels(self) -> int:
        return int(self.samples.shape[0])

    @property
    def num_samples(self) -> int:
        return int(self.samples.shape[1])

    @property
    def bits(self) -> int | None:
        """Width of the integer samples, None for float and for lossy codecs."""
        return _BITS.get(self.sample_format) if self.lossless else None

    def integers(self) -> torch.Tensor:
        """The samples as int64 in the range of `bits`."""
        assert self.bits is not None
        return (self.samples * 2 ** (self.bits - 1)).to(torch.int64)


_BITS = {"u8": 8, "s16": 16, "s24": 24, "s32": 32}


def _pcm(ending: str) -> dict[str, tuple[str, str]]:
    formats = {"s16": "s16", "s24": "s32", "s32": "s32", "f32": "flt", "f64": "dbl"}
    return {name: (f"pcm_{name}{ending}", frame_format) for name, frame_format in formats.items()}


@dataclass(frozen=True)
class Kind:
    """How one kind of file is made: FFmpeg's muxer, and for each sample format its encoder and that one's input."""

    muxer: str
    suffix: str
    encoders: Mapping[str, tuple[str, str]]
    lossless: bool = True
    exact_length: bool = True
    options: Mapping[str, str] = field(default_factory=dict)


def _lossy(muxer: str, suffix: str, encoder: str, frame_format: str = "fltp", *, exact_length: bool) -> Kind:
    return Kind(muxer, suffix, {"f32": (encoder, frame_format)}, lossless=False, exact_length=exact_length)


_PCM_LE = {"u8": ("pcm_u8", "u8"), **_pcm("le")}
_FLAC = {"s16": ("flac", "s16"), "s24": ("flac", "s32")}

#: Every kind that `MediaLibrary.make` knows. The first sample format of each is its default.
KINDS: Mapping[str, Kind] = {
    "wav": Kind("wav", ".wav", {"s16": _PCM_LE["s16"], **_PCM_LE}),
    "rf64": Kind("wav", ".rf64", {"s16": _PCM_LE["s16"], **_PCM_LE}, options={"rf64": "always"}),
    "w64": Kind("w64", ".w64", {"s16": _PCM_LE["s16"], **_PCM_LE}),
    "aiff": Kind("aiff", ".aiff", _pcm("be")),
    "au": Kind("au", ".au", _pcm("be")),
    "caf": Kind("caf", ".caf", _pcm("le")),
    "flac": Kind("flac", ".flac", _FLAC),
    "flac-ogg": Kind("ogg", ".oga", _FLAC),
    "flac-mka": Kind("matroska", ".mka", _FLAC),
    "alac": Kind("ipod", ".m4a", {"s16": ("alac", "s16p"), "s24": ("alac", "s32p")}),
    "wavpack": Kind(
        "wv",
        ".wv",
        {"s16": ("wavpack", "s16p"), "u8": ("wavpack", "u8p"), "s32": ("wavpack", "s32p"), "f32": ("wavpack", "fltp")},
    ),
    "tta": Kind("tta", ".tta", {"s16": ("tta", "s16"), "u8": ("tta", "u8"), "s24": ("tta", "s32")}),
    "vorbis": _lossy("ogg", ".ogg", "libvorbis", exact_length=True),
    "opus": _lossy("ogg", ".opus", "libopus", "flt", exact_length=True),
    "opus-webm": _lossy("webm", ".webm", "libopus", "flt", exact_length=True),
    "opus-mka": _lossy("matroska", ".mka", "libopus", "flt", exact_length=True),
    "mp3": _lossy("mp3", ".mp3", "libmp3lame", exact_length=True),
    "mp2": _lossy("mp2", ".mp2", "mp2", "s16", exact_length=False),
    "aac": _lossy("ipod", ".m4a", "aac", exact_length=True),
    "adts": _lossy("adts", ".aac", "aac", exact_length=False),
    "ac3": _lossy("ac3", ".ac3", "ac3", exact_length=False),
}


class MediaLibrary:
    """Makes media under `folder`, each once: the same arguments give the same `Media` again.

    With `bit_exact` they are the same bytes in every run: FFmpeg's muxers then write no random numbers.
    """

    def __init__(self, folder: Path, *, bit_exact: bool = False) -> None:
        self._folder = folder
        self._bit_exact = bit_exact
        self._made: dict[tuple[Any, ...], Any] = {}

    def make(
        self,
        kind: str,
        *,
        seconds: float = 2.0,
        num_samples: int | None = None,
        sample_rate: int = 48_000,
        channels: int = 1,
        sample_format: str | None = None,
        bit_rate: int | None = None,
        quality: float | None = None,
        tag: bool = True,
        signal: Signal = "speech",
        seed: int = 0,
    ) -> Media:
        """A file of `kind`, `num_samples` or `seconds` long.

        `bit_rate` is in bits per second (constant for MP3), `quality` asks MP3 for a variable one (0, the best, to 9).
        `tag=False` leaves out the Xing or Info frame of an MP3, which holds its length and the encoder's delay.
        """
        recipe = KINDS[kind]
        sample_format = sample_format or next(iter(recipe.encoders))
        length = round(seconds * sample_rate) if num_samples is None else num_samples
        key = (kind, length, sample_rate, channels, sample_format, bit_rate, quality, tag, signal, seed)
        if key not in self._made:
            samples = _quantise(make_signal(signal, length, sample_rate, channels, seed), sample_format)
            media = Media(
                path=self._new_path(kind, recipe.suffix),
                kind=kind,
                codec=recipe.encoders[sample_format][0].removeprefix("lib").replace("mp3lame", "mp3"),
                sample_rate=sample_rate,
                samples=torch.from_numpy(samples),
                sample_format=sample_format,
                lossless=recipe.lossless,
                exact_length=recipe.exact_length and tag,
            )
            _write(recipe, media, bit_rate, quality, tag, bit_exact=self._bit_exact)
            self._made[key] = media
        return cast("Media", self._made[key])

    def make_tracks(self, languages: tuple[str, ...] = ("eng", "fra"), *, seconds: float = 2.0) -> tuple[Media, ...]:
        """One Matroska file with a FLAC track for each language, each with a signal, rate and channels of its own."""
        key = ("tracks", languages, seconds)
        if key not in self._made:
            path = self._new_path("tracks", ".mka")
            tracks = tuple(_track_media(path, index, language, seconds) for index, language in enumerate(languages))
            _write_tracks(path, tracks)
            self._made[key] = tracks
        return cast("tuple[Media, ...]", self._made[key])

    def _new_path(self, kind: str, suffix: str) -> Path:
        return self._folder / f"{kind}-{len(self._made)}{suffix}"


def _write(
    recipe: Kind, media: Media, bit_rate: int | None, quality: float | None, tag: bool, *, bit_exact: bool
) -> None:
    encoder, frame_format = recipe.encoders[media.sample_format]
    if encoder == "libvorbis":
        _write_vorbis(media)
        return
    options = dict(recipe.options) if tag else {**recipe.options, "write_xing": "0", "id3v2_version": "0"}
    if bit_exact:
        options["fflags"] = "+bitexact"
    with av.open(str(media.path), "w", format=recipe.muxer, options=options) as container:
        track = _Track(container, encoder, frame_format, media, bit_rate, quality)
        for packet in track.encode():
            container.mux(packet)


def _track_media(path: Path, index: int, language: str, seconds: float) -> Media:
    rate = (44_100, 48_000, 22_050)[index % 3]
    samples = _quantise(make_signal("speech", round(seconds * rate), rate, 1 + index % 2, seed=index), "s16")
    return Media(path, "tracks", "flac", rate, torch.from_numpy(samples), "s16", True, True, language)


def _write_tracks(path: Path, tracks: tuple[Media, ...]) -> None:
    with av.open(str(path), "w", format="matroska") as container:
        encoders = [_Track(container, "flac", "s16", media) for media in tracks]
        for encoder, media in zip(encoders, tracks, strict=True):
            encoder.stream.metadata["language"] = media.language or ""
        for encoder in encoders:
            for packet in encoder.encode():
                container.mux(packet)


class _Track:
    """One audio stream of an output container, and its encoder."""

    def __init__(
        self,
        container: av.container.OutputContainer,
        encoder: str,
        frame_format: str,
        media: Media,
        bit_rate: int | None = None,
        quality: float | None = None,
    ) -> None:
        # "NC" is N channels without places, which PCM takes and codecs with layouts of their own refuse.
        self._layout = _LAYOUTS.get(media.num_channels, f"{media.num_channels}C")
        self._format, self._media = frame_format, media
        stream = container.add_stream(encoder, rate=media.sample_rate, layout=self._layout, format=frame_format)
        assert isinstance(stream, av.AudioStream)
        self.stream = stream
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        if quality is not None:
            # FFmpeg counts quality in units of 1/118, its FF_QP2LAMBDA.
            stream.codec_context.options = {"flags": "+qscale", "global_quality": str(round(quality * 118))}

    def encode(self) -> Iterator[av.Packet[Any]]:
        values = _to_frame_values(self._media.samples.numpy(), self._format)
        for start in range(0, values.shape[1], 4096):
            block = values[:, start : start + 4096]
            if not self._format.endswith("p"):
                block = block.T.reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block), format=self._format, layout=self._layout)
            frame.sample_rate, frame.pts = self._media.sample_rate, start
            yield from self.stream.encode(frame)
        yield from self.stream.encode(None)


_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1", 16: "hexadecagonal"}


def _quantise(signal: Array, sample_format: str) -> Array:
    """Round float64 samples to what `sample_format` can hold."""
    if sample_format in _BITS:
        scale = 2.0 ** (_BITS[sample_format] - 1)
        return np.clip(np.round(signal * scale), -scale, scale - 1) / scale
    return signal.astype(np.float32).astype(np.float64) if sample_format == "f32" else signal


def _to_frame_values(samples: Array, frame_format: str) -> Array:
    """Float64 samples as the values of FFmpeg's `frame_format`."""
    match frame_format.removesuffix("p"):
        case "flt":
            return samples.astype(np.float32)
        case "dbl":
            return samples
        case "u8":
            return (samples * 128 + 128).astype(np.uint8)
        case "s16":
            return np.clip(np.round(samples * 2.0**15), -(2**15), 2**15 - 1).astype(np.int16)
        case _:
            return (samples * 2.0**31).astype(np.int32)


def _write_vorbis(media: Media) -> None:
    # PyAV's wheels have only FFmpeg's own Vorbis encoder, which is experimental; libsndfile brings libvorbis.
    ordered = media.samples.numpy()[_VORBIS_ORDER.get(media.num_channels, slice(None))]
    with soundfile.SoundFile(media.path, "w", media.sample_rate, len(ordered), "VORBIS", format="OGG") as file:
        for start in range(0, ordered.shape[1], 4096):
            file.write(ordered[:, start : start + 4096].T)


# Vorbis stores surround channels in an order of its own, which libsndfile leaves to its caller.
_VORBIS_ORDER = {3: [0, 2, 1], 5: [0, 2, 1, 3, 4], 6: [0, 2, 1, 4, 5, 3]}
