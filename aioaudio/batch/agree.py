"""Ranks that go through their epochs in step: what one has, all have, or nobody.

Each rank says, before it gives out a batch, whether it has one; all learn the same answer. That needs one small
reduction for each batch, ahead of the consumer, in a process group of its own, so that it meets no other collective.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from enum import Enum
from typing import Any, Literal, Protocol

import torch

__all__ = ["Agree", "Answer", "Ranks", "decide"]


class Answer(Enum):
    """What a rank does next."""

    GIVE = "give"  # the batch that it has
    REPEAT = "repeat"  # a batch of clips that it had before
    END = "end"  # the epoch


class Agree(Protocol):
    """Asks all ranks."""

    async def ask(self, has_batch: bool) -> tuple[bool, bool]:
        """Whether any rank has a batch, and whether any has none. Raises RuntimeError if one has left."""
        ...

    def leave(self) -> None:
        """Tell the others that no more questions come from here. Never waits."""
        ...


def decide(uneven: Literal["allow", "drop", "repeat"], has_batch: bool, any_has: bool, any_lacks: bool) -> Answer:
    """What to do once all ranks have said whether they have a batch; all of them give one, or none does."""
    if uneven == "drop":
        return Answer.END if any_lacks else Answer.GIVE
    if not any_has:
        return Answer.END
    return Answer.GIVE if has_batch else Answer.REPEAT


class Ranks:
    """The ranks of torch.distributed. Making one is a collective call: each rank makes its own, in the same order."""

    def __init__(self) -> None:
        from torch import distributed

        if not (distributed.is_available() and distributed.is_initialized()):
            raise ValueError(
                "uneven='drop' and 'repeat' need torch.distributed to be initialized: ranks tell each other"
            )
        self._distributed: Any = distributed
        self._group: Any = distributed.new_group(backend="gloo")
        self._lock = threading.Lock()
        self._is_asking = False
        self._is_leaving = False
        self._is_over = False

    async def ask(self, has_batch: bool) -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        flags = torch.tensor([has_batch, not has_batch, False], dtype=torch.int32)
        self._is_asking = True
        work = self._reduce(flags)

        def settle() -> None:
            if not answered.done():
                answered.set_result(None)

        def done(_: object) -> None:
            with self._lock:
                self._is_asking = False
                self._is_over = self._is_over or bool(flags[2])
                if self._is_leaving:
                    self._say_that_it_left()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle)

        work.get_future().then(done)
        await answered
        work.wait()  # it is over; raises what went wrong
        any_has, any_lacks, any_left = map(bool, flags.tolist())
        if any_left:
            raise RuntimeError("another rank has left its batches before the end of the epoch")
        return any_has, any_lacks

    def leave(self) -> None:
        with self._lock:
            self._is_leaving = True
            if not self._is_asking:  # otherwise that question has to be answered first
                self._say_that_it_left()

    def _say_that_it_left(self) -> None:
        """In place of this rank's next question, unless the others have left as well, and ask no more."""
        if not self._is_over:
            self._is_over = True
            self._reduce(torch.tensor([False, False, True], dtype=torch.int32))

    def _reduce(self, flags: torch.Tensor) -> Any:
        distributed = self._distributed
        return distributed.all_reduce(flags, op=distributed.ReduceOp.MAX, group=self._group, async_op=True)
