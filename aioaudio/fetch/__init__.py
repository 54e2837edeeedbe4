"""Fetching: bytes from anywhere, without decoding them.

`sources` says what a source is, `read` reads each kind into an `Encoded`, `warm` brings local files into the page
cache, where they need no copy.
"""

from aioaudio.fetch.read import ReadWorkers, fetch, warm_up
from aioaudio.fetch.sources import AsyncChunks, AsyncFile, Resolved, Source, resolve
from aioaudio.fetch.warm import StopFlag, is_cached, warm

__all__ = [
    "AsyncChunks",
    "AsyncFile",
    "ReadWorkers",
    "Resolved",
    "Source",
    "StopFlag",
    "fetch",
    "is_cached",
    "resolve",
    "warm",
    "warm_up",
]
