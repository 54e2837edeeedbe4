"""Addresses: what is one, what it is called, where a redirect leads. Pure, without I/O."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import yarl

__all__ = [
    "URL",
    "Address",
    "as_address",
    "basic_auth",
    "check_headers",
    "host_of",
    "is_same_site",
    "is_url",
    "joined",
    "name_of",
]

#: A parsed URL.
Address: TypeAlias = yarl.URL

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# What is spelt right already is sent as it stands: the signature in a query is one of its very characters.
_SPELT_RIGHT = re.compile(r"(?:[!#$&-;=?-\[\]_a-z~]|%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True, repr=False)
class URL:
    """An address of HTTP or HTTPS as a source, with request headers of its own.

    A `str` that begins with `http://` or `https://` is the same without headers. `headers` are sent to the host of
    `url` only, with those of `HTTPOptions`, whose place they take where both have one. `name` is what errors call it:
    the address without user, password, query and fragment, which may be secret. Raises ValueError for what is no such
    address.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.url, str):
            raise TypeError(f"url must be a str, not {type(self.url).__name__}")
        as_address(self.url)
        object.__setattr__(self, "headers", check_headers(self.headers))

    @property
    def name(self) -> str:
        """The address without what may be secret."""
        return name_of(as_address(self.url))

    def __repr__(self) -> str:
        headers = f", headers of {', '.join(self.headers)}" if self.headers else ""
        return f"URL({self.name!r}{headers})"

    def __hash__(self) -> int:
        return hash(self.url)


def is_url(source: str) -> bool:
    """Whether a `str` is taken for an address."""
    return source[:8].lower().startswith(("http://", "https://"))


def as_address(url: str) -> Address:
    """Parse an address. Raises ValueError, which shows nothing that may be secret."""
    problem = None
    address = yarl.URL()
    if not is_url(url):
        problem = "must begin with http:// or https://"
    elif _CONTROL.search(url):
        problem = "has control characters"
    else:
        try:
            address = _parsed(url)
            problem = None if host_of(address) and address.port else "has no host or port"
        except ValueError:
            problem = "cannot be parsed"
    if problem is not None:
        raise ValueError(f"a URL {problem}: {_shown(url)!r}")
    return address


def joined(address: Address, location: str) -> Address:
    """Where a Location header leads from an address. Raises ValueError as `as_address` does."""
    if _CONTROL.search(location):
        raise ValueError("the location has control characters")
    return as_address(str(address.join(_parsed(location))))


def name_of(address: Address) -> str:
    """What errors call an address; `?...` stands for a query."""
    host = host_of(address)
    host = f"[{host}]" if ":" in host else host
    port = "" if address.is_default_port() or address.port is None else f":{address.port}"
    query = "?..." if address.raw_query_string else ""
    return f"{address.scheme}://{host}{port}{address.raw_path}{query}"


def is_same_site(one: Address, other: Address) -> bool:
    """Whether what is secret to one may be told to the other: the same host, or the same behind TLS."""
    upgraded = (one.scheme, one.port, other.scheme, other.port) == ("http", 80, "https", 443)
    return host_of(one) == host_of(other) and (upgraded or (one.scheme, one.port) == (other.scheme, other.port))


def basic_auth(user: str, password: str) -> str:
    """The value of an Authorization header for HTTP Basic."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """A copy of request headers. Raises TypeError and ValueError for what cannot be sent, without showing values."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers must map str to str; {name!r} does not")
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or _CONTROL.search(value.replace("\t", " ")):
            raise ValueError(f"the header {name!r} has characters that HTTP does not allow")
        if name.lower() in ("range", "if-range", "accept-encoding", "host", "content-length"):
            raise ValueError(f"the header {name!r} is not the caller's to set")
    return dict(headers)


def host_of(address: Address) -> str:
    """The name of the host, in lower case."""
    return (address.raw_host or "").lower().rstrip(".")


def _parsed(url: str) -> Address:
    return yarl.URL(url, encoded=_SPELT_RIGHT.fullmatch(url) is not None)


def _shown(url: str) -> str:
    """The beginning of a malformed address, up to where a secret could stand."""
    return re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url)[0])[:100]
