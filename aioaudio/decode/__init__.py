"""Samples from bytes. Synchronous: the workers call the two kernels here with groups of jobs."""

from aioaudio.decode.group import decode_group
from aioaudio.decode.info import InfoJob, read_infos
from aioaudio.decode.job import DecodeJob, Leave, Narrow, StopFlag, Stopped
from aioaudio.decode.result import Parts, Pending
from aioaudio.decode.samples import as_words, empty, working_dtype
from aioaudio.decode.sinc import convolve, make_kernel, margins
from aioaudio.decode.stored import Stored, expanded, table_of

__all__ = [
    "DecodeJob",
    "InfoJob",
    "Leave",
    "Narrow",
    "Parts",
    "Pending",
    "StopFlag",
    "Stopped",
    "Stored",
    "as_words",
    "convolve",
    "decode_group",
    "empty",
    "expanded",
    "make_kernel",
    "margins",
    "read_infos",
    "table_of",
    "working_dtype",
]
