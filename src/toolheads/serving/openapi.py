"""The OpenAPI document of the REST routes, from the schemas that check them."""

from __future__ import annotations

from typing import Any

from toolheads.serving import schemas
from toolheads.serving.api_error import STATUS
from toolheads.serving.settings import ServeSettings

_JSON = "application/json"


def openapi_document(settings: ServeSettings, *, version: str) -> dict[str, Any]:
    """An OpenAPI 3.1 document.

    Args:
        settings: Limits that stand in the schemas.
        version: Of the package.
    """
    paths = {
        "/v1/search": {
            "post": _post("search", "Find the tools for a query", "SearchBody", "SearchAnswer")
        },
        "/v1/rank": {
            "post": _post("rank", "Rank tools that you give, or name", "RankBody", "RankAnswer")
        },
        "/v1/rerank": {
            "post": _post("rerank", "Choose the tools for one turn", "RerankBody", "RerankAnswer")
        },
        "/v1/plan": {
            "post": _post("plan", "Plan how the catalogue is shown", "PlanBody", "PlanAnswer")
        },
        "/v1/decide": {
            "post": _post(
                "decide", "Say which one tool a need names, if any", "DecideBody", "DecideAnswer"
            )
        },
        "/v1/call": {
            "post": _post(
                "call",
                "Call a tool. One that fails is answered with 200 and `is_error`",
                "CallBody",
                "CallAnswer",
            )
        },
        "/v1/feedback": {
            "post": _post(
                "feedback",
                "Tell of a call that was made elsewhere",
                "FeedbackBody",
                "FeedbackAnswer",
            )
        },
        "/v1/tools": {
            "get": _get(
                "listTools",
                "All tools, in pages",
                "ToolsPage",
                _parameter("cursor", "`next_cursor` of the page before", {"type": "string"}),
                _parameter(
                    "limit",
                    "Tools of a page",
                    {"type": "integer", "minimum": 1, "maximum": settings.max_page_tools},
                ),
                _parameter("server", "Only tools of this source", {"type": "string"}),
                _parameter("full", "Whether schemas are given", {"enum": ["true", "false"]}),
            )
        },
        "/v1/tools/{name}": {
            "get": _get(
                "getTool",
                "Everything about one tool",
                "Tool",
                {
                    "name": "name",
                    "in": "path",
                    "required": True,
                    "description": "`id` (whose `/` may stay as it is), `api_name`, or plain name",
                    "schema": {"type": "string", "minLength": 1},
                },
            )
        },
        "/healthz": {"get": _open(_get("health", "Whether it lives, and how it is", "Health"))},
        "/readyz": {
            "get": _open(_get("ready", "The same; 503 until it can answer searches", "Health"))
        },
        "/openapi.json": {"get": _open(_plain("document", "This document", _JSON))},
        "/metrics": {"get": _plain("metrics", "Numbers for Prometheus", "text/plain")},
    }
    paths["/readyz"]["get"]["responses"]["503"] = _answer("Not ready yet", "Health")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "toolheads",
            "version": version,
            "description": "Finds, out of thousands of tools, the few that a query needs, and "
            "calls them. Errors are JSON with a stable code: " + ", ".join(sorted(STATUS)) + ".",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.bodies(settings) | schemas.answers(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # Either: a server without keys lets everyone in.
        "security": [{"key": []}, {}],
    }


def _post(name: str, summary: str, body: str, answer: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": {_JSON: {"schema": _reference(body)}}},
        "responses": _responses(answer),
    }


def _get(name: str, summary: str, answer: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": name, "summary": summary}
    if parameters:
        operation["parameters"] = list(parameters)
    return operation | {"responses": _responses(answer)}


def _plain(name: str, summary: str, media_type: str) -> dict[str, Any]:
    responses = {
        "200": {"description": summary, "content": {media_type: {}}},
        "default": _answer("An error", "Error"),
    }
    return {"operationId": name, "summary": summary, "responses": responses}


def _open(operation: dict[str, Any]) -> dict[str, Any]:
    return operation | {"security": []}


def _parameter(name: str, about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": schema}


def _responses(answer: str) -> dict[str, Any]:
    return {"200": _answer("Done", answer), "default": _answer("An error", "Error")}


def _answer(about: str, schema: str) -> dict[str, Any]:
    return {"description": about, "content": {_JSON: {"schema": _reference(schema)}}}


def _reference(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}
