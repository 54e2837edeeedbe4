"""How much may be under way: the bound on clips and bytes ahead of the consumer. Pure."""

from __future__ import annotations

from collections import deque

__all__ = ["Room"]

# Loads whose sizes say how large those under way may become.
_RECENT = 64


class Room:
    """Counts the clips between the input and the consumer, and says how many more may be begun.

    At most `prefetch` batches and a window of `bucket` clips are ahead of the consumer, and `max_bytes` of audio. When
    no batch is ready, `least` loads may run whatever the bytes: so a batch that passes the bound by itself is made all
    the same. No more run before a size is known. `batch_clips` is how many clips a batch has, which is learnt from
    batches unless `is_exact`; until there is one, `least_clips` may be ahead.
    """

    def __init__(
        self,
        *,
        prefetch: int,
        bucket: int,
        max_bytes: int,
        batch_clips: float,
        is_exact: bool,
        least: int,
        least_clips: int,
    ) -> None:
        self._prefetch, self._bucket, self._max_bytes = prefetch, bucket, max_bytes
        self._least, self._least_clips = least, least_clips
        self._batch_clips, self._is_exact = batch_clips, is_exact
        self._sizes: deque[int] = deque(maxlen=_RECENT)
        self.loading = 0
        self.ahead = 0
        self.num_bytes = 0
        self.batches = 0

    def free(self) -> int:
        """How many clips may be begun now."""
        by_clips = int(self._prefetch * self._batch_clips) + self._bucket - self.ahead
        least = self._least - self.loading
        largest = max(self._sizes, default=0)
        by_bytes = (self._max_bytes - self.num_bytes) // largest - self.loading if largest else least
        if self.batches == 0:
            by_bytes = max(by_bytes, least)
            if not self._is_exact:
                by_clips = max(by_clips, self._least_clips - self.loading)
        return max(0, min(by_clips, by_bytes))

    def begin(self) -> None:
        """A load begins."""
        self.loading += 1
        self.ahead += 1

    def loaded(self, num_bytes: int) -> None:
        """A load has ended, and holds so many bytes."""
        self.loading -= 1
        self.num_bytes += num_bytes
        if num_bytes:
            self._sizes.append(num_bytes)

    def leave(self, num_clips: int, num_bytes: int) -> None:
        """Clips are let go, with what they hold."""
        self.ahead -= num_clips
        self.num_bytes -= num_bytes

    def grouped(self, num_clips: int) -> None:
        """A batch of so many clips is under way."""
        self.batches += 1
        if not self._is_exact:
            self._batch_clips += (max(1, num_clips) - self._batch_clips) / 4

    def resized(self, difference: int) -> None:
        """What a batch holds has changed by so many bytes."""
        self.num_bytes += difference

    def taken(self, num_clips: int, num_bytes: int) -> None:
        """The consumer has taken a batch."""
        self.batches -= 1
        self.leave(num_clips, num_bytes)
