"""Resampling of samples at hand, by swresample: the frame engine's counterpart of what the graph does as it decodes."""

from __future__ import annotations

from fractions import Fraction

import av
import av.error
import av.filter
import torch

from aioaudio.decode.plan import Resampling
from aioaudio.errors import UnsupportedAudioError

__all__ = ["resample"]


def resample(samples: torch.Tensor, resampling: Resampling) -> torch.Tensor:
    """`samples` (num_channels, num_samples), float32 or float64, at the target rate; equal to the graph engine's.

    Clips shorter than the filter keep their length: they are padded with zeros, and the result is cut. Raises
    UnsupportedAudioError for what swresample does not take, such as more than 64 channels.
    """
    num_samples = samples.shape[1]
    if num_samples == 0 or resampling.source == resampling.target:
        return samples
    short = num_samples < resampling.shortest
    if short:
        samples = torch.nn.functional.pad(samples, (0, 2 * resampling.shortest))
    try:
        converted = _convert(samples, resampling)
    except av.error.FFmpegError as error:
        what = f"{samples.shape[0]} channels from {resampling.source} to {resampling.target} Hz"
        raise UnsupportedAudioError(f"FFmpeg cannot resample {what} ({error.strerror})") from error
    return converted[:, : resampling.whole_length(num_samples)] if short else converted


def _convert(samples: torch.Tensor, resampling: Resampling) -> torch.Tensor:
    sample_format = "dbl" if samples.dtype == torch.float64 else "flt"
    layout = f"{samples.shape[0]}C"  # so many channels, no positions: nothing is mixed
    graph = av.filter.Graph()
    source = graph.add_abuffer(
        sample_rate=resampling.source, format=sample_format, layout=layout, time_base=Fraction(1, resampling.source)
    )
    converter = graph.add("aresample", f"{resampling.target}:osf={sample_format}:tsf={sample_format}p")
    sink = graph.add("abuffersink")
    source.link_to(converter)
    converter.link_to(sink)
    graph.configure()
    blocks: list[torch.Tensor] = []
    for block in torch.split(samples, resampling.source, dim=1):  # a second at a time
        frame = av.AudioFrame.from_ndarray(
            block.T.contiguous().numpy().reshape(1, -1), format=sample_format, layout=layout
        )
        frame.sample_rate = resampling.source
        graph.push(frame)
        blocks += _pull_all(graph)
    graph.push(None)
    blocks += _pull_all(graph)
    interleaved = torch.cat(blocks) if blocks else samples.new_empty(0)
    return interleaved.view(-1, samples.shape[0]).T


def _pull_all(graph: av.filter.Graph) -> list[torch.Tensor]:
    blocks: list[torch.Tensor] = []
    while True:
        try:
            frame = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return blocks
        assert isinstance(frame, av.AudioFrame)
        blocks.append(torch.from_numpy(frame.to_ndarray().reshape(-1)))
