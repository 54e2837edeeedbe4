"""What is known of a source without decoding it: our own parsers' facts first, FFmpeg's for the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import av.error
from av.audio.stream import AudioStream
from av.container import InputContainer

from aioaudio.audio import AudioInfo, Track
from aioaudio.decode.facts import Facts
from aioaudio.decode.group import count_samples
from aioaudio.decode.headers import JOINABLE, with_parts
from aioaudio.decode.job import DecodeJob, StopFlag
from aioaudio.decode.prepare import read_facts_of
from aioaudio.decode.probe import probe_options, select_track, track_of
from aioaudio.errors import AudioError
from aioaudio.ffmpeg import captured_log, open_input, seconds, translate

__all__ = ["InfoJob", "info_of", "read_infos"]

# Containers without a stored duration: what FFmpeg gives is file size by bit rate.
_NO_DURATION = {
    "mp3",
    "aac",
    "ac3",
    "eac3",
    "dts",
    "mpegts",
    "mpeg",
    "amr",
    "amrnb",
    "amrwb",
    "loas",
    "latm",
    "mp2",
    "truehd",
}

# Containers whose duration is the time at which they end, counted from zero or from their first packet of any kind:
# sound may begin later.
_FROM_ZERO, _FROM_FIRST = {"matroska,webm", "asf"}, {"flv", "live_flv"}

# FFmpeg's names for what its decoders yield, by the name of the encoded samples.
_DECODED_FORMATS = {
    **dict.fromkeys(("u8", "s8"), "u8"),
    **dict.fromkeys(("s16", "alaw", "mulaw"), "s16"),
    **dict.fromkeys(("s24", "s32"), "s32"),
    "f32": "flt",
    "f64": "dbl",
}

DurationFrom = Literal["header", "estimate", "count"]


@dataclass(frozen=True, slots=True)
class InfoJob:
    """Bytes to describe; `exact` counts their samples."""

    job: DecodeJob
    exact: bool


def read_infos(jobs: Sequence[InfoJob], stops: Sequence[StopFlag]) -> list[AudioInfo | Exception]:
    """Describe each source: its info or its error. Blocks; call it in a decode worker."""
    return [_guarded(job, stop) for job, stop in zip(jobs, stops, strict=True)]


def _guarded(job: InfoJob, stop: StopFlag) -> AudioInfo | Exception:
    try:
        info = _read_info(job.job)
        return _counted(info, count_samples(job.job, stop)) if job.exact else info
    except AudioError as error:
        if error.source is None:
            error.source = job.job.file.name
        return error
    except Exception as error:
        return error


def _counted(info: AudioInfo, num_samples: int) -> AudioInfo:
    return replace(
        info, num_samples=num_samples, duration_seconds=num_samples / info.sample_rate, duration_from="count"
    )


def _read_info(job: DecodeJob) -> AudioInfo:
    name, options = job.file.name, job.options
    with contextlib.ExitStack() as files:
        file = files.enter_context(job.file.open())
        if job.admit is not None:
            job.admit(file)
        facts, _, demuxer = read_facts_of(job, file)
        if facts.container in JOINABLE:
            facts = with_parts(file, facts)
        if facts.pcm is not None and facts.pcm.offset == 0 and facts.container == facts.pcm.sample_format:
            return _from_facts(facts)  # RawPCM: there is no header to ask
        with captured_log() as messages:
            try:
                container = files.enter_context(
                    open_input(file.ffmpeg_path(), format=demuxer, options=probe_options(facts.container))
                )
                return info_of(container, select_track(container, options.track, name), facts)
            except av.error.FFmpegError as error:
                if facts.pcm is not None:  # our parser reads some that FFmpeg refuses
                    return _from_facts(facts)
                raise translate(error, name, messages) from error


def _from_facts(facts: Facts) -> AudioInfo:
    assert facts.pcm is not None
    track = Track(
        index=0,
        codec=facts.codec,
        sample_format=_DECODED_FORMATS[facts.pcm.sample_format.removesuffix("le").removesuffix("be")],
        bits_per_sample=facts.bits_per_sample,
        sample_rate=facts.sample_rate,
        num_channels=facts.num_channels,
        channel_layout=facts.channel_layout or f"{facts.num_channels} channels",
        bit_rate=8 * facts.pcm.bytes_per_sample * facts.num_channels * facts.sample_rate,
        is_default=True,
    )
    assert facts.num_samples is not None
    return _info(facts.container, track, facts, facts.num_samples / facts.sample_rate, "header", {}, (track,))


def info_of(container: InputContainer, stream: AudioStream, facts: Facts) -> AudioInfo:
    tracks = tuple(track_of(i, other) for i, other in enumerate(container.streams.audio))
    index = next(i for i, other in enumerate(container.streams.audio) if other.index == stream.index)
    track = tracks[index]
    if len(tracks) == 1 and track.bits_per_sample is None:
        track = replace(track, bits_per_sample=facts.bits_per_sample)
        tracks = (track,)
    if len(tracks) == 1 and track.bit_rate is None and container.bit_rate:
        track = replace(track, bit_rate=container.bit_rate)
        tracks = (track,)
    length, duration_from = _duration(container, stream, facts)
    tags = {key.lower(): value for key, value in {**container.metadata, **stream.metadata}.items()}
    return _info(facts.container, track, facts, length, duration_from, tags, tracks)


def _duration(container: InputContainer, stream: AudioStream, facts: Facts) -> tuple[float | None, DurationFrom | None]:
    """The length in seconds by our facts, or by what the container says."""
    if facts.num_samples is not None:
        return facts.num_samples / facts.sample_rate, "header"
    if facts.seconds is not None:
        return facts.seconds, "header"
    start = float(seconds(stream.start_time, stream.time_base)) if stream.start_time and stream.time_base else 0.0
    if stream.duration and stream.time_base:
        length = float(seconds(stream.duration, stream.time_base))
    elif container.duration:
        length = container.duration / 1e6
    else:
        return None, None
    if container.format.name in _FROM_FIRST:
        start -= (container.start_time or 0) / 1e6
    if container.format.name in _FROM_ZERO | _FROM_FIRST and 0 < start < length:
        length -= start
    return length, "estimate" if container.format.name in _NO_DURATION else "header"


def _info(
    container: str,
    track: Track,
    facts: Facts,
    length: float | None,
    duration_from: DurationFrom | None,
    tags: dict[str, str],
    tracks: tuple[Track, ...],
) -> AudioInfo:
    return AudioInfo(
        container=container,
        codec=track.codec,
        sample_format=track.sample_format,
        bits_per_sample=track.bits_per_sample,
        sample_rate=track.sample_rate,
        num_channels=track.num_channels,
        channel_layout=track.channel_layout,
        bit_rate=track.bit_rate,
        duration_seconds=length,
        num_samples=facts.num_samples,
        duration_from=duration_from,
        tags=tags,
        tracks=tracks,
    )
