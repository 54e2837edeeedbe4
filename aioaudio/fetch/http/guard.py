"""Which network addresses are public, and sockets that connect to no others."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

__all__ = ["NotPublicError", "is_public", "public_socket"]

_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class NotPublicError(PermissionError):
    """An address that is not public was to be connected to."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet.

    An IPv4 address within an IPv6 one (mapped, NAT64, 6to4) is judged by itself. What is neither, such as addresses
    that are private, reserved, link-local, multicast, or of this machine, is not public; nor is what is no address.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # another way to write one, which the system would understand
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not ip.is_multicast
    if ip.ipv4_mapped is not None:
        return is_public(str(ip.ipv4_mapped))
    if ip in _NAT64:
        return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
    if ip.sixtofour is not None:
        return is_public(str(ip.sixtofour))
    return ip in _GLOBAL_UNICAST and ip.is_global


def public_socket(address: Any) -> socket.socket:
    """A socket that is about to be connected to `address`, an entry of `getaddrinfo`.

    Here no name is looked up any more: whatever name, spelling or redirect has led to the address, it is this one that
    is connected to.
    """
    family, kind, protocol, _, destination = address
    if not is_public(destination[0]):
        raise NotPublicError("is no public address")  # the same for all addresses of a host: one error is made of them
    return socket.socket(family, kind, protocol)
