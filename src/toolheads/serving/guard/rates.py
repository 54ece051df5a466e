"""How many requests a client may make: a token bucket for each key, or each address without."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from toolheads.serving.access import EVERYONE
from toolheads.serving.api_error import ApiError
from toolheads.serving.guard.credentials import ACCESS

_MOST_CLIENTS = 10_000
"""Clients remembered. One that is forgotten starts anew with a full bucket."""


class Rates:
    """Refuses what goes beyond the rate.

    Args:
        app: What is guarded.
        per_minute: Requests a minute.
        burst: Requests at once.
        free: Paths that are not counted.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        per_minute: float,
        burst: int,
        free: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app, self.clock, self.free = app, clock, frozenset(free)
        self.per_second, self.burst = per_minute / 60, float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # client → (requests left, when that was counted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] == "http" and scope["path"] not in self.free:
            wait_s = self._take(_client(scope))
            if wait_s > 0:
                msg = (
                    f"requests must come at {self.per_second * 60:g} a minute at most, got more; "
                    f"wait {math.ceil(wait_s)} s"
                )
                raise ApiError("rate_limited", msg, {"Retry-After": str(math.ceil(wait_s))})
        await self.app(scope, receive, send)

    def _take(self, client: str) -> float:
        """Take one request from a client's bucket.

        Returns:
            Seconds until there is one; 0 if one was taken.
        """
        now = self.clock()
        left, counted = self._buckets.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - counted) * self.per_second)
        is_there = left >= 1
        self._buckets[client] = (left - is_there, now)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if is_there else (1 - left) / self.per_second


def _client(scope: Scope) -> str:
    access = scope.get(ACCESS, EVERYONE)
    if access is not EVERYONE:
        return f"key {access.name}"
    address = scope.get("client")
    return f"address {address[0]}" if address else "unknown"
