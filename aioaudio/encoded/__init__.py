"""Encoded audio as bytes at hand: in memory, in an anonymous file, or in a local file.

The engines read all three through one small interface, `OpenBytes`: checked reads at a position for our own parsers,
and a path for FFmpeg. FFmpeg takes a read error for the end of the file, so it is only given what has been read here
before, with every read checked.
"""

from aioaudio.encoded.access import OpenBytes, Readable, byte_view
from aioaudio.encoded.descriptor import Descriptor
from aioaudio.encoded.faults import limit_error, reading, source_error
from aioaudio.encoded.held import Encoded
from aioaudio.encoded.local import LocalFile, NotRegularFile, OpenLocalFile
from aioaudio.encoded.pipe import Mark, Pipe, PlacedMark
from aioaudio.encoded.writer import EncodedWriter

__all__ = [
    "Descriptor",
    "Encoded",
    "EncodedWriter",
    "LocalFile",
    "Mark",
    "NotRegularFile",
    "OpenBytes",
    "OpenLocalFile",
    "Pipe",
    "PlacedMark",
    "Readable",
    "byte_view",
    "limit_error",
    "reading",
    "source_error",
]
