"""Functions of FFmpeg's libraries that PyAV does not wrap, out of the very libraries that PyAV is linked with."""

from __future__ import annotations

import ctypes
from typing import Any

import av._core

__all__ = ["library_function"]


def library_function(name: str, *argument_types: Any) -> Any:
    """A function of FFmpeg's that returns nothing and never waits; None where it cannot be reached.

    It is called with the GIL, since to let go of it would take longer than the call.
    """
    try:
        # A name is also looked up in the libraries that an extension is linked with.
        function = getattr(ctypes.PyDLL(av._core.__file__), name)
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = argument_types, None
    return function
