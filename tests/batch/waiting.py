"""Waiting for what another thread does, however long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
