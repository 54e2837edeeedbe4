"""The results of a run, for event loops and for code without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from aioaudio.arriving import Arriving, BlockingArriving, Holder
from aioaudio.batch.run import Run
from aioaudio.batch.statistics import StageStatistics

__all__ = ["BlockingResults", "Results"]

R = TypeVar("R")


class _Base(Holder[R]):
    """What both faces tell of the work."""

    _run: Run[R]

    def __init__(self, run: Run[R]) -> None:
        self._run = run

    @property
    def failures(self) -> ExceptionGroup[Exception] | None:
        """Everything that has failed so far, None if nothing has. Each error's notes name its source and its stage.

        The message counts all failures; the errors of the first thousand are kept.
        """
        return self._run.log.summary()

    def statistics(self) -> Mapping[str, StageStatistics]:
        """What each stage has done, by its name, in the order in which clips go through them."""
        return self._run.meter.statistics()

    @property
    def padding(self) -> float:
        """Share of the samples in the batches so far that are padding, from 0 to 1."""
        return self._run.meter.padding

    def state_dict(self) -> dict[str, Any]:
        """Where this stands: what is to come after the results that were given out. Plain values, fit for JSON."""
        return self._run.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken, with the same clips and options; before the first result.

        In input order the very same results follow that would have; in completion order, or with another batch size,
        the same clips. Raises ValueError for a state of another seed, shuffling or shard, or from within a `bucket` of
        a run that made other batches of it, and RuntimeError once this has begun.
        """
        self._run.load_state_dict(state)


class Results(_Base[R], Arriving[R]):
    """Results that arrive: `async for` gives them, and is best inside `async with`, which ends the work in any case.

    Work begins with the first result that is asked for, and goes on ahead of it. Exhaustion, an error and `aclose()`
    end it. Leaving a loop early without `async with` or `aclose()` gives a ResourceWarning, and ends it as well, as
    soon as the object is collected. Several tasks may iterate at once; each result goes to one of them.

    Cancelling what awaits the next result loses none.
    """

    def blocking(self) -> BlockingResults[R]:
        """The same for code without an event loop, before the first result is asked for."""
        self._run.check_not_begun()
        return BlockingResults(self._run)


class BlockingResults(_Base[R], BlockingArriving[R]):
    """Results for code without an event loop: `for` gives them, and is best inside `with`.

    The work is done by the library's own threads, so this may be used beside a running event loop, in Jupyter for one;
    it blocks the thread that it is used in. Otherwise it is as `Results`.
    """
