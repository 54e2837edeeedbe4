"""The engines, asked for one block after another: what `decode_group` gives at once, for streams.

Each begins at the start of its task's range. Between two blocks nothing of it is bound to a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Protocol

import av
import av.error
import numpy as np
import numpy.typing as npt
import torch

from aioaudio.audio import Damage
from aioaudio.decode import wav
from aioaudio.decode.frames import FrameLoop
from aioaudio.decode.graph import Outcome, member_graph, suspects_of
from aioaudio.decode.group import is_sure, member_of
from aioaudio.decode.mix import channel_matrix, remix
from aioaudio.decode.plan import Plan
from aioaudio.decode.prepare import Task
from aioaudio.decode.resample import Resampler
from aioaudio.decode.samples import working_dtype
from aioaudio.decode.segments import Adapter, Segment
from aioaudio.ffmpeg import captured_log, open_graph
from aioaudio.options import LoadOptions

__all__ = ["Blocks", "FrameBlocks", "GraphBlocks", "NoBlocks", "PcmBlocks", "Unsure"]

Array = npt.NDArray[Any]

# Samples in a block: at 48 kHz a third of a second.
_BLOCK = 1 << 14

# Packets that the frame engine decodes before it looks whether it is to stop.
_MAX_PACKETS = 8

_END = object()


class Unsure(Exception):
    """The graph is not sure of what comes next; all that it gave before is right."""


class Blocks(Protocol):
    """An engine at work. `damage` is what is known so far, all of it once it `has_ended`."""

    sample_rate: int
    num_channels: int
    has_ended: bool
    verified: Literal["md5", "crc"] | None

    def step(self, wanted: int) -> list[Array]:
        """The next float blocks (num_channels, n), perhaps none. Raises AudioError.

        It goes no further than it must for `wanted` samples, and perhaps less far.
        """
        ...

    def damage(self) -> tuple[Damage, ...]: ...

    def is_judged(self, at_seconds: float) -> bool:
        """Whether all damage before a place that has been decoded is known."""
        ...

    def close(self) -> None: ...


class _Base:
    has_ended = False
    verified: Literal["md5", "crc"] | None = None

    def __init__(self, task: Task) -> None:
        self.task = task
        self.sample_rate, self.num_channels = task.plan.sample_rate, task.num_channels

    def damage(self) -> tuple[Damage, ...]:
        return self.task.facts.damage

    def is_judged(self, at_seconds: float) -> bool:  # noqa: ARG002
        return True

    def close(self) -> None:
        """Nothing is open."""


class NoBlocks(_Base):
    """What a range without samples holds."""

    has_ended = True

    def step(self, wanted: int) -> list[Array]:  # noqa: ARG002
        return []

    def damage(self) -> tuple[Damage, ...]:
        return ()


class PcmBlocks(_Base):
    """Plain PCM, read where it lies."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        options, plan = task.options, task.plan
        stop = task.facts.num_samples if plan.stop is None else plan.stop
        assert stop is not None
        self._position, self._stop = plan.start, stop
        self._plain = LoadOptions(dtype=working_dtype(options.dtype))
        self._finishing = None
        if plan.resampling is not None:
            self._finishing = _Finishing(plan, task.facts.channel_layout, options)
        else:
            self._plain = replace(self._plain, num_channels=options.num_channels, channels=options.channels)

    def step(self, wanted: int) -> list[Array]:  # noqa: ARG002
        start, stop = self._position, min(self._position + _BLOCK, self._stop)
        samples = wav.decode(self.task.file, self.task.facts, start, stop, self._plain)
        self._position += samples.shape[1]
        self.has_ended = self._position < stop or stop >= self._stop
        if self._finishing is None:
            return [samples.numpy()]
        blocks = self._finishing.push(samples)
        return blocks + self._finishing.finish() if self.has_ended else blocks


