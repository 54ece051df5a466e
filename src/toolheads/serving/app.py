"""The app: every door on one set of use cases, behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from toolheads.calls import Calls
from toolheads.retrieval import Retriever
from toolheads.serving.access import Keys
from toolheads.serving.aids import Aids
from toolheads.serving.companions import Companion, beside
from toolheads.serving.guard import MCP_PATH, guarded
from toolheads.serving.mcp_endpoint import McpEndpoint
from toolheads.serving.rest import Rest
from toolheads.serving.service import ToolService
from toolheads.serving.settings import ServeSettings
from toolheads.usage import UsageRecorder


def create_app(
    retriever: Retriever,
    calls: Calls,
    *,
    settings: ServeSettings | None = None,
    keys: Keys | None = None,
    usage: UsageRecorder | None = None,
    heads: str = "",
    names: tuple[str, ...] = (),
    companions: Sequence[Companion] = (),
    aids: Aids | None = None,
) -> Starlette:
    """The app of a server: `/mcp`, `/v1/…`, `/healthz`, `/readyz`, `/openapi.json`, `/metrics`.

    It closes `calls` when it ends; the retriever and the recorder are the caller's to close.

    Args:
        retriever: Finds tools.
        calls: Calls them.
        settings: Limits.
        keys: Who may do what; None or no keys let everyone in.
        usage: Takes events; None records nothing.
        heads: sha256 of the heads that rank, for the usage log.
        names: Names of this machine besides the loopback ones that Host may have.
        companions: Run beside it, from its start to its end.
        aids: Thresholds of decisions and a chat model, closed when it ends; None takes what comes
            with the heads.
    """
    settings, release = settings or ServeSettings(), version("toolheads")
    service = ToolService(retriever, calls, settings=settings, usage=usage, heads=heads, aids=aids)
    endpoint = McpEndpoint(service, version=release)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with beside(companions), endpoint.sessions.run():
            yield
        await service.close()

    app = Starlette(
        routes=[Route(MCP_PATH, endpoint), *Rest(service, version=release).routes()],
        middleware=[
            Middleware(
                guarded, settings, keys or Keys(), names=names, observe=service.metrics.request
            )
        ],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a path with a slash too many is another path
    return app
