"""No request takes longer than its deadline, from its first byte to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from toolheads.serving.api_error import ApiError


class Deadline:
    """Cancels a request at its deadline.

    Args:
        app: What is guarded.
        default_s: Seconds for a request.
        by_path: Seconds for the paths that take longer.
    """

    def __init__(self, app: ASGIApp, *, default_s: float, by_path: Mapping[str, float]) -> None:
        self.app, self.default_s, self.by_path = app, default_s, dict(by_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit_s = self.by_path.get(scope["path"], self.default_s)
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                await self.app(scope, receive, send)
        except TimeoutError as e:
            if not limit.expired():
                raise
            msg = f"the request must end within {limit_s:g} s, got no end"
            raise ApiError("deadline_exceeded", msg) from e
