"""The fast engine: FFmpeg's filter graph opens, decodes, mixes, resamples and joins a group of files.

Everything happens inside a few calls that have released the GIL, so decoding goes on beside a busy Python thread. The
engine only says whether it is sure of its result: whatever is suspicious is decoded again by the frame engine, which
says what is wrong and where.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import av
import av.error
import numpy as np
import numpy.typing as npt

from aioaudio.decode.facts import Facts
from aioaudio.decode.job import StopFlag, is_late
from aioaudio.decode.mix import Matrix, pan_filter
from aioaudio.decode.plan import Plan
from aioaudio.decode.samples import Sink
from aioaudio.ffmpeg import LogMessage, captured_log, filename_option, format_option, open_graph, quote

__all__ = ["Member", "Outcome", "decode_members", "member_graph", "suspects_of"]

Array = npt.NDArray[Any]

# A result of not more samples, in all channels, is one block: it needs no joining, and the fewest calls. A longer one
# comes in blocks of so many in each channel: fewer calls with more of them, fewer page faults with less.
_MAX_ONE_BLOCK = 1 << 20
_BLOCK = 1 << 15

# A header may promise less than comes: blocks of a sample each would take a thousand times their size.
_MIN_BLOCK = 1 << 12

# A damaged file raises once for each packet that does not decode. A file with more is for the frame engine.
_MAX_ERRORS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file of a group. `origin` is the timestamp of its first sample, needed for seeking; `limit` is how many
    samples of the result are too many; `sink` is where a long result goes, if not into blocks; `block` is how many
    samples one has, None for what suits the whole."""

    path: str | bytes
    facts: Facts
    plan: Plan
    matrix: Matrix | None
    double: bool
    stream_index: int | None = None
    demuxer: str | None = None
    origin: int = 0
    limit: int | None = None
    count_only: bool = False
    sink: Sink | None = None
    block: int | None = None

    @property
    def num_channels(self) -> int:
        """Channels of the result."""
        return self.facts.num_channels if self.matrix is None else len(self.matrix)

    @property
    def num_samples(self) -> int | None:
        """Samples of the result, by the header; one less may come where it is resampled. None if not known."""
        return None if self.facts.num_samples is None else self.plan.length_of(self.facts.num_samples)

    @property
    def is_one_block(self) -> bool:
        """Whether the result comes as one block."""
        return self.num_samples is not None and self.num_samples * self.num_channels <= _MAX_ONE_BLOCK


@dataclass(slots=True)
class Outcome:
    """What became of a member: `num_samples`, in blocks (num_channels, n) or in the member's sink; `clean` says whether
    the engine is sure of them."""

    blocks: deque[Array] = field(default_factory=deque)
    num_samples: int = 0
    clean: bool = True


def decode_members(members: Sequence[Member], stops: Sequence[StopFlag]) -> list[Outcome]:
    """Decode `members` in one graph, until all their `stops` are set."""
    if _all_stopped(stops):
        return [Outcome(clean=False) for _ in members]
    outcomes = [Outcome() for _ in members]
    with captured_log() as messages:
        try:
            with open_graph(";".join(member_graph(i, member) for i, member in enumerate(members))) as container:
                failed = _drain(container, members, stops, outcomes)
        except av.error.FFmpegError:
            failed = True
    suspects = suspects_of(messages, members)
    if failed and not suspects:
        suspects = set(range(len(members)))
    for i in suspects:
        outcomes[i].clean = False
    return outcomes


def _drain(
    container: av.container.InputContainer,
    members: Sequence[Member],
    stops: Sequence[StopFlag],
    outcomes: list[Outcome],
) -> bool:
    """Collect every block; say whether anything was raised on the way."""
    dtypes = [np.dtype(np.float64 if member.double else np.float32) for member in members]
    channels = [stream.channels for stream in container.streams.audio]
    for member, outcome, stream in zip(members, outcomes, container.streams.audio, strict=True):
        # The header may have told another rate or number of channels than the decoder yields.
        outcome.clean = (stream.rate, stream.channels) == (member.plan.sample_rate, member.num_channels)
    num_errors = 0
    while num_errors <= _MAX_ERRORS:
        try:
            for packet in container.demux():
                if not packet.size:  # the end: nothing but one of these comes for each member
                    break
                i = packet.stream_index
                # A view: the packet's memory is writable, and stays. By NumPy, since torch gives the GIL away for each
                # view, and to get it back may take longer than to decode.
                samples: Array = np.frombuffer(packet, dtypes[i])  # type: ignore[call-overload]
                block = samples.reshape(-1, channels[i]).T
                _keep(block, members[i], outcomes[i])
                if _all_stopped(stops):
                    return True
        except av.error.FFmpegError:
            # The others of the group, and the rest of this one, come out when asked again.
            num_errors += 1
        else:
            break
    return num_errors > 0


