"""What a source is: pure classification, without I/O."""

from __future__ import annotations

import inspect
import io
import os
import re
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from aioaudio.audio import Clip
from aioaudio.encoded import Encoded, LocalFile, byte_view
from aioaudio.fetch.http import URL, is_url

__all__ = ["AsyncChunks", "AsyncFile", "BlockingFile", "Memory", "Resolved", "Source", "resolve", "short_name"]


class _Reads(Protocol):
    def read(self, size: int, /) -> bytes | Awaitable[bytes]: ...


#: What can be loaded: a path, a URL, encoded bytes, a file-like object, an async one, or an async iterable of bytes.
Source: TypeAlias = (
    str
    | os.PathLike[str]
    | os.PathLike[bytes]
    | URL
    | bytes
    | bytearray
    | memoryview
    | npt.NDArray[np.uint8]
    | torch.Tensor
    | _Reads
    | AsyncIterable[bytes]
    | Encoded
)

_ACCEPTED = (
    "a path, a URL of HTTP or HTTPS, encoded bytes (bytes-like or a uint8 tensor), a binary file-like object with "
    "read(), an async iterable of bytes, or an Encoded"
)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in memory of the caller's, who may change it later; `view` may be strided."""

    view: memoryview
    name: str


@dataclass(frozen=True, slots=True)
class BlockingFile:
    """An object whose `read(size)` is to be called in a thread, from where it stands; it may return an awaitable."""

    file: Any
    name: str


@dataclass(frozen=True, slots=True)
class AsyncFile:
    """An object whose `read(size)` is to be awaited, from where it stands."""

    read: Callable[[int], Awaitable[Any]]
    name: str


@dataclass(frozen=True, slots=True)
class AsyncChunks:
    """An async iterable, or iterator, of bytes."""

    chunks: AsyncIterable[Any]
    name: str


Resolved: TypeAlias = LocalFile | URL | Encoded | Memory | BlockingFile | AsyncFile | AsyncChunks


def resolve(source: Any) -> Resolved:
    """Say which kind of source this is, and what errors call it.

    A `str` is a URL if it begins with http:// or https://, else a path; `bytes` are always audio. Raises TypeError for
    what is no source, and ValueError for a source in a state that cannot be read, or a URL of another kind.
    """
    match source:
        case str():  # the commonest come first: to ask what is path-like takes longer than all else here
            return URL(source) if is_url(source) else LocalFile(_checked_path(source))
        case bytes():
            return Encoded(source)
        case LocalFile() | URL() | Encoded() | Memory() | BlockingFile() | AsyncFile() | AsyncChunks():
            return source
        case Clip():
            raise TypeError("the source of a Clip, or of fetch, must not itself be a Clip")
        case os.PathLike():
            return LocalFile(source)
        case torch.Tensor():
            return _in_memory(_tensor_view(source))
    try:
        memoryview(source)
    except TypeError:
        return _resolve_stream(source)
    return _in_memory(byte_view(source))


def short_name(source: Any) -> str:
    """What to call a source where nothing is to be raised: never what may be secret."""
    try:
        if isinstance(source, URL):
            return source.name
        if isinstance(source, str) and is_url(source):
            return URL(source).name
    except ValueError:
        return "<URL>"
    return str(source) if isinstance(source, str) or hasattr(source, "__fspath__") else f"<{type(source).__name__}>"


def _resolve_stream(source: Any) -> Resolved:
    read = getattr(source, "read", None)
    if not callable(read):
        read = None
    if read is not None and inspect.iscoroutinefunction(read):
        return AsyncFile(read, _file_name(source))
    if isinstance(source, AsyncIterable):
        return AsyncChunks(source, _iterable_name(source))
    if read is None:
        raise TypeError(f"a source must be {_ACCEPTED}, not {type(source).__name__}")
    _check_file(source)
    return BlockingFile(source, _file_name(source))


def _checked_path(path: str) -> str:
    # A Windows drive has one letter; a local file of such a name can be given as a Path.
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.\-]+)://", path)
    if scheme is not None:
        raise ValueError(f"a source must not be a URL of {scheme[1]}://: give {_ACCEPTED}")
    return path


def _tensor_view(tensor: torch.Tensor) -> memoryview:
    if tensor.dtype != torch.uint8 or tensor.layout != torch.strided or tensor.dim() != 1:
        kind = f"{tensor.layout} of {tensor.dtype} with shape {tuple(tensor.shape)}"
        raise TypeError(f"encoded audio as a tensor must be one-dimensional uint8, not {kind}")
    if tensor.device.type != "cpu":
        raise ValueError(f"encoded audio as a tensor must be on the CPU, not on {tensor.device}")
    return byte_view(tensor.numpy())


def _in_memory(view: memoryview) -> Encoded | Memory:
    if isinstance(view.obj, bytes):
        return Encoded(view)
    return Memory(view, f"<{len(view)} bytes>")


def _check_file(source: Any) -> None:
    if isinstance(source, io.TextIOBase):
        raise TypeError(f"{_file_name(source)} is open as text: open it in binary mode ('rb')")
    if getattr(source, "closed", False) is True:
        raise ValueError(f"{_file_name(source)} is closed")
    if isinstance(source, io.IOBase) and not source.readable():
        raise ValueError(f"{_file_name(source)} is not open for reading")


def _file_name(source: Any) -> str:
    name = getattr(source, "name", None)
    if isinstance(name, bytes):
        return os.fsdecode(name)
    return name if isinstance(name, str) and name else f"<{type(source).__name__}>"


def _iterable_name(source: AsyncIterable[Any]) -> str:
    function = getattr(source, "__name__", None)
    kind = type(source).__name__
    return f"<{kind} {function}>" if isinstance(function, str) else f"<{kind}>"
