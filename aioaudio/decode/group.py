"""Decoding a group of jobs: which engine serves each, and what the results say.

    prepare   open the bytes, read the facts, plan            each job for itself
    wav       plain PCM at its own rate                       at once
    graph     the rest, all in one call                       those that it is not sure of: once more alone
    frames    what the graph does not serve, or is not sure of

A job that fails hurts no other.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import numpy.typing as npt
import torch

from aioaudio.audio import Audio
from aioaudio.decode import wav
from aioaudio.decode.damage import is_loss
from aioaudio.decode.frames import FrameDecode, decode_frames
from aioaudio.decode.graph import Member, Outcome, decode_members
from aioaudio.decode.job import DecodeJob, StopFlag, Stopped, check_stop
from aioaudio.decode.mix import remix
from aioaudio.decode.plan import result_range
from aioaudio.decode.prepare import Task, prepare
from aioaudio.decode.resample import resample
from aioaudio.decode.result import Parts, Pending, Result, concerns, outcome_of
from aioaudio.decode.samples import Sink, working_dtype
from aioaudio.decode.stored import Stored, as_stored, picked_channels
from aioaudio.errors import AudioError, LimitError
from aioaudio.options import LoadOptions

__all__ = ["count_samples", "decode_group", "frame_decode", "graph_serves", "is_empty", "is_sure", "member_of"]

# The graph fails on these from their first frame on: their decoders settle the sample format later than amovie asks.
# Of headerless GSM, the demuxer reports a frame that is cut off by an error, which amovie takes for the end.
_FRAMES_ONLY = {"mp1", "mp1float", "mp2", "mp2float", "tta", "speex", "libspeex", "tak", "gsm"}

# What can be checked, and how: FLAC by its MD5 and frame checksums, Ogg by page, WavPack by block.
_CHECKED_CODECS = {"flac", "wavpack"}
_CHECKED_CONTAINERS = {"flac", "ogg", "wv"}

Array = npt.NDArray[Any]

P = ParamSpec("P")
T = TypeVar("T")


def decode_group(jobs: Sequence[DecodeJob], stops: Sequence[StopFlag]) -> list[Audio | Parts | Exception]:
    """Decode `jobs`, one result (`Parts` where a job asks for them) or error for each.

    Blocks; call it in a decode worker.
    """
    answers: list[Audio | Parts | Exception] = [Stopped()] * len(jobs)
    in_graph: dict[int, tuple[Task, Member]] = {}
    with contextlib.ExitStack() as files:
        for i, (job, stop) in enumerate(zip(jobs, stops, strict=True)):
            if stop.is_set:
                continue
            task = _guarded(job, prepare, job, stop, files)
            if isinstance(task, Exception):
                answers[i] = task
            elif graph_serves(task):
                member = _guarded(job, member_of, task)
                if isinstance(member, Exception):
                    answers[i] = member
                else:
                    in_graph[i] = task, member
            else:
                answers[i] = _guarded(job, _decode_alone, task)
        if in_graph:
            outcomes = decode_members([member for _, member in in_graph.values()], [stops[i] for i in in_graph])
            alone = len(in_graph) == 1
            for (i, (task, member)), outcome in zip(in_graph.items(), outcomes, strict=True):
                answers[i] = _guarded(jobs[i], _settle, task, member, outcome, alone)
    return answers


def _guarded(job: DecodeJob, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | Exception:
    """What `function` returns or raises; an error that does not name its source yet is given the job's."""
    try:
        return function(*args, **kwargs)
    except AudioError as error:
        if error.source is None:
            error.source = job.file.name
        return error
    except ValueError as error:
        return ValueError(f"{job.file.name}: {error}")
    except Exception as error:
        return error


