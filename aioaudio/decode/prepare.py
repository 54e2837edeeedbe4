"""From a job to a plan: open the bytes, read the facts, check what can be checked before anything is decoded."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from aioaudio.audio import Damage
from aioaudio.decode.describe import is_known, looks_like
from aioaudio.decode.facts import Facts, Pcm
from aioaudio.decode.headers import JOINABLE, adpcm, caf, missing, mp4, read_facts, with_parts
from aioaudio.decode.headers.mp3_frames import HEADER_BYTES, is_free_format
from aioaudio.decode.headers.window import Window, skip_id3v2
from aioaudio.decode.job import DecodeJob, StopFlag
from aioaudio.decode.mix import Matrix, channel_matrix
from aioaudio.decode.plan import Plan, make_plan
from aioaudio.decode.probe import MP4_NAMES, first_timestamp, probe
from aioaudio.encoded import Encoded, OpenBytes
from aioaudio.errors import AudioError, CorruptAudioError, LimitError, UnsupportedAudioError
from aioaudio.ffmpeg import NO_CONTAINER
from aioaudio.options import SAMPLE_FORMATS, LoadOptions, RawPCM

__all__ = ["Piece", "Task", "prepare", "read_facts_of"]

_HEAD_BYTES = 4096

_FREE_FORMAT = "is MPEG audio of free format, which FFmpeg cannot decode"


@dataclass(frozen=True, slots=True)
class Piece:
    """A file for FFmpeg: a whole source, or a stretch of one that is decoded for itself. `facts` are its own."""

    path: str | bytes
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job that has been opened and planned. `pieces` are what FFmpeg opens, one after another as one track;
    `origin` is the timestamp of the first sample, where a seek needs it; `limit` is how many samples are allowed;
    `is_thorough` says that the file holds nothing more than its facts say."""

    job: DecodeJob
    stop: StopFlag
    file: OpenBytes
    pieces: tuple[Piece, ...]
    facts: Facts
    plan: Plan
    matrix: Matrix | None
    stream_index: int | None
    demuxer: str | None
    origin: int
    limit: int | None
    is_thorough: bool

    @property
    def name(self) -> str:
        return self.job.file.name

    @property
    def options(self) -> LoadOptions:
        return self.job.options

    @property
    def num_channels(self) -> int:
        """Channels of the result, by the header."""
        return self.facts.num_channels if self.matrix is None else len(self.matrix)

    @property
    def leaves_resampling(self) -> bool:
        """Whether the resampling is left to whoever gets the result."""
        leave, resampling = self.job.leave, self.plan.resampling
        return leave is not None and leave.resampling and resampling is not None and resampling.is_exact

    @property
    def own_plan(self) -> Plan:
        """The plan without what is left to others."""
        return self.plan.at_source() if self.leaves_resampling else self.plan

    @property
    def own_limit(self) -> int | None:
        """How many samples by `own_plan` are too many at once: a few more than `limit`, where resampling follows."""
        resampling = self.plan.resampling
        if self.limit is None or resampling is None or not self.leaves_resampling:
            return self.limit
        return resampling.source_range(0, self.plan.skip + self.limit + 1)[1]


def prepare(job: DecodeJob, stop: StopFlag, files: contextlib.ExitStack, *, thorough: bool = False) -> Task:
    """Open and plan `job`; `files` keeps its bytes open. Raises AudioError, and ValueError for options that do not fit.

    Where `thorough`, the whole file is looked through for what its first header does not tell.
    Raises LimitError where the header alone shows that a limit is passed.
    """
    options = job.options
    file = files.enter_context(job.file.open())
    if options.max_bytes is not None and file.size > options.max_bytes:
        raise LimitError(f"has {file.size} bytes, more than max_bytes={options.max_bytes}", source=job.file.name)
    if job.admit is not None:
        job.admit(file)
    facts, stream_index, demuxer = read_facts_of(job, file)
    if facts.sample_rate <= 0 or facts.num_channels <= 0:
        raise _nothing_known(file, job)
    if job.narrow is not None and facts.num_samples is not None:
        options = job.narrow(options, facts.num_samples, facts.sample_rate)
        job = replace(job, options=options, narrow=None)
    plan = make_plan(facts, options)
    thorough = facts.container in JOINABLE and (thorough or _needs_end(facts, options, plan))
    if thorough:
        facts = with_parts(file, facts)
        plan = make_plan(facts, options)
    pieces = _pieces(file, facts, files)
    return Task(
        job=job,
        stop=stop,
        file=file,
        pieces=pieces,
        facts=facts,
        plan=plan,
        matrix=channel_matrix(facts.num_channels, facts.channel_layout, options),
        stream_index=stream_index,
        demuxer=demuxer,
        origin=0 if plan.seek_seconds is None else _origin(pieces[0].path, job.file.name, facts, stream_index),
        limit=_limit(job, facts, plan),
        is_thorough=thorough or facts.container not in JOINABLE,
    )


def _needs_end(facts: Facts, options: LoadOptions, plan: Plan) -> bool:
    """Whether it matters that a header tells the end of the file, and not only that of the first of several."""
    if facts.num_samples is None:
        return False
    last = max(options.start_seconds, options.stop_seconds or 0.0) * facts.sample_rate
    return options.verify or last > facts.num_samples or plan.seek_seconds is not None or plan.pad > 0


