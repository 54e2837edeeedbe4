"""Samples from bytes. Synchronous: the workers call the two kernels here with groups of jobs."""

from aioaudio.decode.group import decode_group
from aioaudio.decode.info import InfoJob, read_infos
from aioaudio.decode.job import DecodeJob, Narrow, StopFlag, Stopped
from aioaudio.decode.result import Parts
from aioaudio.decode.samples import as_words, empty

__all__ = [
    "DecodeJob",
    "InfoJob",
    "Narrow",
    "Parts",
    "StopFlag",
    "Stopped",
    "as_words",
    "decode_group",
    "empty",
    "read_infos",
]
