"""Fetching: bytes from anywhere, without decoding them.

`sources` says what a source is, `read` reads each kind into an `Encoded`, `live` gives the bytes as they come, `http`
is the network, `warm` brings local files into the page cache, where they need no copy.
"""

from aioaudio.fetch.http import URL, HTTPOptions, is_url
from aioaudio.fetch.live import ArrivingBlocks, arriving_blocks, is_at_home
from aioaudio.fetch.read import ReadWorkers, at_hand, checked_block, closing_blocks, collect, fetch, warm_up
from aioaudio.fetch.sources import AsyncChunks, AsyncFile, BlockingFile, Memory, Resolved, Source, resolve, short_name
from aioaudio.fetch.warm import StopFlag, is_cached, warm

__all__ = [
    "URL",
    "ArrivingBlocks",
    "AsyncChunks",
    "AsyncFile",
    "BlockingFile",
    "HTTPOptions",
    "Memory",
    "ReadWorkers",
    "Resolved",
    "Source",
    "StopFlag",
    "arriving_blocks",
    "at_hand",
    "checked_block",
    "closing_blocks",
    "collect",
    "fetch",
    "is_at_home",
    "is_cached",
    "is_url",
    "resolve",
    "short_name",
    "warm",
    "warm_up",
]