def _keep(block: Array, member: Member, outcome: Outcome) -> None:
    position = outcome.num_samples
    outcome.num_samples += block.shape[1]
    if member.count_only:
        return
    if member.sink is None:
        outcome.blocks.append(block)
    elif outcome.num_samples <= member.sink.waveform.shape[1]:
        # At once, so that the next block is given this one's memory.
        member.sink.write(position, block)
    else:
        outcome.clean = False


def _all_stopped(stops: Iterable[StopFlag]) -> bool:
    return all(stop.is_set or is_late(stop) for stop in stops)


def suspects_of(messages: list[LogMessage], members: Sequence[Member]) -> set[int]:
    """The members that a message may be about: the log names the filter, or only the codec or container."""
    suspects = set()
    for _, logger, _ in messages:
        for i, member in enumerate(members):
            if logger in (f"amovie@m{i}", member.facts.codec, member.facts.container):
                suspects.add(i)
    return suspects


def member_graph(index: int, member: Member) -> str:
    """The part of the graph's text for one member, from file to output `out{index}`."""
    filters = [_source(index, member), *_range_filters(member), *_sample_filters(member)]
    return ",".join(filters) + f"[out{index}]"


def _source(index: int, member: Member) -> str:
    options = dict(member.facts.demuxer_options)
    demuxer = member.demuxer
    pcm = member.facts.pcm
    if pcm is not None:
        # Headerless PCM from the first sample that is wanted on: no probing, no seek.
        options = {
            "skip_initial_bytes": str(
                pcm.offset + member.plan.start * member.facts.num_channels * pcm.bytes_per_sample
            ),
            "sample_rate": str(member.facts.sample_rate),
            "ch_layout": f"{member.facts.num_channels}C",
        }
        demuxer = pcm.sample_format
    parts = [
        f"amovie@m{index}=filename={filename_option(member.path)}",
        f"format_opts={format_option(options, demuxer, member.facts.codec)}",
        "dec_threads=1",
    ]
    if demuxer is not None:
        parts.append(f"format_name={quote(demuxer)}")
    if member.stream_index is not None:
        parts.append(f"stream_index={member.stream_index}")
    if member.plan.seek_seconds is not None:
        parts.append(f"seek_point={member.plan.seek_seconds:.6f}")
    return ":".join(parts)


def _range_filters(member: Member) -> list[str]:
    """Keep samples [start, stop) of the source."""
    plan = member.plan
    if member.facts.pcm is not None:
        return _trim(0, None if plan.stop is None else max(0, plan.stop - plan.start))
    leading = member.facts.leading_samples
    start, stop = plan.start + leading, None if plan.stop is None else plan.stop + leading
    if plan.seek_seconds is None:
        return _trim(start, stop)
    # After a seek the position is read from timestamps, anchored at the smallest offset that was seen, since one Vorbis
    # frame of each page bears a timestamp that is late.
    count = "st(0,if(N,min(ld(0),PTS-NB_CONSUMED_SAMPLES),PTS))+NB_CONSUMED_SAMPLES"
    trim = f"atrim=start_pts={member.origin + start}"
    if stop is not None:
        trim += f":end_pts={member.origin + stop}"
    return [f"asettb=1/{member.facts.sample_rate}", f"asetpts={quote(count)}", trim]


def _sample_filters(member: Member) -> list[str]:
    """Pad, mix, resample, convert, keep the result's own range, join into blocks."""
    plan, sample_format = member.plan, "dbl" if member.double else "flt"
    filters = [f"apad=pad_len={plan.pad}"] if plan.pad else []
    converter = f"osf={sample_format}:tsf={sample_format}p"
    if plan.resampling is not None:
        converter = f"{plan.resampling.target}:{converter}"
    if member.matrix is not None:
        if member.matrix == ((0.5, 0.5),) and member.facts.channel_layout == "stereo" and member.facts.pcm is None:
            converter += ":ochl=mono:rematrix_maxval=1.0"
        else:
            filters += [f"aformat=sample_fmts={sample_format}|{sample_format}p", pan_filter(member.matrix)]
    filters.append(f"aresample={converter}")
    filters += _trim(plan.skip, None if plan.keep is None else plan.skip + plan.keep)
    if member.limit is not None:
        filters += _trim(0, member.limit)
    block = member.block
    if block is None:
        block = max(_MIN_BLOCK, member.num_samples or 0) if member.is_one_block else _BLOCK
    filters.append(f"asetnsamples=n={block}:p=0")
    return filters


def _trim(start: int, stop: int | None) -> list[str]:
    options = [f"start_sample={start}"] if start else []
    if stop is not None:
        options.append(f"end_sample={stop}")
    return ["atrim=" + ":".join(options)] if options else []