def graph_serves(task: Task) -> bool:
    if task.facts.pcm is not None:
        return task.own_plan.resampling is not None and not is_empty(task)
    return not (
        task.facts.codec in _FRAMES_ONLY
        or len(task.pieces) > 1
        or task.facts.untrimmed
        or is_empty(task)
        or any(is_loss(item) and concerns(item, task.options) for item in task.facts.damage)
        or (task.options.verify and _can_verify(task))
    )


def _can_verify(task: Task) -> bool:
    return task.facts.codec in _CHECKED_CODECS or task.facts.container in _CHECKED_CONTAINERS


def is_empty(task: Task) -> bool:
    """Whether the range asked for holds no sample, whatever the file holds."""
    start, stop = result_range(task.options, task.plan.sample_rate)
    return stop is not None and stop <= start


def _decode_alone(task: Task) -> Audio | Parts:
    """By the engine that serves what the graph does not; a file that was only looked at is looked through first."""
    if not task.is_thorough:
        with contextlib.ExitStack() as files:
            return _decode_alone(prepare(task.job, task.stop, files, thorough=True))
    return outcome_of(task, _decode_generally(task))


def _decode_generally(task: Task) -> Result:
    if is_empty(task):
        return Result(task.plan.sample_rate)
    if task.facts.pcm is None:
        return _decode_frames(task)
    return _decode_pcm(task)


def _decode_pcm(task: Task) -> Result:
    start, stop = task.plan.start, task.facts.num_samples if task.plan.stop is None else task.plan.stop
    assert stop is not None
    if task.own_plan.resampling is None:
        stored = _stored(task)
        waveform = _read_pcm(task, start, stop, stored)
        return _result(task, waveform=waveform, damage=task.facts.damage, stored=stored)
    plain = LoadOptions(dtype=working_dtype(task.options.dtype))
    samples = wav.decode(task.file, task.facts, start, stop, plain, task.stop)
    return Result(task.plan.sample_rate, deque([_finished(task, samples).numpy()]), damage=task.facts.damage)


def _read_pcm(task: Task, start: int, stop: int, stored: Stored | None) -> torch.Tensor:
    """Samples `[start, stop)`: as `options` want them, or as the job leaves them to a device."""
    if stored in ("alaw", "mulaw"):
        channels = picked_channels(task.facts.num_channels, task.matrix)
        assert channels is not None
        return wav.read_codes(task.file, task.facts, start, stop, channels, task.stop)
    options = task.options
    if task.job.leave is not None:
        options = replace(options, dtype=torch.int16 if stored else working_dtype(options.dtype))
    return wav.decode(task.file, task.facts, start, stop, options, task.stop)


def _decode_frames(task: Task) -> Result:
    decoded = decode_frames(frame_decode(task), task.stop)
    task = replace(task, facts=decoded.facts, plan=decoded.plan)
    samples = _finished(task, decoded.samples)
    return _result(task, deque([samples.numpy()]), damage=decoded.damage, verified=decoded.verified)


def _stored(task: Task) -> Stored | None:
    """What the samples may stay as, for a device to expand."""
    if task.job.leave is None or task.own_plan.resampling is not None:
        return None
    return as_stored(task.facts, task.matrix)


def _result(task: Task, blocks: deque[Array] | None = None, **fields: Any) -> Result:
    """The result of an engine that went by the task's own plan."""
    plan = task.plan
    pending = None
    if task.leaves_resampling and plan.resampling is not None:
        pending = Pending(plan.resampling, plan.skip, plan.keep)
    return Result(plan.sample_rate, deque() if blocks is None else blocks, pending=pending, **fields)


def frame_decode(task: Task, *, count_only: bool = False) -> FrameDecode:
    return FrameDecode(
        pieces=task.pieces,
        name=task.name,
        facts=task.facts,
        options=task.options,
        dtype=working_dtype(task.options.dtype),
        demuxer=task.demuxer,
        stream_index=task.stream_index,
        count_only=count_only,
    )


