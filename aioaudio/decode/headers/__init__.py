"""What the headers in a file say: facts, read without FFmpeg in some tens of microseconds.

Each parser's `parse` gives Facts, or None for a file that is left to FFmpeg's own probe. They raise SourceError where
reading fails, CorruptAudioError for a header that leaves nothing to decode, and UnsupportedAudioError for a codec that
FFmpeg would mistake for another. They read little of a file, whatever
its lengths claim; but in MP3 and Ogg, where nothing else shows that a part is missing, they go from frame to frame and
from page to page, which takes about a hundredth of the time of decoding.
"""

from __future__ import annotations

from aioaudio.decode.facts import Facts
from aioaudio.decode.headers import flac, mp3, mp4_facts, ogg, pcm, wavpack
from aioaudio.decode.headers.extent import missing
from aioaudio.decode.headers.joined import JOINABLE, with_parts
from aioaudio.decode.headers.window import Window, skip_id3v2
from aioaudio.encoded import OpenBytes

__all__ = ["JOINABLE", "missing", "read_facts", "with_parts"]


def read_facts(file: OpenBytes, head: memoryview) -> Facts | None:
    """The facts of a file whose first 4096 bytes (all, where it is shorter) are `head`; None if they are not known."""
    magic = bytes(head[:4])
    if magic == b"OggS":
        return ogg.parse(file, head)
    if magic == b"wvpk":
        return wavpack.parse(head)
    if bytes(head[4:8]) == b"ftyp":
        return mp4_facts.parse(file, head)
    if magic[:3] != b"ID3" and magic != b"fLaC" and not _may_be_mpeg(magic):
        return pcm.parse(file, head)
    start = skip_id3v2(Window(file, head), 0)
    if start:
        head = file.read(len(head), start)
    if bytes(head[:4]) == b"fLaC":
        return flac.parse(file, head, start)
    return mp3.parse(file, head, start)


def _may_be_mpeg(magic: bytes) -> bool:
    """Whether a file may begin so with a frame of MPEG audio, or with zeros before it."""
    return magic == bytes(4) or (len(magic) == 4 and magic[0] == 0xFF and magic[1] & 0xE0 == 0xE0)
