"""The operations for code without an event loop: the same names, options, results and errors, but they block.

The work runs on the library's own threads, so these are safe beside a running event loop (in Jupyter, say); but they
block the thread that calls them, and with it a loop that runs there. `submit` does not block, and is the very same
function as `aioaudio.submit`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from aioaudio.api import presented_as, submit
from aioaudio.audio import Audio
from aioaudio.batch import BlockingResults, Results
from aioaudio.device import adopt
from aioaudio.session import Session, default_session
from aioaudio.stream import AudioReader, BlockingAudioReader

__all__ = ["batches", "decode", "fetch", "info", "load", "load_many", "open", "submit"]

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @presented_as(method, __name__)
    def function(*args: P.args, **kwargs: P.kwargs) -> T:
        session = default_session()
        io = session.workers.io()
        io.check_not_on_it()
        future = io.run(method(session, *args, **kwargs))
        try:
            result = future.result()
            if isinstance(result, Audio):
                adopt(result.waveform)
            return result
        finally:
            future.cancel()  # an interrupt ends the wait: end the work, too

    return function


def _blocking_results(method: Callable[Concatenate[Session, P], Results[T]]) -> Callable[P, BlockingResults[T]]:
    @presented_as(method, __name__)
    def function(*args: P.args, **kwargs: P.kwargs) -> BlockingResults[T]:
        return method(default_session(), *args, **kwargs).blocking()

    return function


def _blocking_reader(method: Callable[Concatenate[Session, P], AudioReader]) -> Callable[P, BlockingAudioReader]:
    @presented_as(method, __name__)
    def function(*args: P.args, **kwargs: P.kwargs) -> BlockingAudioReader:
        return method(default_session(), *args, **kwargs).blocking()

    return function


load = _blocking(Session.load)
info = _blocking(Session.info)
fetch = _blocking(Session.fetch)
decode = _blocking(Session.decode)
load_many = _blocking_results(Session.load_many)
batches = _blocking_results(Session.batches)
open = _blocking_reader(Session.open)
