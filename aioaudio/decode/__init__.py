"""Samples from bytes. Synchronous: the workers call the kernels here with groups of jobs."""

from aioaudio.decode.group import decode_group
from aioaudio.decode.headers.arrival import LIVE, Kind, kind_of
from aioaudio.decode.headers.cutters import cutter_of
from aioaudio.decode.info import InfoJob, read_infos
from aioaudio.decode.job import DecodeJob, Narrow, StopFlag, Stopped
from aioaudio.decode.live import LiveDecoder
from aioaudio.decode.result import Parts
from aioaudio.decode.samples import as_words, empty
from aioaudio.decode.stream import Order, StreamDecoder, work_on_streams

__all__ = [
    "LIVE",
    "DecodeJob",
    "InfoJob",
    "Kind",
    "LiveDecoder",
    "Narrow",
    "Order",
    "Parts",
    "StopFlag",
    "Stopped",
    "StreamDecoder",
    "as_words",
    "cutter_of",
    "decode_group",
    "empty",
    "kind_of",
    "read_infos",
    "work_on_streams",
]
