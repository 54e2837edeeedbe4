"""Batches for PyTorch's DataLoader and whatever is built around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from aioaudio.api import without_self
from aioaudio.audio import Batch
from aioaudio.batch import BlockingResults
from aioaudio.session import Session, default_session

__all__ = ["AudioIterableDataset"]


class AudioIterableDataset(IterableDataset[Batch]):
    """`aioaudio.sync.batches` as a dataset: `DataLoader(AudioIterableDataset(clips, ...), batch_size=None)`.

    Takes what `batches` takes, checked at once; `epochs` is not wanted. Each time that it is iterated it gives the next
    epoch, beginning with `epoch`, also where the iteration before was left early.

    It is a dataset of whole batches, made by threads: so the loader must neither batch (`batch_size=None`) nor have
    more than one worker process. Best is `num_workers=0`: a worker process begins with the same epoch each time, unless
    `set_epoch` was called before. `state_dict` and `load_state_dict` are as torchdata's StatefulDataLoader calls them.
    """

    def __init__(self, clips: Any, **options: Any) -> None:
        bound = without_self(Session.batches).bind(clips, **options)
        if "epochs" in options:
            raise TypeError("AudioIterableDataset takes no epochs: each iteration is one")
        if isinstance(clips, Iterator | AsyncIterator):
            raise TypeError(f"AudioIterableDataset needs clips that can be iterated again, not {type(clips).__name__}")
        self._options = dict(bound.arguments)
        self._epoch = int(options.get("epoch", 0))
        self._state: Mapping[str, Any] | None = None
        self._running: tuple[int, BlockingResults[Batch]] | None = None  # what was iterated last, and its epoch
        if options.get("uneven", "allow") == "allow":  # otherwise making it is a collective call
            self._make()

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise RuntimeError("each worker process would give all batches: use num_workers=0, threads do the work")
        results = self._make()
        if self._state is not None:
            results.load_state_dict(self._state)
            self._state = None
        self._running = self._epoch, results
        self._epoch += 1
        return self._iterate(results)

    def set_epoch(self, epoch: int) -> None:
        """Have the next iteration give this epoch, or what is left of it where a state of it was loaded."""
        if epoch != self._epoch:
            self._epoch, self._state = epoch, None
        self._running = None

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands."""
        if self._running is not None:
            epoch, results = self._running
            return {"epoch": epoch, "results": results.state_dict()}
        return {"epoch": self._epoch, "results": None if self._state is None else dict(self._state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next iteration go on where `state` was taken."""
        self._epoch, self._state, self._running = state["epoch"], state["results"], None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None}  # it has threads, and belongs to this process

    def _iterate(self, results: BlockingResults[Batch]) -> Iterator[Batch]:
        with results:
            yield from results
        if self._running is not None and self._running[1] is results:
            self._running = None

    def _make(self) -> BlockingResults[Batch]:
        options = {**self._options, "epoch": self._epoch}
        return default_session().batches(**options).blocking()


AudioIterableDataset.__signature__ = without_self(Session.batches)  # type: ignore[attr-defined]
