"""A source that is decoded as it arrives, by a thread that waits inside FFmpeg for what comes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import av
from av.audio.stream import AudioStream
from av.container import InputContainer

from aioaudio.audio import AudioInfo, Damage, StreamEvent
from aioaudio.decode.blocks import FrameBlocks
from aioaudio.decode.facts import Facts
from aioaudio.decode.frames import FrameDecode, FrameLoop, Verified
from aioaudio.decode.headers.arrival import Kind
from aioaudio.decode.info import info_of
from aioaudio.decode.job import DecodeJob
from aioaudio.decode.plan import make_plan
from aioaudio.decode.prepare import Piece
from aioaudio.decode.probe import facts_of, select_track
from aioaudio.decode.samples import working_dtype
from aioaudio.decode.stream import StreamDecoder
from aioaudio.encoded import Encoded, Pipe
from aioaudio.errors import AudioError
from aioaudio.ffmpeg import open_pipe
from aioaudio.options import LoadOptions

__all__ = ["LiveDecoder"]

# What is not known before the first bytes.
_UNKNOWN = Facts(container="", codec="", sample_rate=48_000, num_channels=1)

# FFmpeg looks at no more than it needs to begin: what it has guessed, the first frame puts right. A transport stream
# tells what is in it in packets that come now and then.
_PROBE = {"analyzeduration": "0"}
_PROBE_BYTES = {"mpegts": "100000"}
_FEW_BYTES = "2048"


class LiveDecoder(StreamDecoder):
    """Decodes what comes through `pipe`, which is of this `kind`. Goes forward only.

    `open` and `read` wait for what is to come; they raise AudioError, and whoever feeds the pipe knows why it ended.
    """

    def __init__(self, pipe: Pipe, name: str, kind: Kind, options: LoadOptions) -> None:
        super().__init__(DecodeJob(Encoded(b"", name=name), options), peek=False)
        self._loop = _Loop(pipe, name, kind, options)

    @property
    def info(self) -> AudioInfo | None:
        """What the container tells, once it is open."""
        return self._loop.info

    @property
    def earliest(self) -> int:
        return self._start

    def close(self) -> None:
        super().close()
        self._loop.close()

    def _open(self, start: int | None) -> None:  # noqa: ARG002
        self._blocks = FrameBlocks(self._loop)
        self._begin_at_rate()

    def _is_far(self, start: int) -> bool:  # noqa: ARG002
        return False

    def _events_in(self, start: int, end: int, *, is_last: bool) -> tuple[StreamEvent, ...]:
        """What was told there, or passed on the way to the first of these samples, and at the end all the rest."""
        told, kept = [], []
        for item in self._loop.events:
            place = item.event.at_seconds * self._rate
            is_new = item.told_from is None
            if is_new and (place < end or is_last):
                item.told_from = start
            if item.told_from == start or (item.told_from is not None and start <= place < end):
                told.append(item.event)
            if is_new or place >= start or item.told_from == start:  # else nobody asks for it again
                kept.append(item)
        self._loop.events[:] = kept
        return tuple(told)


@dataclass(slots=True)
class _Told:
    """An event, and with which samples it was told first."""

    event: StreamEvent
    told_from: int | None = None


class _Loop(FrameLoop):
    """The loop over what comes through descriptors."""

    def __init__(self, pipe: Pipe, name: str, kind: Kind, options: LoadOptions) -> None:
        self._files = pipe.files()
        task = FrameDecode(
            pieces=(Piece(str(fd), _UNKNOWN) for fd in self._files),
            name=name,
            facts=_UNKNOWN,
            options=options,
            dtype=working_dtype(options.dtype),
            demuxer=kind.demuxer,
        )
        super().__init__(task, stop=None)
        self.info: AudioInfo | None = None
        self.events: list[_Told] = []
        self._pipe, self._kind = pipe, kind
        self._is_joining = False  # what decodes here may lean on what came before it, and never came here
        self._lengths: list[int | None] = []
        self._noticed: list[Damage] = []

    def close(self) -> None:
        """Let go of what is read from."""
        self._files.close()

    def _run(self, piece: Piece) -> Iterator[None]:
        file = len(self._lengths)
        self._lengths.append(None)
        try:
            yield from super()._run(piece)
        except AudioError:
            if not self._is_cut(file):
                raise  # else it was cut off before anything could be known of it
        if self._is_cut(file):
            self._lengths[file] = None
            while self.failures and self.failures[-1].after == self.num_samples:
                self.failures.pop()

    def _is_cut(self, file: int) -> bool:
        """Whether a file has ended, but not at its end."""
        return file + 1 in self._pipe.joined

    def _packet(self, stream: AudioStream, packet: av.Packet[AudioStream], names: tuple[str, str]) -> None:
        if packet.pos is not None and packet.size:
            self._place_events(packet.pos)
        num_failures, num_samples = len(self.failures), self.num_samples
        super()._packet(stream, packet, names)
        if self._is_joining:
            self._is_joining = len(self.failures) > num_failures or self.num_samples == num_samples
            del self.failures[num_failures:]

    def _place_events(self, offset: float) -> None:
        """What was told before byte `offset` of the file at hand was told where its samples end so far."""
        marks, file = self._pipe.marks, len(self._lengths) - 1
        while marks and (marks[0].file, marks[0].offset) <= (file, offset):
            kind, fields = marks.popleft().mark
            self.events.append(_Told(StreamEvent(self.num_samples / self.facts.sample_rate, kind, fields)))

    def _open(self, piece: Piece, options: dict[str, str]) -> InputContainer:
        raw = self._kind.raw
        if raw is not None:
            options = {
                **options,
                "sample_rate": str(raw.sample_rate),
                "ch_layout": self._kind.layout or f"{raw.num_channels}C",
            }
        demuxer = self._kind.demuxer or ""
        probe = {**_PROBE, "probesize": _PROBE_BYTES.get(demuxer, _FEW_BYTES)}
        return open_pipe(int(piece.path), format=demuxer, options={**probe, **options})

    def _select(self, piece: Piece, container: InputContainer) -> AudioStream:  # noqa: ARG002
        stream = select_track(container, self.task.options.track, self.task.name)
        facts = facts_of(container, stream)
        if self._kind.is_fragmented:
            facts = replace(facts, num_samples=None, slack=0)
        self._begin(facts)
        self._lengths[-1] = facts.num_samples
        self._is_joining = len(self._lengths) - 1 in self._pipe.joined  # not known before its first bytes are there
        if self.info is None:
            self.info = info_of(container, stream, facts)
        if not self.segments and facts.sample_rate > 0 and facts.num_channels > 0:
            # How long the whole is, others may follow to tell.
            self.facts = replace(facts, num_samples=None)
            self.plan = make_plan(self.facts, self.task.options)
        return stream

    def damage_so_far(self) -> tuple[Damage, ...]:
        self._notice(at_end=False)
        return (*super().damage_so_far(), *self._noticed)

    def judge(self, total: int) -> tuple[tuple[Damage, ...], Verified]:
        if self.whole:
            self._place_events(math.inf)
        known = [length for length in self._lengths if length is not None]
        if known and len(known) == len(self._lengths):
            self.facts = replace(self.facts, num_samples=sum(known))
        self._notice(at_end=self.whole)
        if total == 0 and self._kind.raw is not None and not self._noticed and not self.failures:
            return (), None  # PCM may well be empty
        damage, verified = super().judge(total)
        told = {item.kind for item in damage if item.at_seconds == total / self.facts.sample_rate}
        return (*damage, *(item for item in self._noticed if item.kind not in told)), verified

    def _notice(self, *, at_end: bool) -> None:
        """Take over what the sender has found to be wrong, which is ahead: the end of a file is behind its samples."""
        at_seconds = self.num_samples / self.facts.sample_rate
        for fault in self._pipe.faults[len(self._noticed) :]:
            if fault.kind == "truncated" and not at_end and fault.file >= len(self._lengths) - 1:
                break
            self._noticed.append(Damage(at_seconds, fault.kind, fault.message))