class GraphBlocks(_Base):
    """FFmpeg's filter graph with the file as its only member. Raises Unsure where `load` would decode by frames."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._member = replace(member_of(task), sink=None, block=_BLOCK)
        self._dtype = np.dtype(np.float64 if self._member.double else np.float32)
        self._num_samples = 0
        self._held: list[Array] = []
        self._container: av.container.InputContainer | None = None
        self._packets: Iterator[av.Packet[Any]]

    def step(self, wanted: int) -> list[Array]:  # noqa: ARG002
        with captured_log() as messages:
            try:
                packet = self._next_packet()
            except av.error.FFmpegError as error:
                raise Unsure from error
        if suspects_of(messages, [self._member]):
            raise Unsure
        if packet is None or not packet.size:
            self._end()
            return []
        samples: Array = np.frombuffer(packet, self._dtype)  # type: ignore[call-overload]
        block = samples.reshape(-1, self.num_channels).T
        self._num_samples += block.shape[1]
        self._held.append(block)
        # Of what turns out to be too short for the filter, all would be wrong.
        if self.task.facts.num_samples is None and not is_sure(self.task, Outcome(num_samples=self._num_samples)):
            return []
        held, self._held = self._held, []
        return held

    def _next_packet(self) -> av.Packet[Any] | None:
        if self._container is None:
            self._container = open_graph(member_graph(0, self._member))
            stream = self._container.streams.audio[0]
            if (stream.rate, stream.channels) != (self.sample_rate, self.num_channels):
                raise Unsure  # the decoder yields another rate or number of channels than the header tells
            self._packets = self._container.demux()
        return next(self._packets, None)

    def _end(self) -> None:
        if not is_sure(self.task, Outcome(num_samples=self._num_samples)):
            raise Unsure
        self.has_ended = True

    def close(self) -> None:
        if self._container is not None:
            self._container.close()


class FrameBlocks:
    """PyAV's frame loop. Before the first block, rate and channels are those that the header tells."""

    has_ended = False
    verified: Literal["md5", "crc"] | None = None

    def __init__(self, loop: FrameLoop) -> None:
        self.sample_rate, self.num_channels = loop.plan.sample_rate, loop.facts.num_channels
        self._loop, self._options = loop, loop.task.options
        self._steps = loop.steps()
        self._damage: tuple[Damage, ...] = ()
        self._segment: Segment | None = None
        self._num_segments = 0
        self._adapter: Adapter | None = None
        self._position = 0  # in samples of the first segment's rate
        self._finishing: _Finishing | None = None

    def step(self, wanted: int) -> list[Array]:
        loop = self._loop
        enough = loop.num_samples + wanted * loop.facts.sample_rate // self.sample_rate
        with captured_log() as loop.messages:
            for _ in range(_MAX_PACKETS):
                ended = next(self._steps, _END) is _END
                if ended or loop.num_samples >= enough:
                    break
        blocks = self._new_blocks(ended=ended)
        if ended:
            self._damage, self.verified = self._loop.judge(self._position)
            self.has_ended = True
            if self._finishing is not None:
                blocks += self._finishing.finish()
        return blocks

    def damage(self) -> tuple[Damage, ...]:
        return self._damage if self.has_ended else self._loop.damage_so_far()

    def is_judged(self, at_seconds: float) -> bool:
        loop = self._loop
        for failure in reversed([] if self.has_ended else loop.failures):
            if failure.after < loop.num_samples:  # more has come behind it, and behind those before it
                break
            if failure.before < at_seconds * loop.facts.sample_rate:
                return False
        return True

    def close(self) -> None:
        self._steps.close()

    def _new_blocks(self, *, ended: bool) -> list[Array]:
        """What the loop has decoded since the last time, out of its segments."""
        blocks: list[Array] = []
        for segment in self._loop.segments[max(0, self._num_segments - 1) :]:
            if segment is not self._segment:
                blocks += self._finish_segment()
                self._begin_segment(segment)
            taken, segment.blocks = segment.blocks, []
            if self._adapter is None:
                self._position = segment.num_samples - sum(block.shape[1] for block in taken)
            if taken:
                joined = taken[0] if len(taken) == 1 else torch.cat(taken, dim=1)
                blocks += self._finished([joined] if self._adapter is None else self._adapter.push(joined))
        return blocks + self._finish_segment() if ended else blocks

    def _begin_segment(self, segment: Segment) -> None:
        facts, plan = self._loop.facts, self._loop.plan
        self._segment = segment
        self._num_segments += 1
        if self._num_segments > 1:
            self._adapter = Adapter(segment.form, facts)
        else:  # now it is known what the decoder yields
            self.sample_rate = plan.sample_rate
            self._finishing = _Finishing(plan, facts.channel_layout, self._options)
            matrix = channel_matrix(facts.num_channels, facts.channel_layout, self._options)
            self.num_channels = facts.num_channels if matrix is None else len(matrix)

    def _finish_segment(self) -> list[Array]:
        adapter, self._adapter = self._adapter, None
        return [] if adapter is None else self._finished(adapter.finish())

    def _finished(self, samples: list[torch.Tensor]) -> list[Array]:
        """Adapted samples from the place reached on, as those of the result."""
        assert self._finishing is not None
        plan, blocks = self._loop.plan, []
        for piece in samples:
            start, self._position = self._position, self._position + piece.shape[1]
            stop = piece.shape[1] if plan.stop is None else max(0, plan.stop - start)
            blocks += self._finishing.push(piece[:, max(0, plan.start - start) : stop])
        return blocks


class _Finishing:
    """Source samples from the start of `plan` on, as they come: mixed, resampled, and cut to the result."""

    def __init__(self, plan: Plan, channel_layout: str | None, options: LoadOptions) -> None:
        self._layout, self._options = channel_layout, options
        self._resampler = None if plan.resampling is None else Resampler(plan.resampling)
        self._skip = plan.skip
        self._keep = plan.keep

    def push(self, samples: torch.Tensor) -> list[Array]:
        mixed = remix(samples, self._layout, self._options)
        return self._cut([mixed] if self._resampler is None else self._resampler.push(mixed))

    def finish(self) -> list[Array]:
        return self._cut([] if self._resampler is None else self._resampler.finish())

    def _cut(self, blocks: list[torch.Tensor]) -> list[Array]:
        kept = []
        for block in blocks:
            skipped = min(self._skip, block.shape[1])
            block = block[:, skipped : None if self._keep is None else skipped + self._keep]
            self._skip -= skipped
            if self._keep is not None:
                self._keep -= block.shape[1]
            if block.shape[1]:
                kept.append(block.numpy())
        return kept
