"""A walk over all frames of MPEG audio, from header to header: how many there are, and what is no frame."""

from __future__ import annotations

from typing import Literal, NamedTuple

from aioaudio.decode.headers.mp3_frames import Frame, Search, frame_at, frame_sizes
from aioaudio.decode.headers.mp3_tags import encoder_tag, skip_filler
from aioaudio.decode.headers.window import Window

__all__ = ["Fault", "Walk", "walk"]

_BLOCK_BYTES = 1 << 18

# A header is known by this many bytes.
_KEY_BYTES = 3

_MAX_FAULTS = 100
_MAX_CANDIDATES = 1 << 16

# Zeros between two frames that could not hold the smallest one hide none.
_MIN_FRAME_BYTES = 24


class Fault(NamedTuple):
    """What is wrong behind the first `num_samples`: `kind` is as in Damage."""

    num_samples: int
    kind: Literal["truncated", "undecodable", "junk"]
    message: str


class Walk(NamedTuple):
    """Whole frames, their samples at the rate of the first, and what is wrong; `is_complete` if the end was reached."""

    num_frames: int
    num_samples: int
    faults: tuple[Fault, ...]
    is_complete: bool


def walk(window: Window, start: int, stop: int, first: Frame) -> Walk:
    """Follow the frames in `[start, stop)`, of which `first` is the first. Tags and zeros between files that were put
    one behind the other, or at the end, are no fault."""
    walker = _Walker(window, start, stop, first)
    while walker.at != stop and len(walker.faults) < _MAX_FAULTS:
        walker.follow()
        if walker.at != stop:
            walker.bridge()
    return Walk(walker.num_frames, walker.num_samples, tuple(walker.faults), walker.at == stop)


class _Walker:
    def __init__(self, window: Window, start: int, stop: int, first: Frame) -> None:
        self.window, self.stop = window, stop
        self.first = self.frame = first  # of the file, and of the stream at hand
        self.at = self.last = start  # `last` is where the last frame before `at` begins
        self.num_frames = self.num_samples = 0
        self.faults: list[Fault] = []
        self.search = Search(window, stop, _MAX_CANDIDATES)

    def follow(self) -> None:
        """Count the frames from `at` on, up to the first bytes that are no header of the stream."""
        sizes = frame_sizes(self.frame.stream_bits)
        num_frames, is_over = 0, False
        while not is_over:
            block = bytes(self.window.read(min(_BLOCK_BYTES, self.stop - self.at), self.at))
            last = at = 0
            while size := sizes.get(block[at : at + _KEY_BYTES]):
                last, at = at, at + size
                num_frames += 1
            is_over = at == 0 or at + _KEY_BYTES <= len(block) or self.at + at >= self.stop
            if at:
                self.last, self.at = self.at + last, self.at + at
        self._count(num_frames)

    def bridge(self) -> None:
        """Go on where frames begin again, or to the end, and note what lies between."""
        if self.at < self.stop:
            after, has_tag = skip_filler(self.window, self.at)
            after = min(after, self.stop)
            if after == self.stop or self.search.begins_run(after, self.frame.stream_bits):
                self._pass_filler(after, has_tag)
                return
        else:
            after, has_tag = self.at, False
        # The last frame may have lost bytes: then the next one begins before the end that its header tells.
        resume = self.search.find(self.last + 1, self.frame.stream_bits)
        if resume is None:
            self._end(after)
        elif resume < self.at:
            self._count(-1)
            self._note("undecodable", "a frame is cut short: bytes are missing")
            self._resume(resume)
        else:
            is_junk = has_tag or self._begins_file(resume)
            message = f"{resume - after} bytes that are no MPEG audio"
            # Whether the last frame is whole cannot be told.
            self._note("junk" if is_junk else "undecodable", message, num_frames_back=not is_junk)
            self._resume(resume)

    def _pass_filler(self, after: int, has_tag: bool) -> None:
        num_zeros = after - self.at
        if after < self.stop and num_zeros >= _MIN_FRAME_BYTES and not has_tag and not self._begins_file(after):
            self._note("undecodable", f"{num_zeros} zeros instead of MPEG audio", num_frames_back=1)
        self._resume(after)

    def _end(self, after: int) -> None:
        """Note why no more frames come, from `after` on."""
        if self.search.is_over:
            self._note("undecodable", "bytes that are no MPEG audio", num_frames_back=1)
            self.stop = after
        elif after > self.stop:
            self._count(-1)
            self._note("truncated", "the last frame is cut off")
        else:
            self._note("junk", f"{self.stop - after} bytes after the end that are no MPEG audio")
        self.at = self.stop

    def _begins_file(self, offset: int) -> bool:
        frame = frame_at(self.window, offset)
        return frame is not None and encoder_tag(self.window, offset, frame) is not None

    def _resume(self, offset: int) -> None:
        self.at = offset
        self.frame = frame_at(self.window, offset) or self.frame

    def _count(self, num_frames: int) -> None:
        frame, first = self.frame, self.first
        self.num_frames += num_frames
        self.num_samples += num_frames * frame.num_samples * first.sample_rate // frame.sample_rate

    def _note(self, kind: Literal["truncated", "undecodable", "junk"], message: str, num_frames_back: int = 0) -> None:
        num_samples = self.num_samples - num_frames_back * self.frame.num_samples
        self.faults.append(Fault(max(0, num_samples), kind, message))
