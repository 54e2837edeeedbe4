"""Fetching: bytes from anywhere, without decoding them.

`sources` says what a source is, `read` reads each kind into an `Encoded`, `live` gives the bytes as they come, `warm`
brings local files into the page cache, where they need no copy.
"""

from aioaudio.fetch.live import ArrivingBlocks, NextBlock, arriving_blocks, is_at_home
from aioaudio.fetch.read import ReadWorkers, at_hand, checked_block, closing_blocks, collect, fetch, warm_up
from aioaudio.fetch.sources import BlockingFile, Memory, Resolved, Source, resolve
from aioaudio.fetch.warm import StopFlag, is_cached, warm

__all__ = [
    "ArrivingBlocks",
    "BlockingFile",
    "Memory",
    "NextBlock",
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
    "resolve",
    "warm",
    "warm_up",
]
