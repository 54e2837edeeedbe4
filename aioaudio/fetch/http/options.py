"""How URLs are fetched: frozen, checked once."""

from __future__ import annotations

import contextlib
import math
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from aioaudio.audio import as_int, check_number
from aioaudio.fetch.http.url import as_address, check_headers

__all__ = ["HTTPOptions"]


_USER_AGENT = "aioaudio"
with contextlib.suppress(PackageNotFoundError):  # run from a folder that is not installed
    _USER_AGENT = f"aioaudio/{version('aioaudio')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPOptions:
    """How a `Session` fetches URLs.

    Args:
        headers: Request headers for every URL. Where a redirect leads to another host, they are not sent, since any
            of them may be secret. A `URL` may bring headers of its own. Range, If-Range, Accept-Encoding, Host and
            Content-Length are not the caller's to set.
        auth: User and password (HTTP Basic) for every URL that has none in it; treated as a header is.
        user_agent: The User-Agent header, which is sent to every host.
        proxy: URL of an HTTP proxy for every request; it may hold a user and a password.
        trust_env: Take proxies from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, and passwords from `~/.netrc`.
        ssl_context: What certificates are checked by; None is the system's trust.
        connect_timeout: Seconds until a connection stands: name, TCP, TLS, proxy. None is without end, here and below.
        read_timeout: Seconds of silence, before the answer and within it.
        total_timeout: Seconds for the whole of a body, retries included. None of the three counts while nobody waits
            for bytes.
        retries: How often in a row a fetch is tried again, or continued, without a byte of progress: after errors of
            the connection, a body that ends early, and the statuses 429 and 5xx. Timeouts are final.
        backoff: Seconds before the first retry; doubled for each further one, less up to a half at random.
        max_backoff: Seconds before a retry, at most, also where Retry-After asks for more.
        max_connections_per_host: Connections to one host and port at once; other requests wait, for which no timeout
            counts. Streams that are open do not count: each may last for ever.
        max_redirects: Redirects that are followed; 0 makes the first one an error.
        allow_private: Whether addresses may be used that are not public: private networks, this machine, link-local
            ones. False checks the address of every connection as it is made. A proxy would make it for us, so that
            goes with none.
        allow_host: Called with the name of the host of each URL, also behind redirects, before it is looked up; False
            refuses it. Runs on the I/O thread, so it must not block.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: tuple[str, str] | None = field(default=None, repr=False)
    user_agent: str = _USER_AGENT
    proxy: str | None = field(default=None, repr=False)
    trust_env: bool = False
    ssl_context: ssl.SSLContext | None = None
    connect_timeout: float | None = 10
    read_timeout: float | None = 30
    total_timeout: float | None = None
    retries: int = 3
    backoff: float = 0.5
    max_backoff: float = 60
    max_connections_per_host: int = 16
    max_redirects: int = 10
    allow_private: bool = True
    allow_host: Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "headers", check_headers(self.headers))
        check_headers({"User-Agent": self.user_agent})
        if self.auth is not None and not (
            isinstance(self.auth, tuple) and len(self.auth) == 2 and all(isinstance(part, str) for part in self.auth)
        ):
            raise TypeError("auth must be a tuple of a user and a password")
        if self.proxy is not None:
            as_address(self.proxy)
        if not self.allow_private and (self.proxy is not None or self.trust_env):
            raise ValueError("allow_private=False goes with no proxy: it makes the connections, so it must refuse them")
        for name in ("connect_timeout", "read_timeout", "total_timeout"):
            if getattr(self, name) is not None:
                self._check_seconds(name, positive=True)
        for name in ("backoff", "max_backoff"):
            self._check_seconds(name, positive=False)
        for name, least in (("retries", 0), ("max_redirects", 0), ("max_connections_per_host", 1)):
            value = as_int(name, getattr(self, name))
            object.__setattr__(self, name, value)
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if self.allow_host is not None and not callable(self.allow_host):
            raise TypeError(f"allow_host must be a function, not {self.allow_host!r}")

    def _check_seconds(self, name: str, *, positive: bool) -> None:
        value = getattr(self, name)
        check_number(name, value)
        if not (math.isfinite(value) and value >= 0) or (positive and value == 0):
            raise ValueError(f"{name} must be a {'positive ' if positive else ''}number of seconds, not {value!r}")
