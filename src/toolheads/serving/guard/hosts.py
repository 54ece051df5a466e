"""Host and Origin: against web pages that reach a local server through their visitor's browser.

A page's own name can be made to resolve to 127.0.0.1 (DNS rebinding); the Host header then still
has the page's name. A page that calls another origin says so in the Origin header.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from toolheads.serving.api_error import ApiError
from toolheads.serving.settings import LOOPBACK

ANY = "*"


class Hosts:
    """Refuses names that are not the server's, and pages that are not allowed.

    Args:
        app: What is guarded.
        hosts: Names allowed besides those of this machine, with or without a port; `*` is any.
        origins: Origins allowed besides those whose host is allowed by name (`*` allows none of
            them: a page of whatever name could call).
        free: Paths on which the Host is not looked at: probes come by address.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        free: Collection[str],
    ) -> None:
        self.app = app
        self.takes_any = ANY in hosts
        self.hosts = {_plain(host) for host in (*LOOPBACK, *hosts) if host != ANY}
        self.origins = {origin.rstrip("/").lower() for origin in origins}
        self.free = frozenset(free)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            hosts, origins = headers.getlist("host"), headers.getlist("origin")
            if scope["path"] not in self.free:
                self._check_host(hosts)
            self._check_origin(origins)
        await self.app(scope, receive, send)

    def _check_host(self, given: list[str]) -> None:
        if len(given) == 1 and (self.takes_any or self._knows(given[0])):
            return
        got = repr(given[0][:100]) if len(given) == 1 else f"{len(given)} of them"
        msg = f"Host must be a name of this server, got {got}; allow it with --allowed-host"
        raise ApiError("host_not_allowed", msg)

    def _check_origin(self, given: list[str]) -> None:
        for origin in given:
            host = _host_of(origin)
            if origin.lower() in self.origins or (host and self._knows(host)):
                continue
            msg = f"Origin must be an allowed one, got {origin[:100]!r}; see --allowed-origin"
            raise ApiError("origin_not_allowed", msg)

    def _knows(self, host: str) -> bool:
        name = _plain(host)
        return name in self.hosts or _without_port(name) in self.hosts


def _host_of(origin: str) -> str:
    """Host and port of an origin; empty if it is none (`null`)."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc if parts.scheme in ("http", "https") else ""


def _plain(host: str) -> str:
    return host.strip().lower().rstrip(".").replace("[", "").replace("]", "")


def _without_port(name: str) -> str:
    """The name before a port; an IPv6 address, which has colons of its own, loses nothing else."""
    head, colon, port = name.rpartition(":")
    return head.rstrip(".") if colon and port.isdigit() else name
