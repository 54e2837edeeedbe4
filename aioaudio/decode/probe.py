"""What FFmpeg says of a file before it is decoded, for containers that no parser of ours reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import av
import av.error
from av.audio.stream import AudioStream
from av.container import InputContainer

from aioaudio.audio import Track
from aioaudio.decode.facts import Facts
from aioaudio.errors import UnsupportedAudioError
from aioaudio.ffmpeg import captured_log, open_input, seconds, translate

__all__ = ["MP4_NAMES", "Probe", "facts_of", "first_timestamp", "probe", "select_track", "stream_at", "track_of"]

MP4_NAMES = ("mov", "mp4", "m4a", "3gp", "3g2", "mj2")

# Containers whose track duration is exact to the sample, and what their codecs' decoders may yield beyond it.
_EXACT = {
    **dict.fromkeys(MP4_NAMES, 2 * 2048),
    "tta": 0,
    "ape": 0,
    "tak": 0,
    "flac": 0,
}

# How long decoding must go on before a position to be right there, where a seek by FFmpeg is exact at all.
_PREROLL_SECONDS = {"aac": 0.2, "alac": 0.0}


@dataclass(frozen=True, slots=True)
class Probe:
    """The facts of one track, FFmpeg's index of its stream, and its place among the audio tracks."""

    facts: Facts
    stream_index: int
    track: int


def probe(path: str | bytes, name: str, *, demuxer: str | None = None, track: int | str | None = None) -> Probe:
    """Ask FFmpeg about one track of the file. Raises AudioError."""
    with captured_log() as messages:
        try:
            with open_input(path, format=demuxer, options=probe_options(demuxer)) as container:
                stream = select_track(container, track, name)
                track_index = [other.index for other in container.streams.audio].index(stream.index)
                return Probe(facts_of(container, stream), stream.index, track_index)
        except av.error.FFmpegError as error:
            raise translate(error, name, messages) from error


def probe_options(demuxer: str | None) -> dict[str, str]:
    """Demuxer options for a probe: FFmpeg reads far more of a WAV than it needs."""
    return {"probesize": "32768"} if demuxer == "wav" else {}


def select_track(container: InputContainer, track: int | str | None, name: str) -> AudioStream:
    """The stream that `track` (index or language) asks for; None is the default track. Raises UnsupportedAudioError."""
    streams = container.streams.audio
    if not streams:
        others = sorted({stream.type for stream in container.streams})
        raise UnsupportedAudioError(f"has no audio track (only {', '.join(others) or 'nothing'})", source=name)
    stream = _find_track(container, track)
    if stream is None:
        languages = [language_of(stream) for stream in streams]
        known = ", ".join(f"{i} ({language})" if language else str(i) for i, language in enumerate(languages))
        raise UnsupportedAudioError(f"has no track {track!r}; its audio tracks are {known}", source=name)
    return _decodable(stream, name)


def _find_track(container: InputContainer, track: int | str | None) -> AudioStream | None:
    streams = container.streams.audio
    if track is None:
        best = container.streams.best("audio")
        return best if isinstance(best, AudioStream) else streams[0]
    if isinstance(track, int):
        return streams[track] if 0 <= track < len(streams) else None
    return next((stream for stream in streams if stream.language == track), None)


def _decodable(stream: AudioStream, name: str) -> AudioStream:
    codec: av.AudioCodecContext | None = stream.codec_context  # None where FFmpeg has no decoder
    if codec is None:
        raise UnsupportedAudioError("there is no decoder for its codec", source=name)
    return stream


def stream_at(container: InputContainer, stream_index: int | None, name: str) -> AudioStream:
    """The audio stream with FFmpeg's index `stream_index`, None for the default one. Raises UnsupportedAudioError."""
    stream = select_track(container, None, name) if stream_index is None else container.streams[stream_index]
    if not isinstance(stream, AudioStream):
        raise UnsupportedAudioError(f"stream {stream_index} is no audio track", source=name)
    return _decodable(stream, name)


