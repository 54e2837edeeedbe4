"""A walk over all frames of MPEG audio, from header to header: how many there are, and what is no frame."""

from __future__ import annotations

from typing import Literal, NamedTuple

from aioaudio.decode.headers.mp3_frames import Frame, Search, frame_at, frame_sizes, leans_back
from aioaudio.decode.headers.mp3_tag import encoder_tag
from aioaudio.decode.headers.tags import skip_filler
from aioaudio.decode.headers.window import Window

__all__ = ["Fault", "Part", "walk"]

_BLOCK_BYTES = 1 << 18

# A header is known by this many bytes.
_KEY_BYTES = 3

_MAX_FAULTS = 100
_MAX_PARTS = 256
_MAX_CANDIDATES = 1 << 16

# Where the smallest frame has no room, none is missing: some encoders padded otherwise than they said.
_MIN_FRAME_BYTES = 24

Kind = Literal["truncated", "undecodable", "junk"]


class Fault(NamedTuple):
    """What is wrong behind the first `num_samples` of a part: `kind` is as in Damage."""

    num_samples: int
    kind: Kind
    message: str


class Part(NamedTuple):
    """One of the files that were put one behind the other: its frames lie in `[start, stop)`, `first` is the first.

    Whole frames are counted, and their samples, at the rate of the first; `is_complete` if that went on to the end.
    """

    start: int
    stop: int
    first: Frame
    num_frames: int
    num_samples: int
    faults: tuple[Fault, ...]
    is_complete: bool


def walk(window: Window, start: int, stop: int, first: Frame) -> list[Part]:
    """The parts of `[start, stop)`, where `first` is the first frame.

    Tags and zeros behind the frames are no fault, nor are tags between them.
    """
    search = Search(window, stop, _MAX_CANDIDATES)
    parts: list[Part] = []
    frame: Frame | None = first
    while frame is not None:
        walker = _Walker(window, start, stop, frame, search, may_split=len(parts) < _MAX_PARTS)
        walker.run()
        parts.append(walker.part(start))
        start = walker.at
        frame = frame_at(window, start) if walker.is_next else None
    return parts


class _Walker:
    """Walks over one part. At `at`, `num_frames` have been counted, of which the last lies at `[last, end)`; `frame`
    is the first of those that have its rate. In the end `is_next` says whether another part begins at `at`."""

    def __init__(self, window: Window, start: int, stop: int, first: Frame, search: Search, *, may_split: bool) -> None:
        self.window, self.stop, self.search, self.may_split = window, stop, search, may_split
        self.first = self.frame = first
        self.at = self.last = self.end = start
        self.num_frames = self.num_samples = 0
        self.faults: list[Fault] = []
        self.is_next = False

    @property
    def is_lost(self) -> bool:
        """Whether so much is wrong that the rest is not looked at."""
        return self.search.is_over or len(self.faults) >= _MAX_FAULTS

    def run(self) -> None:
        while self.at != self.stop and not self.is_next and not self.is_lost:
            self._follow()
            if self.at != self.stop:
                self._bridge()

    def part(self, start: int) -> Part:
        return Part(
            start, self.end, self.first, self.num_frames, self.num_samples, tuple(self.faults), not self.is_lost
        )

    def _follow(self) -> None:
        """Count the frames from `at` on, up to the first bytes that are no header of the stream."""
        sizes = frame_sizes(self.frame.stream_bits)
        num_frames, goes_on = 0, True
        while goes_on:
            block = bytes(self.window.read(min(_BLOCK_BYTES, self.stop - self.at), self.at))
            last = at = 0
            while size := sizes.get(block[at : at + _KEY_BYTES]):
                last, at = at, at + size
                num_frames += 1
            goes_on = at > 0 and at + _KEY_BYTES > len(block) and self.at + at < self.stop
            if at:
                self.last, self.at = self.at + last, self.at + at
        self.end = self.at
        self._count(num_frames)

    def _bridge(self) -> None:
        """Go on where frames begin again, or to the end, and note what lies between."""
        after, has_tag = self.at, False
        if self.at < self.stop:
            after, has_tag = skip_filler(self.window, self.at, self.stop)
            if after == self.stop or self.search.begins_run(after, self.frame.stream_bits):
                self._pass_filler(after, has_tag)
                return
        # The last frame may have lost bytes: then the next one begins before the end that its header tells.
        resume = self.search.find(self.last + 1, self.stop, self.frame.stream_bits)
        if resume is None:
            self._end(after)
            return
        begins_file = self._begins_file(resume, has_tag)
        if resume < self.at:
            self._note("undecodable", "a frame is cut short: bytes are missing", num_frames_back=1)
            self._count(-1)
            self.end = self.last
        elif begins_file:
            self._note("junk", f"{resume - after} bytes between two files that are no MPEG audio")
        else:
            # Whether the last frame is whole cannot be told.
            self._note("undecodable", f"{resume - self.at} bytes that are no MPEG audio", num_frames_back=1)
        self._resume(resume, begins_file)

    def _pass_filler(self, after: int, has_tag: bool) -> None:
        begins_file = after < self.stop and self._begins_file(after, has_tag)
        num_zeros = after - self.at
        if num_zeros and not (has_tag or begins_file or after == self.stop):
            message = f"{num_zeros} zeros between frames"
            if num_zeros < _MIN_FRAME_BYTES:
                self._note("junk", message)
            else:
                self._note("undecodable", message, num_frames_back=1)
        self._resume(after, begins_file)

    def _end(self, after: int) -> None:
        """Note why no more frames come, with `after` behind tags and zeros."""
        if self.search.is_over:
            self._note("undecodable", "bytes that are no MPEG audio", num_frames_back=1)
        elif after > self.stop:
            self._count(-1)
            self.end = self.last
            self._note("truncated", "the last frame is cut off")
        elif self._is_cut_header(bytes(self.window.read(min(_KEY_BYTES, self.stop - self.at), self.at))):
            self._note("truncated", "the last frame is cut off")
        else:
            self._note("junk", f"{self.stop - after} bytes after the end that are no MPEG audio")
        self.at = self.stop

    def _is_cut_header(self, rest: bytes) -> bool:
        return len(rest) < _KEY_BYTES and any(key.startswith(rest) for key in frame_sizes(self.frame.stream_bits))

    def _begins_file(self, offset: int, has_tag: bool) -> bool:
        """Whether another file, of two frames at least, begins at `offset`, behind a tag or not."""
        frame = frame_at(self.window, offset)
        second = None if frame is None else frame_at(self.window, offset + frame.num_bytes)
        if frame is None or second is None or offset + frame.num_bytes + second.num_bytes > self.stop:
            return False
        is_alone = has_tag and not leans_back(self.window, offset, frame)
        return self.may_split and (is_alone or encoder_tag(self.window, offset, frame) is not None)

    def _resume(self, offset: int, begins_file: bool) -> None:
        self.at, self.is_next = offset, begins_file
        self.frame = frame_at(self.window, offset) or self.frame

    def _count(self, num_frames: int) -> None:
        self.num_frames += num_frames
        self.num_samples += num_frames * self.frame.num_samples * self.first.sample_rate // self.frame.sample_rate

    def _note(self, kind: Kind, message: str, num_frames_back: int = 0) -> None:
        num_samples = self.num_samples - num_frames_back * self.frame.num_samples
        self.faults.append(Fault(max(0, num_samples), kind, message))
