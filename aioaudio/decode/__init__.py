"""Samples from bytes. Synchronous: the workers call the kernels here with groups of jobs."""

from aioaudio.decode.group import decode_group
from aioaudio.decode.headers.arrival import LIVE, Kind, kind_of
from aioaudio.decode.headers.cutters import cutter_of
from aioaudio.decode.info import InfoJob, read_infos
from aioaudio.decode.job import DecodeJob, Leave, Narrow, StopFlag, Stopped
from aioaudio.decode.live import LiveDecoder
from aioaudio.decode.result import Parts, Pending
from aioaudio.decode.samples import as_words, empty, working_dtype
from aioaudio.decode.sinc import convolve, make_kernel, margins
from aioaudio.decode.stored import Stored, expanded, table_of
from aioaudio.decode.stream import Order, StreamDecoder, work_on_streams

__all__ = [
    "LIVE",
    "DecodeJob",
    "InfoJob",
    "Kind",
    "Leave",
    "LiveDecoder",
    "Narrow",
    "Order",
    "Parts",
    "Pending",
    "StopFlag",
    "Stopped",
    "Stored",
    "StreamDecoder",
    "as_words",
    "convolve",
    "cutter_of",
    "decode_group",
    "empty",
    "expanded",
    "kind_of",
    "make_kernel",
    "margins",
    "read_infos",
    "table_of",
    "work_on_streams",
    "working_dtype",
]
