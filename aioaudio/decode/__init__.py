"""Samples from bytes. Synchronous: the workers call the two kernels here with groups of jobs."""

from aioaudio.decode.group import decode_group
from aioaudio.decode.info import InfoJob, read_infos
from aioaudio.decode.job import DecodeJob, Narrow, StopFlag, Stopped
from aioaudio.decode.result import Parts

__all__ = ["DecodeJob", "InfoJob", "Narrow", "Parts", "StopFlag", "Stopped", "decode_group", "read_infos"]
