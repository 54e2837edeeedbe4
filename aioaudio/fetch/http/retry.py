"""When to try again. Pure, but for chance."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from aioaudio.fetch.http.options import HTTPOptions

__all__ = ["is_passing", "retry_after", "wait_seconds"]


def is_passing(status: int) -> bool:
    """Whether a status is one that may be another the next time."""
    return status == 429 or 500 <= status <= 599


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """The seconds that a Retry-After header asks for: a number, or a date. None where it says nothing sensible."""
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def wait_seconds(
    options: HTTPOptions, num_failures: int, asked: float | None, chance: Callable[[], float] = random.random
) -> float:
    """Seconds to wait after so many failures in a row, of which the server has perhaps asked for some.

    `chance` gives numbers from 0 to 1, so that clients that failed together do not come again together.
    """
    doubled = options.backoff * 2.0 ** min(num_failures - 1, 30) * (1 - chance() / 2)
    return min(options.max_backoff, max(doubled, asked or 0.0))
