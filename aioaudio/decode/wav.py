"""The engine for plain PCM: the bytes of the range that is asked for, and one conversion into the result.

All by NumPy: it works in the calling thread alone, and lets go of the GIL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from aioaudio.decode.facts import Facts
from aioaudio.decode.job import StopFlag, check_stop
from aioaudio.decode.mix import Matrix, channel_matrix, remix
from aioaudio.decode.samples import NUMPY_DTYPES, Sink, working_dtype
from aioaudio.decode.unpack import unpack
from aioaudio.encoded import OpenBytes
from aioaudio.options import LoadOptions

__all__ = ["decode", "read_codes"]

Array = npt.NDArray[Any]

#: For each channel of the result, the one channel, or the two, of the source whose mean it is.
Means = tuple[tuple[int, ...], ...]

# Samples in one read: a few MiB, so that memory stays near the result's, and an hour takes few turns of the GIL.
_BLOCK_SAMPLES = 2**20


def decode(
    file: OpenBytes, facts: Facts, start: int, stop: int, options: LoadOptions, flag: StopFlag | None = None
) -> torch.Tensor:
    """Samples `[start, stop)` of the PCM that `facts.pcm` describes, at its own rate, as `options` want them.

    The result is (num_channels, num_samples), contiguous, or options.out; shorter than the range where the file or
    what its header promises ends before `stop`. No byte outside the range is read. Raises SourceError on a read
    error, and ValueError where the source lacks a channel that is asked for, or options.out has another shape; between
    blocks, what `check_stop` raises of `flag`.
    """
    assert facts.pcm is not None
    stop = _present(file, facts, stop)
    matrix = channel_matrix(facts.num_channels, facts.channel_layout, options)
    num_channels = facts.num_channels if matrix is None else len(matrix)
    sink = Sink(num_channels, max(0, stop - start), options)
    means = _means(facts.num_channels, matrix, options)
    position = 0
    with np.errstate(all="ignore"):  # infinities and NaN are samples, too
        for data in _blocks(file, facts, start, stop, flag):
            frames = unpack(data, facts.pcm.sample_format, facts.num_channels)
            _write(frames, means, facts.channel_layout, options, sink, position)
            position += len(frames)
    return sink.waveform if position == sink.waveform.shape[1] else sink.waveform[:, :position].contiguous()


def read_codes(
    file: OpenBytes, facts: Facts, start: int, stop: int, channels: Sequence[int], flag: StopFlag | None = None
) -> torch.Tensor:
    """Samples `[start, stop)` of G.711 as the codes that they are: uint8 (len(channels), num_samples).

    Shorter, and raising, as `decode` is and does.
    """
    stop = _present(file, facts, stop)
    codes = np.empty((len(channels), max(0, stop - start)), np.uint8)
    position = 0
    for data in _blocks(file, facts, start, stop, flag):
        frames = np.frombuffer(data, np.uint8, len(data) // facts.num_channels * facts.num_channels)
        frames = frames.reshape(-1, facts.num_channels)
        codes[:, position : position + len(frames)] = frames[:, list(channels)].T
        position += len(frames)
    return torch.from_numpy(codes[:, :position])


def _present(file: OpenBytes, facts: Facts, stop: int) -> int:
    """Where samples up to `stop` end in what is there."""
    assert facts.pcm is not None
    stop = min(stop, max(0, file.size - facts.pcm.offset) // (facts.pcm.bytes_per_sample * facts.num_channels))
    return stop if facts.num_samples is None else min(stop, facts.num_samples)


def _blocks(file: OpenBytes, facts: Facts, start: int, stop: int, flag: StopFlag | None) -> Iterator[memoryview]:
    """The bytes of samples `[start, stop)`, some MiB at a time."""
    pcm = facts.pcm
    assert pcm is not None
    frame_bytes = pcm.bytes_per_sample * facts.num_channels
    block = max(1, _BLOCK_SAMPLES // facts.num_channels)
    for at in range(start, stop, block):
        if flag is not None:
            check_stop(flag)
        num_bytes = min(block, stop - at) * frame_bytes
        data = file.read(num_bytes, pcm.offset + at * frame_bytes)
        yield data
        if len(data) < num_bytes:  # the file has become shorter since it was opened
            break


def _means(num_channels: int, matrix: Matrix | None, options: LoadOptions) -> Means | None:
    """The mix as means of channels; None where it is another."""
    if matrix is None:
        return tuple((channel,) for channel in range(num_channels))
    if options.channels is not None:
        return tuple((channel,) for channel in options.channels)
    if num_channels == 1:
        return ((0,),) * len(matrix)
    return ((0, 1),) if matrix == ((0.5, 0.5),) else None


def _write(
    frames: Array, means: Means | None, channel_layout: str | None, options: LoadOptions, sink: Sink, position: int
) -> None:
    """`frames` (num_frames, num_channels) to `sink`: in one step where that equals the general way to the bit."""
    target = sink.array
    if means is not None and target is not None and target.dtype != np.float16:
        is_mix = any(len(channels) > 1 for channels in means)
        gain = None if is_mix and target.dtype.kind == "i" else _gain(frames.dtype, target.dtype)
        if gain is not None:
            _write_means(frames, means, gain, target[:, position : position + len(frames)])
            return
    working = NUMPY_DTYPES[working_dtype(options.dtype)]
    every = tuple((channel,) for channel in range(frames.shape[1]))
    floats = np.empty((len(means or every), len(frames)), working)
    gain = _gain(frames.dtype, working)
    assert gain is not None
    _write_means(frames, means or every, gain, floats)
    if means is None:
        floats = remix(torch.from_numpy(floats), channel_layout, options).numpy()
    sink.write(position, floats)


def _gain(source: np.dtype[Any], target: np.dtype[Any]) -> float | int | None:
    """The power of two between the full scales of two types, None where a conversion would have to round to integers.

    Equal to the bit to the way over floats: multiplying by a power of two is exact.
    """
    if target.kind == "f":
        return 1.0 if source.kind == "f" else 2.0 ** (1 - 8 * source.itemsize)
    if source.kind == "f" or source.itemsize > target.itemsize:
        return None
    return int(2 ** (8 * (target.itemsize - source.itemsize)))


def _write_means(frames: Array, means: Means, gain: float | int, out: Array) -> None:
    for row, channels in zip(out, means, strict=True):
        if len(channels) == 1:
            np.multiply(frames[:, channels[0]], gain, out=row, dtype=row.dtype, casting="unsafe")
        else:
            left, right = channels
            np.multiply(frames[:, left], gain * 0.5, out=row, dtype=row.dtype, casting="unsafe")
            row += np.multiply(frames[:, right], gain * 0.5, dtype=row.dtype, casting="unsafe")