def _finished(task: Task, samples: torch.Tensor) -> torch.Tensor:
    """Source samples mixed, resampled and cut to the result, as the graph does on its way."""
    samples = remix(samples, task.facts.channel_layout, task.options)
    plan = task.own_plan
    if plan.resampling is not None:
        samples = resample(samples, plan.resampling)
    return samples[:, plan.skip : None if plan.keep is None else plan.skip + plan.keep]


def member_of(task: Task, *, count_only: bool = False) -> Member:
    limit = task.own_limit
    member = Member(
        path=task.pieces[0].path if task.pieces else task.file.ffmpeg_path(),
        facts=task.facts,
        plan=task.own_plan,
        matrix=task.matrix,
        double=working_dtype(task.options.dtype) == torch.float64,
        stream_index=task.stream_index,
        demuxer=task.demuxer,
        origin=task.origin,
        limit=None if limit is None else limit + 1,
        count_only=count_only,
    )
    return member if count_only or task.job.in_parts else _with_sink(member, task.options)


def _with_sink(member: Member, options: LoadOptions) -> Member:
    """With memory for the whole result, if that is long and its length is known: then nothing needs to be joined."""
    if member.num_samples is None or member.is_one_block:
        return member
    # Of a resampled result, whose last sample may not come, the rest must still be contiguous.
    is_exact = member.plan.resampling is None
    if not is_exact and (member.num_channels > 1 or options.out is not None):
        return member
    try:
        return replace(member, sink=Sink(member.num_channels, member.num_samples, options))
    except (MemoryError, ValueError):
        if options.out is not None:
            raise
        return member  # the header promises more than fits into memory: more than is there, perhaps


def _settle(task: Task, member: Member, outcome: Outcome, alone: bool) -> Audio | Parts:
    """The graph's result where it is sure; else the member alone, and then the general engine."""
    check_stop(task.stop)
    if not is_sure(task, outcome) and not alone:
        (outcome,) = decode_members([member], [task.stop])
        check_stop(task.stop)
    if not is_sure(task, outcome):
        return _decode_alone(task)
    limit = task.own_limit
    if limit is not None and outcome.num_samples > limit:
        raise LimitError(f"has more than max_seconds={task.options.max_seconds} seconds", source=task.name)
    waveform = None if member.sink is None else member.sink.waveform[:, : outcome.num_samples]
    damage = task.facts.damage
    return outcome_of(task, _result(task, outcome.blocks, waveform=waveform, damage=damage, stored=_stored(task)))


def is_sure(task: Task, outcome: Outcome) -> bool:
    """Whether nothing was suspicious and as many samples came as the header promises."""
    if not outcome.clean:
        return False
    promised, plan, limit = task.facts.num_samples, task.own_plan, task.own_limit
    resampling = plan.resampling
    if promised is None:
        # Nothing came, or a clip so short that resampling would have lost some of it.
        shortest = 0 if resampling is None else resampling.whole_length(resampling.shortest)
        return outcome.num_samples > shortest
    expected = plan.length_of(promised)
    if limit is not None and outcome.num_samples > limit:
        return True
    return outcome.num_samples >= expected - (resampling is not None)


def count_samples(job: DecodeJob, stop: StopFlag) -> int:
    """Count the samples of a whole source at its own rate, keeping none of them. Raises AudioError.

    Damage counts as `on_damage="conceal"` does.
    """
    with contextlib.ExitStack() as files:
        task = prepare(job, stop, files, thorough=True)
        if task.facts.pcm is not None:
            assert task.facts.num_samples is not None
            pcm_bytes = task.file.size - task.facts.pcm.offset
            present = pcm_bytes // (task.facts.pcm.bytes_per_sample * task.facts.num_channels)
            return min(task.facts.num_samples, max(0, present))
        if graph_serves(task):
            (outcome,) = decode_members([member_of(task, count_only=True)], [stop])
            if is_sure(task, outcome):
                return outcome.num_samples
        decoded = decode_frames(frame_decode(task, count_only=True), stop)
        return decoded.plan.length_of(decoded.num_samples)
