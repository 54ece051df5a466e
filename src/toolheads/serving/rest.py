"""The routes of REST: read the request, call one use case, write the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolheads.serving import schemas
from toolheads.serving.api_error import ApiError, json_answer
from toolheads.serving.checking import Checker
from toolheads.serving.guard.bodies import JSON
from toolheads.serving.guard.credentials import ACCESS
from toolheads.serving.openapi import openapi_document
from toolheads.serving.service import ToolService, content_of
from toolheads.serving.sessions import asker_of

_BOOLEANS = {"true": True, "false": False}


class Rest:
    """Handlers of REST.

    Args:
        service: The use cases.
        version: Of the package, for the OpenAPI document.
    """

    def __init__(self, service: ToolService, *, version: str) -> None:
        self._service = service
        bodies = schemas.bodies(service.settings)
        self._checkers = {name: Checker(body, name="the body") for name, body in bodies.items()}
        self._openapi = json_answer(openapi_document(service.settings, version=version)).body

    def routes(self) -> list[Route]:
        """All routes but `/mcp`."""
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/v1/search": self._search,
            "/v1/rank": self._rank,
            "/v1/rerank": self._rerank,
            "/v1/plan": self._plan,
            "/v1/decide": self._decide,
            "/v1/call": self._call,
            "/v1/feedback": self._feedback,
        }
        gets: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/v1/tools": self._tools,
            "/v1/tools/{name:path}": self._tool,
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/readyz": self._ready,
            "/openapi.json": self._document,
        }
        return [
            *(Route(path, handler, methods=["POST"]) for path, handler in posts.items()),
            *(Route(path, handler, methods=["GET"]) for path, handler in gets.items()),
        ]

    async def _search(self, request: Request) -> Response:
        asker, body = asker_of(request, "rest"), self._body(request, "SearchBody")
        return json_answer(
            await self._service.search(
                asker,
                body["query"],
                k=_whole(body.get("k")),
                schemas=body.get("schemas", "short"),
                conversation=body.get("conversation"),
            )
        )

    async def _rank(self, request: Request) -> Response:
        asker, body = asker_of(request, "rest"), self._body(request, "RankBody")
        return json_answer(
            await self._service.rank(
                asker,
                body["query"],
                tools=body.get("tools"),
                tool_ids=body.get("tool_ids"),
                k=_whole(body.get("k")),
            )
        )

    async def _rerank(self, request: Request) -> Response:
        asker, body = asker_of(request, "rest"), self._body(request, "RerankBody")
        return json_answer(
            await self._service.choosing.rerank(
                asker,
                body["message"],
                method=body.get("method", "keyword"),
                top_n=int(body.get("top_n", 15)),
                pinned=body.get("pinned", ()),
            )
        )

    async def _plan(self, request: Request) -> Response:
        asker, body = asker_of(request, "rest"), self._body(request, "PlanBody")
        return json_answer(
            await self._service.choosing.plan(
                asker,
                context_tokens=_whole(body.get("context_tokens")),
                budget_tokens=_whole(body.get("budget_tokens")),
                query=body.get("query"),
                k=_whole(body.get("k")),
                keep=body.get("keep"),
                format_id=body.get("format"),
            )
        )

    async def _decide(self, request: Request) -> Response:
        asker, body = asker_of(request, "rest"), self._body(request, "DecideBody")
        return json_answer(
            await self._service.choosing.decide(
                asker,
                body["need"],
                body.get("settings"),
                shortlist=_whole(body.get("shortlist")),
            )
        )

    async def _call(self, request: Request) -> Response:
        asker, body = asker_of(request, "rest"), self._body(request, "CallBody")
        said, result = await self._service.call(
            asker, body["name"], body.get("arguments"), body.get("search_id")
        )
        is_error = result.outcome != "ok"
        return json_answer(said | {"is_error": is_error, "content": content_of(result)})

    async def _feedback(self, request: Request) -> Response:
        asker, body = asker_of(request, "rest"), self._body(request, "FeedbackBody")
        return json_answer(
            self._service.feedback(
                asker,
                body["name"],
                ok=body["ok"],
                search_id=body.get("search_id"),
                error=body.get("error", ""),
                took_ms=body.get("took_ms"),
            )
        )

    async def _tools(self, request: Request) -> Response:
        given = _parameters(request, ("cursor", "limit", "server", "full"))
        limit, full = given.get("limit"), given.get("full", "false")
        if limit is not None and not (limit.isascii() and limit.isdigit() and len(limit) < 10):
            msg = f"limit must be a whole number, got {limit[:40]!r}"
            raise ApiError("invalid_argument", msg)
        if full not in _BOOLEANS:
            raise ApiError("invalid_argument", f"full must be true or false, got {full[:40]!r}")
        return json_answer(
            self._service.page(
                asker_of(request, "rest"),
                cursor=given.get("cursor"),
                limit=None if limit is None else int(limit),
                server=given.get("server"),
                is_full=_BOOLEANS[full],
            )
        )

    async def _tool(self, request: Request) -> Response:
        _parameters(request, ())
        asker = asker_of(request, "rest")
        return json_answer(self._service.tool(asker, request.path_params["name"]))

    async def _metrics(self, request: Request) -> Response:
        request.scope[ACCESS].check("metrics")
        return self._service.metrics.answer()

    async def _health(self, _: Request) -> Response:
        return json_answer(self._service.health())

    async def _ready(self, _: Request) -> Response:
        health = self._service.health()
        return json_answer(health, 200 if health["ready"] else 503)

    async def _document(self, _: Request) -> Response:
        return Response(self._openapi, headers={"Content-Type": "application/json"})

    def _body(self, request: Request, name: str) -> dict[str, Any]:
        if JSON not in request.scope:
            raise ApiError("invalid_json", "the body must be a JSON object, got nothing")
        return self._checkers[name].check(request.scope[JSON])


def _parameters(request: Request, known: tuple[str, ...]) -> Mapping[str, str]:
    """Parameters of the URL, each known and given once."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known or name in given:
            rule = f"be {' or '.join(known)}, each once" if known else "be left out"
            raise ApiError("invalid_argument", f"parameters must {rule}, got {name[:40]!r}")
        given[name] = value
    return given


def _whole(number: float | None) -> int | None:
    """JSON Schema calls 3.0 a whole number too."""
    return None if number is None else int(number)
