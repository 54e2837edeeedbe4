"""The general engine: PyAV's frame loop. Slow beside busy threads, complete in what it accepts, exact in what it says.

The other engines are held equal to this one, and leave to it whatever they are not sure of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import av
import av.error
import torch
from av.audio.stream import AudioStream
from av.container import InputContainer

from aioaudio.audio import Damage
from aioaudio.decode.damage import Failure, about_audio, assess, assess_so_far, is_loss
from aioaudio.decode.facts import Facts
from aioaudio.decode.job import StopFlag, check_stop
from aioaudio.decode.plan import Plan, make_plan
from aioaudio.decode.prepare import Piece
from aioaudio.decode.probe import stream_at
from aioaudio.decode.segments import Segment, encoded_samples, frame_samples
from aioaudio.errors import CorruptAudioError, LimitError
from aioaudio.ffmpeg import LogMessage, captured_log, open_input, translate
from aioaudio.options import LoadOptions

__all__ = ["FrameDecode", "FrameLoop", "Frames", "decode_frames", "mpeg_sample_rate"]

Verified = Literal["md5", "crc"] | None

# Packets that raise, one after another, before the rest of the file is given up.
_MAX_ERRORS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameDecode:
    """What to decode: `pieces` one after another as one track, samples of `facts` as `options` ask."""

    pieces: Iterable[Piece]
    name: str
    facts: Facts
    options: LoadOptions
    dtype: torch.dtype
    demuxer: str | None = None
    stream_index: int | None = None
    count_only: bool = False


@dataclass(frozen=True, slots=True)
class Frames:
    """`samples` (num_channels, num_samples) are those that `plan` takes from the source, before mixing and resampling;
    `facts` are corrected by what the decoder yields; `num_samples` is how far decoding came."""

    samples: torch.Tensor
    facts: Facts
    plan: Plan
    num_samples: int
    damage: tuple[Damage, ...]
    verified: Verified


def decode_frames(task: FrameDecode, stop: StopFlag) -> Frames:
    """Decode frame by frame. Raises AudioError where nothing decodes; damage is returned, not raised."""
    loop = FrameLoop(task, stop)
    with captured_log() as loop.messages:
        for _ in loop.steps():
            pass
    return loop.finish()


class FrameLoop:
    """The loop over all packets, which can be left between any two of them, and closed by closing `steps`.

    `segments` holds what has been decoded. `messages` is where FFmpeg's log is captured while a step is made.
    """

    def __init__(self, task: FrameDecode, stop: StopFlag | None) -> None:
        self.task, self.stop = task, stop
        self.messages: list[LogMessage] = []
        self.facts = task.facts
        self.plan = make_plan(task.facts, task.options)
        self.piece, self.piece_samples = task.facts, 0
        self.segments: list[Segment] = []
        self.failures: list[Failure] = []
        self.whole = True
        self.md5 = hashlib.md5(usedforsecurity=False) if task.options.verify and task.facts.md5 else None
        self.checked = False

    @property
    def num_samples(self) -> int:
        """Samples so far, at the rate of the first segment."""
        rate = self.facts.sample_rate
        return sum(segment.num_samples * rate // segment.sample_rate for segment in self.segments)

    def steps(self) -> Generator[None]:
        """Decode, packet by packet. Raises AudioError, and what `check_stop` raises."""
        for piece in self.task.pieces:
            yield from self._run(piece)
            if not self.whole:
                break

    def _run(self, piece: Piece) -> Iterator[None]:
        verify = {"err_detect": "crccheck"} if self.task.options.verify else {}
        try:
            options = {**dict(piece.facts.demuxer_options), **verify}
            with self._open(piece, options) as container:
                stream = self._select(piece, container)
                stream.codec_context.thread_count = 1
                untrimmed = {"flags2": "+skip_manual"} if piece.facts.untrimmed else {}
                stream.codec_context.options = {**verify, **untrimmed}
                if verify:
                    self.checked = stream.codec_context.name in ("flac", "wavpack") or container.format.name == "ogg"
                yield from self._demux(container, stream)
        except av.error.FFmpegError as error:
            raise translate(error, self.task.name, self.messages) from error

    def _open(self, piece: Piece, options: dict[str, str]) -> InputContainer:
        return open_input(piece.path, format=self.task.demuxer, options=options)

    def _select(self, piece: Piece, container: InputContainer) -> AudioStream:
        """The stream to decode; from now on `self.piece` are the facts of what comes."""
        self._begin(piece.facts)
        return stream_at(container, self.task.stream_index, self.task.name)

    def _begin(self, facts: Facts) -> None:
        self.piece, self.piece_samples = facts, -facts.leading_samples

    def _demux(self, container: InputContainer, stream: AudioStream) -> Iterator[None]:
        names = stream.codec_context.name, self.piece.container  # PyAV's name for it is the one that it was given
        self.messages.clear()
        for _ in range(_MAX_ERRORS):
            try:
                for packet in container.demux(stream):
                    self._packet(stream, packet, names)
                    yield
                    if self._enough():
                        self.whole = False
                        return
            except av.error.EOFError:
                return
            except av.error.FFmpegError as error:
                self.failures.append(Failure(self.num_samples, self.num_samples, error.strerror or str(error)))
            else:
                return

    def _packet(self, stream: AudioStream, packet: av.Packet[AudioStream], names: tuple[str, str]) -> None:
        before = self.num_samples
        head = bytes(memoryview(packet)[:4]) if packet.size else b""
        error_text = None
        try:
            frames = stream.decode(packet)
        except av.error.EOFError:
            frames = []
        except av.error.FFmpegError as error:
            frames, error_text = [], error.strerror or str(error)
        for frame in frames:
            # FFmpeg's MPEG decoders give the first frame after a change the rate of the one before it.
            rate = mpeg_sample_rate(head) if names[0].startswith("mp") else None
            self._add(frame, rate or frame.sample_rate)
        said = about_audio(self.messages, *names)
        self.messages.clear()
        if error_text is not None or said:
            message = said[0] if said else str(error_text)
            self.failures.append(Failure(before, self.num_samples, message, head, packet.size))
        self._check()

    def _check(self) -> None:
        if self.stop is not None:
            check_stop(self.stop)
        limit = self.task.options.max_seconds
        if limit is not None and self.segments:
            seconds = (self.num_samples - self.plan.start) / self.facts.sample_rate
            if seconds > limit and not self.task.count_only:
                raise LimitError(f"more than max_seconds={limit} seconds", source=self.task.name)

    def _enough(self) -> bool:
        return (
            self.task.options.stop_seconds is not None
            and self.plan.stop is not None
            and self.num_samples >= self.plan.stop
        )

    def _add(self, frame: av.AudioFrame, sample_rate: int) -> None:
        layout = None if frame.layout.name.endswith(" channels") else frame.layout.name
        form = (sample_rate, frame.layout.nb_channels, layout)
        if not self.segments:
            self._settle(sample_rate, frame.layout.nb_channels, layout)
        if not self.segments or self.segments[-1].form != form:
            self.segments.append(Segment(form))
        if self.md5 is not None:
            self.md5.update(encoded_samples(frame, self.facts.bits_per_sample or 16))
        # What the decoder gives before the first sample of the timeline, and behind its last, is dropped.
        position, self.piece_samples = self.piece_samples, self.piece_samples + frame.samples
        begin = max(0, -position)
        end = frame.samples
        if self.piece.slack and self.piece.num_samples is not None:
            end = min(end, self.piece.num_samples - position)
        if begin >= end:
            return
        self._keep(frame, begin, end)

    def _keep(self, frame: av.AudioFrame, begin: int, end: int) -> None:
        """Take samples [begin, end) of a frame into the last segment; those before the range are only counted."""
        segment, first = self.segments[-1], len(self.segments) == 1
        segment.num_samples += end - begin
        # Where only counting, later segments are kept still: how long they are at the first one's rate shows then.
        if first and (self.task.count_only or segment.num_samples <= self.plan.start):
            segment.dropped = segment.num_samples
        else:
            segment.blocks.append(frame_samples(frame, self.task.dtype)[:, begin:end])

    def _settle(self, sample_rate: int, num_channels: int, layout: str | None) -> None:
        """The first frame decides what the header only promised."""
        facts = self.facts
        if (sample_rate, num_channels) != (facts.sample_rate, facts.num_channels):
            self.facts = replace(facts, sample_rate=sample_rate, num_channels=num_channels, channel_layout=layout)
            self.plan = make_plan(self.facts, self.task.options)

    def finish(self) -> Frames:
        """All that was decoded, joined."""
        facts = self.facts
        later = [segment.adapted(facts, self.task.dtype) for segment in self.segments[1:]]
        total = sum(part.num_samples for part in self.segments[:1]) + sum(part.shape[1] for part in later)
        damage, verified = self.judge(total)
        return Frames(self._joined(later), facts, self.plan, total, damage, verified)

    def damage_so_far(self) -> tuple[Damage, ...]:
        """What is known of the damage before the end has come."""
        return assess_so_far(self.failures, self.facts, self.num_samples)

    def judge(self, total: int) -> tuple[tuple[Damage, ...], Verified]:
        """The damage, and what was verified, once all has been decoded, which was `total` samples.

        Raises CorruptAudioError for none where there should be some.
        """
        damage = [*assess(self.failures, self.facts, total, whole=self.whole)]
        if total == 0:
            self._refuse_nothing(damage)
        intact = not any(map(is_loss, damage))
        verified: Verified = "crc" if self.checked and intact else None
        if self.md5 is not None and self.whole and intact:
            verified = "md5"
            if self.md5.digest() != self.facts.md5:
                verified = None
                damage.append(Damage(None, "checksum", "the samples do not match the MD5 that the file stores"))
        return tuple(damage), verified

    def _refuse_nothing(self, damage: list[Damage]) -> None:
        # FLAC and PCM containers may well be empty; elsewhere no samples mean that nothing could be decoded.
        if damage or not (self.facts.container == "flac" or self.facts.num_samples == 0):
            reason = damage[0].message if damage else "it holds no audio frames"
            raise CorruptAudioError(f"nothing decodes: {reason}", source=self.task.name)

    def _joined(self, later: list[torch.Tensor]) -> torch.Tensor:
        """All segments at the rate and channels of the first, cut to the plan's source range."""
        facts, plan = self.facts, self.plan
        if not self.segments or self.task.count_only:
            return torch.zeros((facts.num_channels, 0), dtype=self.task.dtype)
        first, dropped = self.segments[0].samples(self.task.dtype), self.segments[0].dropped
        joined = torch.cat([first, *later], dim=1) if later else first
        stop = joined.shape[1] if plan.stop is None else max(0, plan.stop - dropped)
        return joined[:, max(0, plan.start - dropped) : stop]


def mpeg_sample_rate(head: bytes) -> int | None:
    """The sample rate in the header of an MPEG audio frame, ISO/IEC 11172-3 section 2.4.2.3; None if it is none."""
    if len(head) < 3 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version, index = head[1] >> 3 & 3, head[2] >> 2 & 3
    if version == 1 or index == 3:
        return None
    return (44_100, 48_000, 32_000)[index] // {3: 1, 2: 2, 0: 4}[version]
