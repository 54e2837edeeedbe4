"""Samples from bytes. Synchronous: the workers call the two kernels here with groups of jobs."""

from aioaudio.decode.group import decode_group
from aioaudio.decode.info import InfoJob, read_infos
from aioaudio.decode.job import DecodeJob, StopFlag, Stopped

__all__ = ["DecodeJob", "InfoJob", "StopFlag", "Stopped", "decode_group", "read_infos"]