def facts_of(container: InputContainer, stream: AudioStream) -> Facts:
    """The facts of `stream` as FFmpeg tells them."""
    codec = stream.codec_context
    container_name, rate = container.format.name, codec.sample_rate or 0
    exact = _EXACT.get(container_name.split(",")[0])  # FFmpeg's first name for it; the others are its kin's
    num_samples = None
    if exact is not None and stream.duration is not None and stream.time_base is not None and rate:
        length = seconds(stream.duration, stream.time_base) * rate
        start = seconds(stream.start_time or 0, stream.time_base) * rate
        if 0 < start <= exact:  # iTunes counts the priming in the duration and starts the track behind it
            length -= start
        if length > 0:
            num_samples = round(length)
    return Facts(
        container=container_name,
        codec=codec.name,
        sample_rate=rate,
        num_channels=codec.channels,
        channel_layout=layout_name(codec),
        bits_per_sample=bits_per_sample(codec),
        num_samples=num_samples,
        slack=exact or 0,
        frame_samples=max(codec.frame_size or 0, 1),
        preroll_seconds=_PREROLL_SECONDS.get(codec.name) if exact else None,
    )


def layout_name(codec: av.AudioCodecContext) -> str | None:
    """FFmpeg's name of the layout, None where the file gives no positions; one channel is mono, two are stereo."""
    name = codec.layout.name
    if not name.endswith(" channels"):
        return name or None
    return {1: "mono", 2: "stereo"}.get(codec.channels)


def bits_per_sample(codec: av.AudioCodecContext) -> int | None:
    """Width of the encoded samples; None for lossy codecs, and where PyAV does not tell."""
    if codec.name in ("pcm_alaw", "pcm_mulaw"):
        return 8
    width = re.match(r"pcm_[usf](\d+)", codec.name)
    if width is not None:
        return int(width[1])
    sample_format: av.AudioFormat | None = codec.format  # None if the decoder made sense of no frame
    # 24-bit samples come in 32-bit words: only narrow words tell their width.
    return sample_format.bits if sample_format and codec.codec.lossless and sample_format.bits <= 16 else None


def language_of(stream: AudioStream) -> str | None:
    """The language that the container gives the track; "und" is none."""
    return None if stream.language in (None, "", "und") else stream.language


def track_of(index: int, stream: AudioStream) -> Track:
    """`stream` as a value; without its format where FFmpeg has no decoder for it."""
    track = Track(
        index=index,
        codec="unknown",
        sample_format="",
        bits_per_sample=None,
        sample_rate=0,
        num_channels=0,
        channel_layout="",
        language=language_of(stream),
        title=stream.metadata.get("title"),
        is_default=bool(stream.disposition & av.stream.Disposition.default),
    )
    codec: av.AudioCodecContext | None = stream.codec_context
    if codec is None:
        return track
    sample_format: av.AudioFormat | None = codec.format  # None if the decoder made sense of no frame
    return replace(
        track,
        codec=codec.codec.canonical_name,
        sample_format=sample_format.name if sample_format else "",
        bits_per_sample=bits_per_sample(codec),
        sample_rate=codec.sample_rate or 0,
        num_channels=codec.channels,
        channel_layout=layout_name(codec) or codec.layout.name,
        bit_rate=codec.bit_rate or None,
    )


def first_timestamp(path: str | bytes, name: str, facts: Facts, stream_index: int | None) -> int:
    """Timestamp, in samples, of the first sample of the whole decode: what seeks are counted from.

    It is the least of timestamp less count over the first second: `stream.start_time` is wrong for some Vorbis and M4A
    files, and single frames are late.
    """
    offsets, count = [], 0
    with captured_log() as messages:
        try:
            with open_input(path, options=dict(facts.demuxer_options)) as container:
                stream = stream_at(container, stream_index, name)
                for packet in container.demux(stream):
                    for frame in stream.decode(packet):
                        if frame.pts is not None and frame.time_base is not None:
                            offsets.append(round(seconds(frame.pts, frame.time_base) * facts.sample_rate) - count)
                        count += frame.samples
                    if count > facts.sample_rate:
                        break
        except av.error.FFmpegError as error:
            raise translate(error, name, messages) from error
    return min(offsets, default=0)
