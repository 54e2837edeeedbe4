"""Decoded frames as tensors, joined into stretches of one format."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import numpy.typing as npt
import torch

from aioaudio.decode.facts import Facts
from aioaudio.decode.mix import Matrix, mix_matrix, weighted_sums
from aioaudio.decode.plan import Resampling
from aioaudio.decode.resample import Resampler

__all__ = ["Adapter", "Form", "Segment", "encoded_samples", "frame_samples"]

#: Sample rate, number of channels, and the name of their layout where it has one.
Form = tuple[int, int, str | None]

# A frame has room for eight planes. Where it is full, PyAV (18.1) looks for the next one beyond it, and crashes.
_MAX_PLANES = 7


class Segment:
    """Consecutive frames of one format: `num_samples`, of which the first `dropped` are not in `blocks`."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.sample_rate, self.num_channels, _ = form
        self.num_samples = 0
        self.dropped = 0
        self.blocks: list[torch.Tensor] = []

    def samples(self, dtype: torch.dtype) -> torch.Tensor:
        """What is in the blocks, joined (num_channels, n)."""
        return torch.cat([torch.zeros((self.num_channels, 0), dtype=dtype), *self.blocks], dim=1)

    def adapted(self, facts: Facts, dtype: torch.dtype) -> torch.Tensor:
        """The samples of a later segment with the rate and the number of channels of `facts`, the first one's."""
        adapter = Adapter(self.form, facts)
        empty = torch.zeros((facts.num_channels, 0), dtype=dtype)
        return torch.cat([empty, *adapter.push(self.samples(dtype)), *adapter.finish()], dim=1)


class Adapter:
    """Gives the samples of a later segment of this `form` the rate and the number of channels of `facts`."""

    def __init__(self, form: Form, facts: Facts) -> None:
        sample_rate, num_channels, layout = form
        self._matrix = None if num_channels == facts.num_channels else _matrix(num_channels, layout, facts.num_channels)
        self._resampler = None
        if sample_rate != facts.sample_rate:
            self._resampler = Resampler(Resampling(sample_rate, facts.sample_rate))

    def push(self, samples: torch.Tensor) -> list[torch.Tensor]:
        """The blocks that `samples` complete."""
        if self._matrix is not None:
            samples = weighted_sums(samples, self._matrix)
        return [samples] if self._resampler is None else self._resampler.push(samples)

    def finish(self) -> list[torch.Tensor]:
        """The rest."""
        return [] if self._resampler is None else self._resampler.finish()


def _matrix(num_channels: int, layout: str | None, to_channels: int) -> Matrix:
    try:
        return mix_matrix(num_channels, layout, to_channels)
    except ValueError:  # no standard mix: the mean, everywhere
        return ((1.0 / num_channels,) * num_channels,) * to_channels


def frame_samples(frame: av.AudioFrame, dtype: torch.dtype) -> torch.Tensor:
    """The samples of a frame as floats (num_channels, num_samples)."""
    if frame.format.is_planar and frame.layout.nb_channels > _MAX_PLANES:
        (frame,) = av.AudioResampler(frame.format.packed, frame.layout, frame.sample_rate).resample(frame)
    array = frame.to_ndarray()
    if not frame.format.is_planar:
        array = array.reshape(-1, frame.layout.nb_channels).T
    samples = torch.from_numpy(np.ascontiguousarray(array))
    if samples.dtype.is_floating_point:
        return samples.to(dtype)
    if samples.dtype == torch.uint8:
        return (samples.to(dtype) - 128.0) / 128.0
    return samples.to(dtype) / -float(torch.iinfo(samples.dtype).min)


def encoded_samples(frame: av.AudioFrame, num_bits: int) -> bytes:
    """The samples as FLAC's MD5 counts them: interleaved, little-endian, in as few whole bytes as `num_bits` needs."""
    array: npt.NDArray[Any] = frame.to_ndarray()
    if frame.format.is_planar:
        array = array.T
    array = np.right_shift(array.reshape(-1), array.dtype.itemsize * 8 - num_bits)
    num_bytes = -(-num_bits // 8)
    if num_bytes == array.dtype.itemsize:
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    return np.ascontiguousarray(array.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :num_bytes]).tobytes()
