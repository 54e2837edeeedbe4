"""Looking up the names of hosts."""

from __future__ import annotations

import asyncio
import socket

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["Resolver"]


class Resolver(AbstractResolver):
    """Asks the system, in the executor of the event loop: threads that end with it.

    A loop's own `getaddrinfo` may use others, as uvloop's does.
    """

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`. Raises OSError."""
        loop = asyncio.get_running_loop()
        flags = socket.AI_ADDRCONFIG
        found = await loop.run_in_executor(
            None, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=flags)
        )
        return [
            ResolveResult(
                hostname=host,
                host=_with_scope(address),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _with_scope(address: tuple[object, ...]) -> str:
    """An IP address, a link-local one of IPv6 with the interface that it is for."""
    scope = address[3] if len(address) > 3 else 0
    return f"{address[0]}%{scope}" if scope else str(address[0])
