"""Samples from bytes. Synchronous: the workers call the kernels here with groups of jobs."""

from aioaudio.decode.group import decode_group
from aioaudio.decode.info import InfoJob, read_infos
from aioaudio.decode.job import DecodeJob, Narrow, StopFlag, Stopped
from aioaudio.decode.result import Parts
from aioaudio.decode.samples import as_words, empty
from aioaudio.decode.stream import Order, StreamDecoder, work_on_streams

__all__ = [
    "DecodeJob",
    "InfoJob",
    "Narrow",
    "Order",
    "Parts",
    "StopFlag",
    "Stopped",
    "StreamDecoder",
    "as_words",
    "decode_group",
    "empty",
    "read_infos",
    "work_on_streams",
]
