"""Loads that nobody waits for until their samples are needed.

`audio` begins them and waits for them, `stand_in` makes what is loaded pass for a tensor.
"""

from aioaudio.lazy.audio import LazyAudio, begin

__all__ = ["LazyAudio", "begin"]
