"""MPEG audio (MP3, MP2, MP1): the first frames, the tag of the encoder, and what a walk over all frames finds."""

from __future__ import annotations

from typing import NamedTuple

from aioaudio.audio import Damage
from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.mp3_frames import Frame, Search, frame_at
from aioaudio.decode.headers.mp3_tag import EncoderTag, encoder_tag
from aioaudio.decode.headers.mp3_walk import Fault, Part, walk
from aioaudio.decode.headers.tags import audio_stop, skip_filler
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["parse"]

_CODECS = {1: "mp1", 2: "mp2", 3: "mp3float"}

_PREROLL_SECONDS = 0.6

# How far behind the ID3v2 tags the first frame is looked for; FFmpeg looks half as far.
_MAX_JUNK = 1 << 17
_MAX_CANDIDATES = 4096

# Of a larger file only the end is walked over: its last second should not wait for hours of others.
_MAX_WALK_BYTES = 1 << 26
_TAIL_BYTES = 1 << 20


class _Length(NamedTuple):
    """Samples that the encoder's tag promises, None where nothing does, and how many more a decoder may give."""

    num_samples: int | None = None
    slack: int = 0


class _Findings(NamedTuple):
    """The length of the audio, its damage, and where the frames of each file lie, if several were joined."""

    length: _Length
    damage: tuple[Damage, ...]
    parts: tuple[tuple[int, int], ...] = ()


def parse(file: OpenBytes, head: memoryview, start: int = 0) -> Facts | None:
    """Facts of MPEG audio that begins at `start`, where `head` was read; None where anything is unclear."""
    window, offset = Window(file, head, start), start
    frames = _two_frames(window, offset)
    if frames is None and not _is_adts(head):
        window = window.moved(_MAX_JUNK, start)
        offset = _find(window, start, window.size)
        frames = _two_frames(window, offset)
    if frames is None:
        return None
    first, second = frames
    stop = audio_stop(window, offset)
    junk = _leading_junk(window, start, offset)
    findings = (_walk_all if stop - offset <= _MAX_WALK_BYTES else _walk_end)(window, offset, stop, first)
    pieces = None
    if len(findings.parts) > 1:  # FFmpeg would lose a frame behind each tag between them
        pieces = findings.parts
    elif junk or (offset > start and encoder_tag(window, offset, first) is not None):
        pieces = ((offset, file.size),)  # FFmpeg may stumble over junk, and looks for the tag only behind ID3v2 tags
    return Facts(
        container="mp3",
        codec=_CODECS[first.layer],
        sample_rate=first.sample_rate,
        num_channels=second.num_channels,
        channel_layout="mono" if second.num_channels == 1 else "stereo",
        num_samples=findings.length.num_samples,
        slack=findings.length.slack,
        frame_samples=first.num_samples,
        preroll_seconds=_PREROLL_SECONDS if len(findings.parts) < 2 else None,
        pieces=pieces,
        damage=junk + findings.damage,
    )


def _is_adts(head: memoryview) -> bool:
    """Whether `head` begins with a frame of AAC, whose sync is the same, with a layer that MPEG audio does not have."""
    return len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0


def _two_frames(window: Window, offset: int) -> tuple[Frame, Frame] | None:
    """The frame at `offset` and the one right behind it, None where there are not two of one stream."""
    first = frame_at(window, offset)
    second = None if first is None else frame_at(window, offset + first.num_bytes)
    if first is None or second is None or first.stream_bits != second.stream_bits:
        return None
    return first, second


def _find(window: Window, start: int, stop: int) -> int:
    """Where frames begin at `start` or a little later; `stop` where they do not."""
    found = Search(window, stop, _MAX_CANDIDATES).find(start, min(start + _MAX_JUNK, stop))
    return stop if found is None else found


def _leading_junk(window: Window, start: int, stop: int) -> tuple[Damage, ...]:
    after, _ = skip_filler(window, start, stop)
    if after == stop:
        return ()
    return (Damage(0.0, "junk", f"{stop - after} bytes before the first frame that are no MPEG audio"),)


def _walk_all(window: Window, start: int, stop: int, first: Frame) -> _Findings:
    lengths: list[_Length] = []
    damage: list[Damage] = []
    seconds = 0.0
    parts = walk(window, start, stop, first)
    for part, next_start in zip(parts, [*(part.start for part in parts[1:]), stop], strict=True):
        tag, rate = encoder_tag(window, part.start, part.first), part.first.sample_rate
        length, faults = _judge(part, tag, has_rest=part.stop < next_start)
        num_leading = 0 if tag is None else part.first.num_samples + tag.delay
        for fault in faults:
            num_samples, kind = max(0, fault.num_samples - num_leading), fault.kind
            if length.num_samples is not None and num_samples >= length.num_samples:
                num_samples, kind = length.num_samples, "junk"  # behind the end there is nothing to be missed
            damage.append(Damage(seconds + num_samples / rate, kind, fault.message))
        seconds += (part.num_samples - num_leading if length.num_samples is None else length.num_samples) / rate
        lengths.append(length if rate == first.sample_rate else _Length())
    return _Findings(_sum(lengths), tuple(damage), tuple((part.start, part.stop) for part in parts))


def _judge(part: Part, tag: EncoderTag | None, *, has_rest: bool) -> tuple[_Length, tuple[Fault, ...]]:
    """The length that `tag` promises, in the light of the frames that were found, and all faults.

    If the part `has_rest`, bytes behind the last frame, that one may not be whole.
    """
    if tag is None:
        return _Length(), part.faults
    faults, promised, num_frames = part.faults, tag.num_frames, part.num_frames - 1
    if not promised or num_frames > promised:  # then another file was appended, without a tag between them
        return _Length(), faults
    if part.is_complete and all(fault.kind == "junk" for fault in faults):
        # A tag that promises too much proves nothing alone: some encoders count the tag's own frame, or bytes of ID3
        # tags that were taken away since.
        if num_frames < promised and (part.stop - part.start < tag.num_bytes or not tag.num_bytes):
            message = f"ends {promised - num_frames} frames before the end that its tag promises"
            faults = (*faults, Fault(part.num_samples - has_rest * part.first.num_samples, "truncated", message))
        else:
            promised = num_frames
    return _length(promised, tag, part.first), faults


def _length(num_frames: int, tag: EncoderTag, first: Frame) -> _Length:
    num_samples = num_frames * first.num_samples - tag.delay - tag.padding
    # Junk at the end makes FFmpeg forget the padding, and may decode to a frame or two.
    return _Length(num_samples, tag.padding + 2 * first.num_samples) if num_samples > 0 else _Length()


def _sum(lengths: list[_Length]) -> _Length:
    known = [length.num_samples for length in lengths if length.num_samples is not None]
    return _Length(sum(known), max(length.slack for length in lengths)) if len(known) == len(lengths) else _Length()


def _walk_end(window: Window, start: int, stop: int, first: Frame) -> _Findings:
    """The findings for a large file: the tag is believed where no frames follow the bytes that it counts, and damage
    is looked for at the end, at places that are not known."""
    length, tag = _Length(), encoder_tag(window, start, first)
    if tag is not None and tag.num_frames and tag.num_bytes:
        tag_stop, _ = skip_filler(window, start + tag.num_bytes, stop)
        if _find(window, tag_stop, stop) >= stop:
            length = _length(tag.num_frames, tag, first)
    begin = _find(window, stop - _TAIL_BYTES, stop)
    frame = frame_at(window, begin)
    parts = [] if frame is None else walk(window, begin, stop, frame)
    return _Findings(length, tuple(Damage(None, kind, message) for part in parts for _, kind, message in part.faults))
