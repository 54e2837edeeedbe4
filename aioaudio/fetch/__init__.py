"""Fetching: bytes from anywhere, without decoding them.

`sources` says what a source is, `read` reads each kind into an `Encoded`, `http` is the network, `warm` brings local
files into the page cache, where they need no copy.
"""

from aioaudio.fetch.http import URL, HTTPOptions, is_url
from aioaudio.fetch.read import ReadWorkers, fetch, warm_up
from aioaudio.fetch.sources import AsyncChunks, AsyncFile, Resolved, Source, resolve, short_name
from aioaudio.fetch.warm import StopFlag, is_cached, warm

__all__ = [
    "URL",
    "AsyncChunks",
    "AsyncFile",
    "HTTPOptions",
    "ReadWorkers",
    "Resolved",
    "Source",
    "StopFlag",
    "fetch",
    "is_cached",
    "is_url",
    "resolve",
    "short_name",
    "warm",
    "warm_up",
]
