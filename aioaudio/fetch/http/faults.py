"""What a server or the network says, as errors that name their source and show no secrets."""

from __future__ import annotations

import socket
from http import HTTPStatus

import aiohttp

from aioaudio.errors import FetchError, SourceDenied, SourceError, SourceNotFound
from aioaudio.fetch.http.guard import NotPublicError

__all__ = ["client_error", "is_passing_error", "status_error"]


def status_error(status: int, name: str, at: str) -> SourceError:
    """The error for a status that is no success; `at` is what the address is called that has answered with it."""
    try:
        phrase = f" ({HTTPStatus(status).phrase})"
    except ValueError:
        phrase = ""
    message = f"HTTP status {status}{phrase}" + ("" if at == name else f" at {at}, where it was redirected to")
    error: SourceError
    match status:
        case 404 | 410:
            error = SourceNotFound(message, source=name)
        case 401 | 403:
            error = SourceDenied(message, source=name)
        case _:
            error = FetchError(message, source=name)
    error.status = status
    return error


def is_passing_error(error: Exception) -> bool:
    """Whether what the HTTP client raised may be otherwise the next time."""
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.ServerFingerprintMismatch) or _is_refusal(error):
        return False
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return error.os_error.errno != socket.EAI_NONAME
    return isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | ConnectionError)


def client_error(error: Exception, name: str) -> SourceError:
    """The error for what the HTTP client raised. Its own text may hold the whole address, so none of it is taken."""
    if _is_refusal(error):
        return SourceDenied("leads to an address that is not public, which allow_private=False refuses", source=name)
    fetch_error = FetchError(_message(error), source=name)
    if isinstance(error, OSError):
        fetch_error.errno = error.errno
    return fetch_error


def _message(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {error.host} is not trusted: {error.certificate_error}"
        case aiohttp.ClientConnectorDNSError():
            return f"no address is known for {error.host}: {_reason(error.os_error)}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy cannot be reached: {_reason(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {error.host}: {_reason(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered with status {error.status}"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return "the body ends early"
        case aiohttp.InvalidURL():
            return "the address cannot be used"
        case aiohttp.ClientResponseError():
            return "the answer is no valid HTTP"
        case OSError():
            return f"reading failed: {_reason(error)}"
        case _:
            return f"reading failed: {type(error).__name__}"


def _is_refusal(error: Exception) -> bool:
    # Some versions of aiohttp have errors that lack it.
    return isinstance(getattr(error, "os_error", None), NotPublicError)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
