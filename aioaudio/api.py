"""The operations as functions: the methods of the default session, and what concerns the whole process."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from aioaudio.session import Session, default_session

__all__ = ["aclose", "batches", "decode", "fetch", "info", "load", "load_many", "open", "run", "submit"]

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def without_self(method: Callable[..., Any]) -> inspect.Signature:
    """The signature of a method as its callers see it."""
    signature = inspect.signature(method, eval_str=False)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def presented_as(method: Callable[..., Any], module: str) -> Callable[[F], F]:
    """Make a function that calls `method` look like it, without its `self`, and as if it were written in `module`."""

    def present(function: F) -> F:
        functools.update_wrapper(function, method)
        function.__signature__ = without_self(method)  # type: ignore[attr-defined]
        function.__qualname__ = method.__name__
        function.__module__ = module
        return function

    return present


def _of_default_session(
    method: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    @presented_as(method, __name__)
    async def function(*args: P.args, **kwargs: P.kwargs) -> T:
        return await method(default_session(), *args, **kwargs)

    return function


load = _of_default_session(Session.load)
info = _of_default_session(Session.info)
fetch = _of_default_session(Session.fetch)
decode = _of_default_session(Session.decode)


def _at_once_of_default_session(method: Callable[Concatenate[Session, P], T]) -> Callable[P, T]:
    @presented_as(method, __name__)
    def function(*args: P.args, **kwargs: P.kwargs) -> T:
        return method(default_session(), *args, **kwargs)

    return function


load_many = _at_once_of_default_session(Session.load_many)
batches = _at_once_of_default_session(Session.batches)
open = _at_once_of_default_session(Session.open)
submit = _at_once_of_default_session(Session.submit)


async def aclose() -> None:
    """Release what the default session holds: cancel what is queued, stop what runs, wait for its threads.

    The next operation makes all of it anew.
    """
    await default_session().aclose()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """`asyncio.run`, on uvloop where it is installed: run `main` on a new event loop and return its result."""
    try:
        import uvloop
    except ImportError:
        new_event_loop = None
    else:
        new_event_loop = uvloop.new_event_loop
    with asyncio.Runner(debug=debug, loop_factory=new_event_loop) as runner:
        return runner.run(main)
