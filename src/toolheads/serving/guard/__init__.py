"""What stands before every route: pure ASGI middleware, each of which refuses one thing.

`Failures` is the outermost and turns what goes wrong into JSON; then come, in this order,
`Deadline`, `Hosts`, `Credentials`, `Rates` and `Bodies`, so that what costs more comes later.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp

from toolheads.serving.access import EVERYONE, Keys
from toolheads.serving.guard.bodies import Bodies
from toolheads.serving.guard.credentials import Credentials
from toolheads.serving.guard.deadline import Deadline
from toolheads.serving.guard.failures import Failures, Observe
from toolheads.serving.guard.hosts import Hosts
from toolheads.serving.guard.rates import Rates
from toolheads.serving.settings import ServeSettings

__all__ = ["OPEN_PATHS", "guarded"]

OPEN_PATHS = ("/healthz", "/readyz", "/openapi.json")
"""Answered without a key: probes have none. They say nothing about tools or queries."""

MCP_PATH = "/mcp"


def guarded(
    app: ASGIApp,
    settings: ServeSettings,
    keys: Keys,
    *,
    names: Sequence[str] = (),
    observe: Observe | None = None,
) -> ASGIApp:
    """Put the guard before an app.

    Args:
        app: What is guarded.
        settings: Limits, allowed hosts and origins.
        keys: Keys; none lets everyone in.
        names: Names that this machine has for its clients, allowed as hosts as they are.
        observe: Told of every answer.
    """
    long_s = settings.deadline_s + settings.call_timeout_s
    limits = {MCP_PATH: long_s, "/v1/call": long_s}
    app = Bodies(
        app,
        max_bytes=settings.max_body_bytes,
        max_url_bytes=settings.max_url_bytes,
        max_levels=settings.max_json_levels,
        mcp_path=MCP_PATH,
    )
    if settings.rate_per_minute:
        app = Rates(
            app,
            per_minute=settings.rate_per_minute,
            burst=settings.burst,
            free=OPEN_PATHS,
        )
    app = Credentials(app, keys, everyone=EVERYONE, free=OPEN_PATHS)
    app = Hosts(
        app,
        hosts=(*names, *settings.allowed_hosts),
        origins=settings.allowed_origins,
        free=OPEN_PATHS,
    )
    app = Deadline(app, default_s=settings.deadline_s, by_path=limits)
    return Failures(app, mcp_path=MCP_PATH, observe=observe)
