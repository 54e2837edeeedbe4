from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest
from servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on loopback."""
    with Server() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Server]:
    """Another one, at another port."""
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def trust() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server of HTTPS on loopback shows, and what trusts it."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(theirs)
    authority.configure_trust(ours)
    return theirs, ours


@pytest.fixture
def secure(trust: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Server]:
    """A server of HTTPS."""
    with Server(trust[0]) as server:
        yield server
