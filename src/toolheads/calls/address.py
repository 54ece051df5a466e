"""Which network addresses a description may name: public ones, judged after the look-up.

A host can be written in many ways (`2852039166`, `0xA9FEA9FE`, `[::ffff:169.254.169.254]`, a name
that leads there). All of them end as an address, so the address is what is judged, and the
connection goes to that very address: a second look-up could give another.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) → addresses."""

_V4 = ipaddress.IPv4Address

_REFUSED_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carriers, and metadata of one cloud
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # metadata of another
            "169.254.0.0/16",  # link-local, and metadata of most
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, and metadata of a third
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # old relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_REFUSED_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)
_ISATAP = (0x00005EFE, 0x02005EFE)
"""Bits 64 to 95 of an address that holds an IPv4 address in its last 32."""


def is_public(address: str) -> bool:
    """Whether an address is one of the open internet, and no other address is hidden in it."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return _is_public_v4(ip) if isinstance(ip, _V4) else _is_public_v6(ip)


async def look_up(host: str, port: int) -> list[str]:
    """Addresses of a host, in the order to try them.

    Raises:
        OSError: If it has none.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as e:  # a host that can be no name
        raise OSError(str(e)) from e
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_public_v4(ip: ipaddress.IPv4Address) -> bool:
    return not any(ip in network for network in _REFUSED_V4)


def _is_public_v6(ip: ipaddress.IPv6Address) -> bool:
    if ip in _NAT64:
        return _is_public_v4(_V4(int(ip) & 0xFFFFFFFF))
    if ip.ipv4_mapped is not None:
        return _is_public_v4(ip.ipv4_mapped)
    if ip in _SIX_TO_FOUR:
        return _is_public_v4(_V4(int(ip) >> 80 & 0xFFFFFFFF))
    if int(ip) >> 32 & 0xFFFFFFFF in _ISATAP and not _is_public_v4(_V4(int(ip) & 0xFFFFFFFF)):
        return False
    return ip in _GLOBAL_V6 and not any(ip in network for network in _REFUSED_V6)
