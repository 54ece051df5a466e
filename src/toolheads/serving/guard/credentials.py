"""Bearer tokens: finds out what a client may do, and lets nobody else in."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from toolheads.serving.access import Access, Keys
from toolheads.serving.api_error import ApiError

ACCESS = "toolheads.access"
"""Where a scope has the `Access` of its client."""


class Credentials:
    """Puts what a client may do into the scope.

    Args:
        app: What is guarded.
        keys: Keys; without any, everyone may do everything.
        everyone: What that is.
        free: Paths that need no key.
    """

    def __init__(
        self, app: ASGIApp, keys: Keys, *, everyone: Access, free: Collection[str]
    ) -> None:
        self.app, self.keys, self.everyone, self.free = app, keys, everyone, frozenset(free)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] == "http" and scope["path"] not in self.free:
            scope[ACCESS] = self._access(scope) if len(self.keys) else self.everyone
        await self.app(scope, receive, send)

    def _access(self, scope: Scope) -> Access:
        given = Headers(scope=scope).getlist("authorization")
        scheme, _, token = (given[0] if len(given) == 1 else "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            got = "none" if not given else "another form" if len(given) == 1 else "several"
            msg = f"Authorization must be 'Bearer KEY', got {got}"
            raise ApiError("unauthorized", msg, {"WWW-Authenticate": "Bearer"})
        access = self.keys.find(token.strip())
        if access is None:
            headers = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            raise ApiError("unauthorized", "the key must be a known one, got another", headers)
        return access
