"""A device with streams that does everything late: for what no machine without CUDA can show.

Work is queued, and done in an order that is drawn by chance among the streams, only when somebody waits for it or when
`advance` is called. Memory that is let go is given out again at once, unless somebody has told that it is in use: as
the caching allocators of CUDA do, for the host and for the device.
"""

from __future__ import annotations

import random
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

__all__ = ["Computation", "FakeGpu", "FakeStream"]

_POISON = 0xAB


@dataclass(eq=False)
class _Op:
    run: Callable[[], object]
    is_ready: Callable[[], bool] = lambda: True
    done: bool = False


@dataclass(eq=False)
class FakeStream:
    """Work in order."""

    ops: deque[_Op] = field(default_factory=deque)


@dataclass(eq=False)
class _Block:
    """Memory. `uses` must be done before it is given out again."""

    raw: Any
    stream: FakeStream | None = None
    keepers: list[FakeStream] = field(default_factory=list)
    uses: list[_Op] = field(default_factory=list)


@dataclass(eq=False)
class _FakeEvent:
    gpu: FakeGpu
    op: _Op

    def synchronize(self) -> None:
        self.gpu.synchronize(self.op)


@dataclass(eq=False)
class Computation:
    """What the consumer has a stream do with a tensor: its bytes are read when the stream comes to it."""

    found: bytes | None = None


class FakeGpu:
    """Implements `Streams`. With `forgets_to_keep` or `forgets_to_wait` it behaves as if it had not been told."""

    device = torch.device("cpu")

    def __init__(self, seed: int = 0, *, forgets_to_keep: bool = False, forgets_to_wait: bool = False) -> None:
        self.consumer = FakeStream()
        self.streams = [self.consumer]
        self.forgets_to_keep, self.forgets_to_wait = forgets_to_keep, forgets_to_wait
        self.launched = self.synchronized = self.reused = 0
        self.most_unfinished = 0
        self.fail_at: int | None = None
        self.fail_synchronize = False
        self._rng = random.Random(seed)
        self._lock = threading.RLock()
        self._blocks: dict[int, _Block] = {}
        self._free: list[_Block] = []
        self._gone: deque[_Block] = deque()  # a finalizer may run anywhere: it only leaves a note here

    # What aioaudio calls

    def pinned(self, num_bytes: int) -> torch.Tensor:
        with self._lock:
            return self._allocate(num_bytes, None)

    def new_stream(self) -> FakeStream:
        self.streams.append(FakeStream())
        return self.streams[-1]

    def current_stream(self) -> FakeStream:
        return self.consumer

    def launch(
        self, stream: FakeStream, host: torch.Tensor, work: Callable[[torch.Tensor], list[torch.Tensor]]
    ) -> list[torch.Tensor]:
        with self._lock:
            self.launched += 1
            if self.fail_at == self.launched:
                raise RuntimeError("the copy failed")
            source, num_bytes = self._block_of(host), host.numel()
            results = [self._allocate_like(one, stream) for one in work(host.clone())]
            places = [self._bytes_of(one) for one in results]

            def copy() -> None:
                values = work(torch.from_numpy(source.raw[:num_bytes].copy()))
                for place, value in zip(places, values, strict=True):
                    place[...] = value.contiguous().view(-1).view(torch.uint8).numpy()

            source.uses.append(self._push(stream, _Op(copy)))
            return results

    def record(self, stream: FakeStream) -> _FakeEvent:
        with self._lock:
            return _FakeEvent(self, self._push(stream, _Op(lambda: None)))

    def wait(self, stream: FakeStream, event: _FakeEvent) -> None:
        if not self.forgets_to_wait:
            with self._lock:
                self._push(stream, _Op(lambda: None, is_ready=lambda: event.op.done))

    def keep(self, tensor: torch.Tensor, stream: FakeStream) -> None:
        if not self.forgets_to_keep:
            with self._lock:
                self._block_of(tensor).keepers.append(stream)

    # What a test calls

    def compute(self, tensor: torch.Tensor) -> Computation:
        """Have the consumer's stream read a tensor. As a kernel, it does not hold it."""
        with self._lock:
            result, place = Computation(), self._bytes_of(tensor)

            def read() -> None:
                result.found = place.tobytes()

            self._push(self.consumer, _Op(read))
            return result

    def advance(self, count: int) -> None:
        """Do so many pieces of work, if there are any."""
        with self._lock:
            for _ in range(count):
                if not self._step():
                    return

    def finish(self) -> None:
        """Do all that was asked."""
        with self._lock:
            while self._step():
                pass
            assert not any(stream.ops for stream in self.streams)

    def synchronize(self, op: _Op) -> None:
        self.synchronized += 1
        if self.fail_synchronize:
            raise RuntimeError("the device has failed")
        with self._lock:
            while not op.done:
                assert self._step(), "a stream waits for what never comes"

    # How it works

    def _push(self, stream: FakeStream, op: _Op) -> _Op:
        stream.ops.append(op)
        self.most_unfinished = max(self.most_unfinished, len(self.consumer.ops))
        return op

    def _step(self) -> bool:
        able = [stream for stream in self.streams if stream.ops and stream.ops[0].is_ready()]
        if not able:
            return False
        op = self._rng.choice(able).ops.popleft()
        op.run()
        op.done = True
        return True

    def _allocate(self, num_bytes: int, stream: FakeStream | None) -> torch.Tensor:
        self._collect()
        size = -(-max(1, num_bytes) // 512) * 512
        for block in reversed(self._free):
            if block.raw.size == size and block.stream is stream and all(op.done for op in block.uses):
                self._free.remove(block)
                self.reused += 1
                break
        else:
            block = _Block(np.empty(size, np.uint8), stream)
        block.keepers, block.uses = [], []
        if stream is None:
            block.raw[:] = _POISON
        view = block.raw[:num_bytes]
        weakref.finalize(view, self._gone.append, block)
        tensor = torch.from_numpy(view)
        self._blocks[block.raw.ctypes.data] = block
        return tensor

    def _allocate_like(self, tensor: torch.Tensor, stream: FakeStream) -> torch.Tensor:
        memory = self._allocate(tensor.nbytes, stream)
        return memory.view(tensor.dtype).view(tensor.shape)

    def _collect(self) -> None:
        """What was let go: the work that its keepers have been asked for until now must be done first."""
        while self._gone:
            block = self._gone.popleft()
            block.uses += [stream.ops[-1] for stream in block.keepers if stream.ops]
            self._free.append(block)

    def _block_of(self, tensor: torch.Tensor) -> _Block:
        return self._blocks[tensor.untyped_storage().data_ptr()]

    def _bytes_of(self, tensor: torch.Tensor) -> Any:
        start = tensor.storage_offset() * tensor.itemsize
        return self._block_of(tensor).raw[start : start + tensor.nbytes]
