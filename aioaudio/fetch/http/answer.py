"""What an answer says of the body that it begins, and whether a later answer continues that one. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from aioaudio.fetch.http.icy import header_text, interval_of

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the first answer says: the length in bytes, how it is compressed, and what tells it from a later version.

    `station` is what a radio station says of itself, None where there is none: one has a name, and no end. `interval`
    is how many bytes of audio lie between two blocks of metadata, None where there are no blocks.
    """

    length: int | None
    encoding: str | None
    etag: str | None
    last_modified: str | None
    station: Mapping[str, str] | None
    interval: int | None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self:
        """From the headers of an answer that gives the whole."""
        length = headers.get("Content-Length")
        etag = headers.get("ETag")
        # Where a body comes in chunks, another length is none.
        num_bytes = int(length) if length is not None and "Transfer-Encoding" not in headers else None
        return cls(
            num_bytes,
            headers.get("Content-Encoding"),
            # A weak one says that two versions mean the same, not that they have the same bytes.
            etag if etag is not None and etag.startswith('"') else None,
            headers.get("Last-Modified"),
            _station_of(headers) if num_bytes is None else None,
            interval_of(headers),
        )

    @property
    def validator(self) -> str | None:
        """What a request to continue is made conditional on; None where there is nothing to do it by."""
        return self.etag or self.last_modified

    def request_from(self, offset: int) -> dict[str, str]:
        """The headers that ask for the rest from a byte on, if nothing has changed."""
        return {"Range": f"bytes={offset}-", "If-Range": self.validator or ""}

    def misfit(self, status: int, headers: Mapping[str, str], offset: int) -> str | None:
        """Why an answer to that does not continue this one at `offset`; None if it does."""
        if status == 200:
            return "and the server gives no part of it, or has changed it"
        if status != 206:
            return f"and continuing it gives status {status}"
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", "").strip())
        if found is None or int(found[1]) != offset:
            return "and the server continues it at another place"
        other = self.of(headers)
        if (
            (self.etag is not None and other.etag != self.etag)
            or (other.last_modified is not None and other.last_modified != self.last_modified)
            or (self.length is not None and found[2] not in ("*", str(self.length)))
            or other.encoding != self.encoding
        ):
            return "and it has changed meanwhile"
        return None


def _station_of(headers: Mapping[str, str]) -> dict[str, str] | None:
    told = {name.lower(): header_text(value) for name, value in headers.items()}
    station = {name: value for name, value in told.items() if name.startswith("icy-")}
    return {**station, "content-type": told.get("content-type", "")} if station else None
