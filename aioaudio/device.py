"""From the host to a device: memory to write into, one copy, and a hand-over that the host does not wait for.

    worker      host memory ──► copy ──► work on the device, both on a side stream ──► event
    consumer                                    its current stream waits for the event, and is recorded

All calls of CUDA are in `_Cuda`. What has no streams is served by `PlainTransfer`, whose copy is done when it returns.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

import torch

__all__ = [
    "Arrive",
    "DeviceOptions",
    "PlainTransfer",
    "StreamTransfer",
    "Streams",
    "Transfer",
    "adopt",
    "as_device",
    "transfer_to",
]

#: What is made of the copy on the device. It holds every tensor that the consumer gets.
Work = Callable[[torch.Tensor], list[torch.Tensor]]

#: Makes what was sent safe to use in the stream that is current in the calling thread.
Arrive = Callable[[], None]

# torch has as many streams of CUDA to give, and then gives them again.
_MAX_STREAMS = 32


class Transfer(Protocol):
    """A way to a device."""

    @property
    def device(self) -> torch.device: ...

    def host_memory(self, num_bytes: int) -> torch.Tensor:
        """Memory on the host, uint8, from which a copy is quick."""
        ...

    def send(self, host: torch.Tensor, work: Work) -> tuple[list[torch.Tensor], Arrive | None]:
        """What `work` makes of a copy of `host` on the device, and what the consumer must call before it uses that.

        Called in a worker. `host` may be let go at once, and must not be written to again.
        """
        ...

    @property
    def wait(self) -> Callable[[], None] | None:
        """Waits, in a worker that may block, until the device has caught up with its consumers; None if it has."""
        ...


class PlainTransfer:
    """A transfer that is done when it returns."""

    wait = None

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def host_memory(self, num_bytes: int) -> torch.Tensor:
        return torch.empty(num_bytes, dtype=torch.uint8, device="cpu")

    def send(self, host: torch.Tensor, work: Work) -> tuple[list[torch.Tensor], Arrive | None]:
        return work(host.to(self.device)), None


class Event(Protocol):
    """A place in a stream."""

    def synchronize(self) -> None:
        """Wait, in this thread, until the stream has come there."""
        ...


class Streams(Protocol):
    """What is asked of a device that has streams."""

    @property
    def device(self) -> torch.device: ...
    def pinned(self, num_bytes: int) -> torch.Tensor: ...
    def new_stream(self) -> Any: ...
    def current_stream(self) -> Any:
        """The stream that is current in this thread."""
        ...

    def launch(self, stream: Any, host: torch.Tensor, work: Work) -> list[torch.Tensor]:
        """In `stream`, copy `host`, and do `work` on the copy."""
        ...

    def record(self, stream: Any) -> Event: ...
    def wait(self, stream: Any, event: Any) -> None:
        """Have `stream` wait, not the host."""
        ...

    def keep(self, tensor: torch.Tensor, stream: Any) -> None:
        """Once `tensor` is freed, do not reuse its memory before `stream` has done what it was asked until then."""
        ...


class StreamTransfer:
    """Copies on side streams in turn. The consumer's stream waits for them, the host for none.

    What the consumer takes stays safe by `keep`, which is record_stream for CUDA: the allocator knows only the side
    stream, in which a tensor was made, and would else give its memory to the next copy there as soon as the consumer
    drops it, though its kernels are still to read it. SPDL (docs/source/notes/pytorch_cuda_race_condition.rst) holds on
    to the last four batches instead, since it hands tensors over without knowing the stream that will use them. Here
    the hand-over runs in the consumer's thread, so that stream is known; and no count of batches has to be guessed.
    Host memory needs no guard of ours: the caching host allocator waits for the copies that read it.

    Up to `max_in_use` of what was taken may still be in use by the device; beyond that `wait` blocks. One thread at a
    time may call it.
    """

    def __init__(self, streams: Streams, num_streams: int, max_in_use: int | None = None) -> None:
        self._streams, self._max_in_use = streams, max_in_use
        self.device = streams.device
        self._side = itertools.cycle([streams.new_stream() for _ in range(num_streams)])
        self._lock = threading.Lock()
        self._in_use: deque[Event] = deque()

    def host_memory(self, num_bytes: int) -> torch.Tensor:
        return self._streams.pinned(num_bytes)

    def send(self, host: torch.Tensor, work: Work) -> tuple[list[torch.Tensor], Arrive | None]:
        with self._lock:
            stream = next(self._side)
        sent = self._streams.launch(stream, host, work)
        ready = self._streams.record(stream)
        return sent, lambda: self._arrive(sent, ready)

    def _arrive(self, sent: Sequence[torch.Tensor], ready: Event) -> None:
        current = self._streams.current_stream()
        if self._max_in_use is not None:
            # Whatever uses the batches that were taken before this one is in the stream by now.
            event = self._streams.record(current)
            with self._lock:
                self._in_use.append(event)
        self._streams.wait(current, ready)
        for tensor in sent:
            self._streams.keep(tensor, current)

    @property
    def wait(self) -> Callable[[], None] | None:
        return self._wait if self._is_behind else None

    @property
    def _is_behind(self) -> bool:
        return self._max_in_use is not None and len(self._in_use) > self._max_in_use

    def _wait(self) -> None:
        while self._is_behind:
            with self._lock:
                event = self._in_use.popleft()
            event.synchronize()


class _Cuda:
    """The calls of CUDA."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def pinned(self, num_bytes: int) -> torch.Tensor:
        with torch.cuda.device(self.device):
            return torch.empty(num_bytes, dtype=torch.uint8, device="cpu", pin_memory=True)

    def new_stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    def current_stream(self) -> torch.cuda.Stream:
        return torch.cuda.current_stream(self.device)

    def launch(self, stream: torch.cuda.Stream, host: torch.Tensor, work: Work) -> list[torch.Tensor]:
        with torch.cuda.stream(stream):
            return work(host.to(self.device, non_blocking=True))

    def record(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # who waits sleeps, and does not spin
        event.record(stream)
        return event

    def wait(self, stream: torch.cuda.Stream, event: torch.cuda.Event) -> None:
        stream.wait_event(event)

    def keep(self, tensor: torch.Tensor, stream: torch.cuda.Stream) -> None:
        tensor.record_stream(stream)

    def adopt(self, tensor: torch.Tensor) -> None:
        """Make a tensor that has arrived in the default stream safe in the one that is current in this thread."""
        current, default = self.current_stream(), torch.cuda.default_stream(self.device)
        if current != default:
            current.wait_stream(default)
            tensor.record_stream(current)


def as_device(device: torch.device | str | int | None) -> torch.device | None:
    """A device as it is asked for, "cuda" with the index of the current one. None is none.

    Raises TypeError for what names no device, and ValueError for one that this torch does not have.
    """
    if device is None:
        return None
    if not isinstance(device, torch.device | str | int) or isinstance(device, bool):
        raise TypeError(f"device must be a torch.device or the name of one, not {device!r}")
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be a torch.device or the name of one, not {device!r}") from error
    if wanted.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device={str(wanted)!r} needs CUDA, which this torch or this machine does not have")
        wanted = torch.device("cuda", torch.cuda.current_device() if wanted.index is None else wanted.index)
        if wanted.index >= torch.cuda.device_count():
            raise ValueError(f"device={str(wanted)!r}, but there are {torch.cuda.device_count()} devices of CUDA")
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """Where results go; the meaning is documented at `Session.batches`."""

    device: torch.device | str | int | None = None
    streams: int = 2
    resample_on: Literal["cpu", "device"] = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", as_device(self.device))
        if isinstance(self.streams, bool) or not isinstance(self.streams, int):
            raise TypeError(f"streams must be an integer, not {self.streams!r}")
        if not 1 <= self.streams <= _MAX_STREAMS:
            raise ValueError(f"streams must be from 1 to {_MAX_STREAMS}, not {self.streams}")
        if self.resample_on not in ("cpu", "device"):
            raise ValueError(f"resample_on must be 'cpu' or 'device', not {self.resample_on!r}")
        if self.resample_on == "device" and self.device is None:
            raise ValueError("resample_on='device' needs device=")

    def transfer(self, max_in_use: int) -> Transfer | None:
        """A way there for one run; None where results stay where they are made."""
        if self.device is None:
            return None
        return transfer_to(torch.device(self.device), streams=self.streams, max_in_use=max_in_use)

    def shared_transfer(self) -> Transfer | None:
        """A way there for single loads."""
        return None if self.device is None else _shared_transfer(torch.device(self.device))


def transfer_to(device: torch.device, *, streams: int, max_in_use: int | None = None) -> Transfer:
    """A way to `device`, with so many side streams where it has any."""
    if device.type == "cuda":
        return StreamTransfer(_Cuda(device), streams, max_in_use)
    return PlainTransfer(device)


@cache
def _shared_transfer(device: torch.device) -> Transfer:
    return transfer_to(device, streams=2)


def adopt(tensor: torch.Tensor) -> None:
    """Make a tensor that another thread took, in its device's default stream, safe in this thread's current stream."""
    if tensor.is_cuda:
        _Cuda(tensor.device).adopt(tensor)