def read_facts_of(job: DecodeJob, file: OpenBytes) -> tuple[Facts, int | None, str | None]:
    """The facts, FFmpeg's index of the stream (None: the default one), and the demuxer (None: FFmpeg finds it)."""
    options, name = job.options, job.file.name
    if file.size == 0:
        raise CorruptAudioError("is empty", source=name)
    if isinstance(options.format, RawPCM):
        return _raw_facts(options.format, file), None, None
    head = file.read(_HEAD_BYTES, 0)
    facts = read_facts(file, head) if options.track in (None, 0) else None
    if facts is not None and options.format in (None, facts.container):
        # Our parsers are sure of the container where FFmpeg, which guesses by score, sometimes is not.
        return facts, None, None if facts.pcm is not None else facts.container.split(",")[0]
    try:
        return *_probed_facts(file, head, name, options), options.format
    except (CorruptAudioError, UnsupportedAudioError) as error:
        if isinstance(error, UnsupportedAudioError) and error.message != NO_CONTAINER:
            raise
        if _is_free_format(file, head):
            raise UnsupportedAudioError(_FREE_FORMAT, source=name) from error
        raise type(error)(f"{error.message}; {_impression(head, options)}", source=name) from error


def _nothing_known(file: OpenBytes, job: DecodeJob) -> AudioError:
    """The error for a file that FFmpeg opens, without making out a rate and channels in it."""
    head = file.read(_HEAD_BYTES, 0)
    if _is_free_format(file, head):
        return UnsupportedAudioError(_FREE_FORMAT, source=job.file.name)
    message = f"neither a sample rate nor channels can be made out; {_impression(head, job.options)}"
    return CorruptAudioError(message, source=job.file.name)


def _is_free_format(file: OpenBytes, head: memoryview) -> bool:
    return is_free_format(file.read(HEADER_BYTES, skip_id3v2(Window(file, head), 0)))


def _impression(head: memoryview, options: LoadOptions) -> str:
    """What a file that begins with `head` seems to be, for an error, and what could help."""
    words = f"it looks like {looks_like(bytes(head))}"
    if options.format is not None:
        return f"format={options.format!r} is asked for, {words}"
    return words + ("; if it is audio that does not say what it is, give format=" if not is_known(bytes(head)) else "")


def _probed_facts(file: OpenBytes, head: memoryview, name: str, options: LoadOptions) -> tuple[Facts, int]:
    demuxer = options.format if isinstance(options.format, str) else None
    probed = probe(file.ffmpeg_path(), name, demuxer=demuxer, track=options.track)
    facts = _with_stored_length(file, head, probed.facts, probed.track)
    return replace(facts, damage=missing(file, head)), probed.stream_index


def _with_stored_length(file: OpenBytes, head: memoryview, facts: Facts, track: int) -> Facts:
    """`facts` with the length that the container stores, where FFmpeg does not tell it to the sample."""
    container = facts.container.split(",")[0]
    if container in MP4_NAMES:
        lengths = mp4.track_seconds(file)
        seconds = lengths[track] if track < len(lengths) else None
        if seconds is not None:
            # By the edit list, FFmpeg would drop whole packets at an end that is rounded to a millisecond.
            num_samples = round(seconds * facts.sample_rate)
            return replace(facts, num_samples=num_samples, demuxer_options=(("advanced_editlist", "0"),))
    elif container == "caf":
        table = caf.packet_table(file, head)
        if table is not None:
            facts = replace(facts, num_samples=table.num_samples, slack=table.remainder + facts.frame_samples)
            if facts.codec == "alac":  # FFmpeg would cut the remainder off a last frame that is short without it
                return replace(facts, leading_samples=table.priming, untrimmed=True)
    elif container in ("wav", "w64"):
        blocks = adpcm.counted_blocks(file, head)
        if blocks is not None:
            return replace(facts, num_samples=blocks.num_samples, slack=blocks.block_samples)
    return facts


def _raw_facts(raw: RawPCM, file: OpenBytes) -> Facts:
    bytes_per_sample = SAMPLE_FORMATS[raw.sample_format]
    num_samples, rest = divmod(file.size, bytes_per_sample * raw.num_channels)
    at_seconds = num_samples / raw.sample_rate
    cut = Damage(at_seconds, "truncated", f"ends {rest} bytes into a sample of {raw.num_channels} channels")
    return Facts(
        container=raw.sample_format,
        codec=f"pcm_{raw.sample_format}",
        sample_rate=raw.sample_rate,
        num_channels=raw.num_channels,
        channel_layout={1: "mono", 2: "stereo"}.get(raw.num_channels),
        bits_per_sample=8 * bytes_per_sample,
        num_samples=num_samples,
        pcm=Pcm(raw.sample_format, 0, 8 * bytes_per_sample),
        damage=(cut,) if rest else (),
    )


def _pieces(file: OpenBytes, facts: Facts, files: contextlib.ExitStack) -> tuple[Piece, ...]:
    if facts.pcm is not None:
        return ()  # the wav engine reads the file itself
    if facts.pieces is None:
        return (Piece(file.ffmpeg_path(), facts),)
    pieces = []
    for start, stop in facts.pieces:
        piece = files.enter_context(Encoded(file.read(stop - start, start)).open())
        own = facts if len(facts.pieces) == 1 else read_facts(piece, piece.read(_HEAD_BYTES, 0))
        pieces.append(Piece(piece.ffmpeg_path(), own or replace(facts, num_samples=None, slack=0)))
    return tuple(pieces)


def _origin(path: str | bytes, name: str, facts: Facts, stream_index: int | None) -> int:
    if facts.codec in ("flac", "wavpack"):
        return 0
    return first_timestamp(path, name, facts, stream_index)


def _limit(job: DecodeJob, facts: Facts, plan: Plan) -> int | None:
    seconds = job.options.max_seconds
    if seconds is None:
        return None
    limit = int(seconds * plan.sample_rate)
    if facts.num_samples is not None and plan.length_of(facts.num_samples) > limit:
        length = plan.length_of(facts.num_samples) / plan.sample_rate
        raise LimitError(f"has {length:.3f} seconds, more than max_seconds={seconds}", source=job.file.name)
    return limit
