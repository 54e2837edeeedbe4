"""Settings of FFmpeg's that are the whole process's, and ours for a while."""

from __future__ import annotations

import os
import threading

__all__ = ["Setting"]


class Setting:
    """A context manager for any number of threads at once: `_set` for each that comes, `_put_back` after the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_users = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_users)

    def __enter__(self) -> None:
        with self._lock:
            self._num_users += 1
            self._set()

    def __exit__(self, *exc_info: object) -> None:
        with self._lock:
            self._num_users -= 1
            if self._num_users == 0:
                self._put_back()

    def _forget_users(self) -> None:
        """In the child of a fork, none of the parent's threads is there to leave, or to let go of the lock."""
        self._lock = threading.Lock()
        self._num_users = 0
        self._put_back()

    def _set(self) -> None:
        raise NotImplementedError

    def _put_back(self) -> None:
        """Also called when it is not set."""
        raise NotImplementedError
