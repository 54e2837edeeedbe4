"""Resampling of samples at hand, by swresample: the frame engine's counterpart of what the graph does as it decodes."""

from __future__ import annotations

from fractions import Fraction

import av
import av.error
import av.filter
import torch

from aioaudio.decode.plan import Resampling
from aioaudio.errors import UnsupportedAudioError
from aioaudio.ffmpeg import one_cpu

__all__ = ["Resampler", "resample"]


def resample(samples: torch.Tensor, resampling: Resampling) -> torch.Tensor:
    """`samples` (num_channels, num_samples), float32 or float64, at the target rate; equal to the graph engine's.

    Clips shorter than the filter keep their length: they are padded with zeros, and the result is cut. Raises
    UnsupportedAudioError for what swresample does not take, such as more than 64 channels.
    """
    if samples.shape[1] == 0 or resampling.source == resampling.target:
        return samples
    resampler = Resampler(resampling)
    blocks = resampler.push(samples) + resampler.finish()
    return torch.cat(blocks, dim=1) if blocks else samples[:, :0]


class Resampler:
    """`resample` for samples that come piece by piece: its blocks together are the result for the whole.

    All samples are of one dtype and number of channels, and the two rates differ.
    """

    def __init__(self, resampling: Resampling) -> None:
        self._resampling = resampling
        self._waiting: list[torch.Tensor] = []  # until there are enough of them for the filter
        self._filter: _Filter | None = None

    def push(self, samples: torch.Tensor) -> list[torch.Tensor]:
        """The blocks (num_channels, n) of the result that `samples` complete."""
        if self._filter is None:
            self._waiting.append(samples)
            if sum(block.shape[1] for block in self._waiting) < self._resampling.shortest:
                return []
            samples = self._joined()
            self._filter = _Filter(self._resampling, samples)
        return self._filter.push(samples)

    def finish(self) -> list[torch.Tensor]:
        """The rest."""
        if self._filter is not None:
            return self._filter.finish()
        samples = self._joined() if self._waiting else None
        if samples is None or samples.shape[1] == 0:
            return []
        padded = torch.nn.functional.pad(samples, (0, 2 * self._resampling.shortest))
        filter = _Filter(self._resampling, padded)
        converted = torch.cat(filter.push(padded) + filter.finish(), dim=1)
        return [converted[:, : self._resampling.whole_length(samples.shape[1])]]

    def _joined(self) -> torch.Tensor:
        waiting, self._waiting = self._waiting, []
        return waiting[0] if len(waiting) == 1 else torch.cat(waiting, dim=1)


class _Filter:
    """FFmpeg's filter for samples of the dtype and the number of channels of `like`."""

    def __init__(self, resampling: Resampling, like: torch.Tensor) -> None:
        self._resampling = resampling
        self._num_channels = like.shape[0]
        self._format = "dbl" if like.dtype == torch.float64 else "flt"
        self._layout = f"{self._num_channels}C"  # so many channels, no positions: nothing is mixed
        try:
            with one_cpu:
                self._graph = self._opened()
        except av.error.FFmpegError as error:
            raise self._refusal(error) from error

    def _opened(self) -> av.filter.Graph:
        rate, target = self._resampling.source, self._resampling.target
        graph = av.filter.Graph()
        source = graph.add_abuffer(
            sample_rate=rate, format=self._format, layout=self._layout, time_base=Fraction(1, rate)
        )
        converter = graph.add("aresample", f"{target}:osf={self._format}:tsf={self._format}p")
        sink = graph.add("abuffersink")
        source.link_to(converter)
        converter.link_to(sink)
        graph.configure()
        return graph

    def push(self, samples: torch.Tensor) -> list[torch.Tensor]:
        blocks: list[torch.Tensor] = []
        for block in torch.split(samples, self._resampling.source, dim=1):  # a second at a time
            if block.shape[1] == 0:
                continue
            interleaved = block.T.contiguous().numpy().reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(interleaved, format=self._format, layout=self._layout)
            frame.sample_rate = self._resampling.source
            blocks += self._converted(frame)
        return blocks

    def finish(self) -> list[torch.Tensor]:
        return self._converted(None)

    def _converted(self, frame: av.AudioFrame | None) -> list[torch.Tensor]:
        try:
            self._graph.push(frame)
            return [block.view(-1, self._num_channels).T for block in _pull_all(self._graph)]
        except av.error.FFmpegError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: av.error.FFmpegError) -> UnsupportedAudioError:
        what = f"{self._num_channels} channels from {self._resampling.source} to {self._resampling.target} Hz"
        return UnsupportedAudioError(f"FFmpeg cannot resample {what} ({error.strerror})")


def _pull_all(graph: av.filter.Graph) -> list[torch.Tensor]:
    blocks: list[torch.Tensor] = []
    while True:
        try:
            frame = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return blocks
        assert isinstance(frame, av.AudioFrame)
        blocks.append(torch.from_numpy(frame.to_ndarray().reshape(-1)))
