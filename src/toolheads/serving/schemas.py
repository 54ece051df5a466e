"""The JSON Schemas of what clients send and get, each written once.

They check bodies, describe the two MCP tools, and stand in the OpenAPI document.
"""

from __future__ import annotations

from typing import Any

from toolheads.serving.settings import ServeSettings

Schema = dict[str, Any]

_SEARCH_ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "pattern": "^[A-Za-z0-9_-]+$",
    "description": "`search_id` of the search that the tool was found by.",
}
_NAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
    "description": "`id` or `api_name` of a tool, or its plain name if no other tool has it.",
}


def _object(required: tuple[str, ...] = (), /, **fields: Schema) -> Schema:
    """An object with these fields and no others."""
    return _open_object(required, **fields) | {"additionalProperties": False}


def _open_object(required: tuple[str, ...], /, **fields: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": fields}
    return schema | ({"required": list(required)} if required else {})


def _nullable(kind: str, description: str) -> Schema:
    return {"type": [kind, "null"], "description": description}


def query(settings: ServeSettings) -> Schema:
    """The text of a query."""
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": settings.max_query_chars,
        "pattern": r"\S",
        "description": "What is to be done, in plain words; one task a query.",
    }


def _k(settings: ServeSettings) -> Schema:
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": settings.max_k,
        "description": "How many tools; left out, as many as fit.",
    }


def bodies(settings: ServeSettings) -> dict[str, Schema]:
    """Name → schema of what clients send."""
    tools = {
        "type": "array",
        "minItems": 1,
        "maxItems": settings.max_ranked_tools,
    }
    own_tool = _open_object(("name",), name={"type": "string", "minLength": 1, "maxLength": 1024})
    open_ai = _open_object(("type", "function"), type={"const": "function"}, function=own_tool)
    return {
        "SearchBody": _object(
            ("query",),
            query=query(settings),
            k=_k(settings),
            schemas={
                "enum": ["short", "full", "none"],
                "description": "How input schemas are given; `short`, the default, cuts long ones.",
            },
            conversation={
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "description": "Keeps the set and order of tools stable over the searches of a "
                "conversation, so that a prompt cache stays valid.",
            },
        ),
        "RankBody": {
            **_object(
                ("query",),
                query=query(settings),
                k={**_k(settings), "description": "How many tools; left out, all."},
                tools={
                    **tools,
                    "items": {"anyOf": [own_tool, open_ai]},
                    "description": "Tools as MCP, OpenAI or Anthropic write them.",
                },
                tool_ids={**tools, "items": _NAME, "description": "Tools of the catalogue."},
            ),
            "oneOf": [{"required": ["tools"]}, {"required": ["tool_ids"]}],
        },
        **_choice_bodies(settings),
        "CallBody": _object(
            ("name",),
            name=_NAME,
            arguments={"type": "object", "description": "By the tool's `input_schema`."},
            search_id=_SEARCH_ID,
        ),
        "FeedbackBody": _object(
            ("name", "ok"),
            name=_NAME,
            ok={"type": "boolean", "description": "Whether the tool did what it was called for."},
            search_id=_SEARCH_ID,
            error={
                "type": "string",
                "maxLength": 64,
                "pattern": "^[A-Za-z0-9_.-]*$",
                "description": "Kind of the error, such as `timeout`.",
            },
            took_ms={"type": "number", "minimum": 0, "maximum": 1e9},
        ),
    }


def _shortlist(settings: ServeSettings) -> Schema:
    return {
        "type": "integer",
        "minimum": 0,
        "maximum": settings.max_ranked_tools,
        "description": "Most tools of a list of those that are worth a look; left out, no list.",
    }


def _choice_bodies(settings: ServeSettings) -> dict[str, Schema]:
    message = _open_object(("role", "content"), role={"type": "string"})
    names = {"type": "array", "maxItems": settings.max_ranked_tools, "items": _NAME}
    tokens = {"type": "integer", "minimum": 1, "maximum": 100_000_000}
    return {
        "RerankBody": _object(
            ("message",),
            message={
                "anyOf": [
                    query(settings),
                    {"type": "array", "minItems": 1, "maxItems": 1000, "items": message},
                ],
                "description": "What the user said, or the conversation as chat messages.",
            },
            method={
                "enum": ["keyword", "heads", "llm"],
                "description": "Left out: `keyword`. `llm` asks the chat model of the server; "
                "without one, or if it fails, words choose and `report` says so.",
            },
            top_n={"type": "integer", "minimum": 0, "maximum": settings.max_ranked_tools},
            pinned={**names, "description": "Tools that are listed in any case."},
        ),
        "PlanBody": _object(
            (),
            context_tokens={**tokens, "description": "What the model can read."},
            budget_tokens={**tokens, "description": "What tools may take of it."},
            query=query(settings),
            k={**_k(settings), "description": "How many tools a retrieval shows."},
            keep={**names, "description": "Tools that are shown in any case."},
            format={
                "type": "string",
                "maxLength": 40,
                "description": "How definitions are written.",
            },
        ),
        "DecideBody": _object(
            ("need",),
            need=query(settings),
            settings={
                "type": "object",
                "description": "Thresholds, as `toolheads calibrate` finds them for these heads; "
                "left out, those of the server.",
            },
            shortlist=_shortlist(settings),
        ),
    }


def answers() -> dict[str, Schema]:
    """Name → schema of what clients get."""
    tool = {
        "id": {"type": "string"},
        "api_name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        "name": {"type": "string"},
        "server": _nullable("string", "Its source."),
        "kind": {"type": "string", "description": "`mcp`, `openapi` or `tools`."},
        "description": {"type": "string"},
        "input_schema": _nullable("object", "JSON Schema of the arguments."),
        "input_schema_is_short": {"type": "boolean"},
        "annotations": {"type": "object"},
    }
    found = _object(
        ("id", "api_name", "name", "server", "kind", "description", "score"),
        score={"type": "number"},
        **tool,
    )
    listed = _object(
        ("id", "api_name", "name", "server", "kind", "description"),
        title={"type": "string"},
        output_schema={"type": "object"},
        http={"type": "object"},
        **tool,
    )
    mode = {"enum": ["dense", "lexical"]}
    text = {"type": "string"}
    ranking = {
        "mode": mode,
        "reason": _nullable("string", "Why the answer is lexical though it should not be."),
        "took_ms": {"type": "number"},
    }
    return {
        "Error": _object(("error",), error=_object(("code", "message"), code=text, message=text)),
        "SearchAnswer": _object(
            ("search_id", "mode", "reason", "nothing_matches", "tools", "catalogue", "took_ms"),
            search_id=text,
            nothing_matches={"type": "boolean", "description": "No tool fits the query."},
            note=text,
            named={"type": "array", "items": text, "description": "Tools named in the query."},
            tools={"type": "array", "items": found, "description": "Best first."},
            catalogue={**text, "description": "Digest of the tools that were searched."},
            **ranking,
        ),
        "RankAnswer": _object(
            ("mode", "reason", "tools", "took_ms"),
            tools={
                "type": "array",
                "description": "Best first; `index` is the place in the list that was given.",
                "items": _object(
                    ("index", "name", "score"),
                    index={"type": "integer"},
                    name=text,
                    score={"type": "number"},
                ),
            },
            **ranking,
        ),
        "RerankAnswer": _object(
            ("tools", "report", "took_ms"),
            tools={"type": "array", "items": listed, "description": "Named, pinned, chosen."},
            report={"type": "object", "description": "Which method ran, and what matched."},
            took_ms={"type": "number"},
        ),
        "PlanAnswer": _open_object(
            ("strategy", "reason", "fits", "took_ms"),
            strategy={"enum": ["one_shot", "retrieve", "two_stage", "retrieve_then_menu"]},
            reason=text,
            fits={"type": "boolean"},
            took_ms={"type": "number"},
        ),
        "DecideAnswer": _decision(
            _object(
                ("id", "server", "name", "score"),
                id=text,
                server=_nullable("string", "Its source."),
                name=text,
                score={"type": "number"},
            )
        ),
        "CallAnswer": _object(
            ("tool", "call_id", "outcome", "is_error", "content", "took_ms"),
            is_error={"type": "boolean"},
            content={"type": "array", "items": {"type": "object"}},
            **_call_fields(),
        ),
        "FeedbackAnswer": _object(
            ("tool", "call_id"),
            tool=text,
            call_id=text,
            search_id=_nullable("string", "The search that the call was linked to."),
        ),
        "Tool": listed,
        "ToolsPage": _object(
            ("tools", "total", "catalogue", "next_cursor"),
            tools={"type": "array", "items": listed},
            total={"type": "integer"},
            catalogue=text,
            next_cursor=_nullable("string", "Gets the next page; null on the last."),
        ),
        "Health": _open_object(
            ("live", "ready", "mode", "degraded", "reason", "tools"),
            live={"type": "boolean"},
            ready={"type": "boolean"},
            mode=mode,
            degraded={"type": "boolean"},
            reason=_nullable("string", "What is worse than it should be."),
            tools={"type": "integer"},
            reload_error=_nullable("string", "Why the last reload failed."),
            reload_failures={"type": "integer"},
        ),
    }


def _decision(tool: Schema) -> Schema:
    """What a need comes to, with tools of this schema."""
    one = tool["properties"]
    nearest = _object(
        ("id", "name", "score"), **{n: one[n] for n in ("id", "server", "name", "score")}
    )
    return _object(
        ("search_id", "outcome", "tools", "settings", "took_ms"),
        search_id={"type": "string"},
        outcome={
            "enum": ["bind", "duplicate", "ambiguous", "absent"],
            "description": "One tool; one that its server offers more than once; several, and "
            "nothing says which; none.",
        },
        tools={"type": "array", "items": tool, "description": "Best first; none if absent."},
        nearest={
            "anyOf": [nearest, {"type": "null"}],
            "description": "The best of the tools that do not do, to be shown, not to be called.",
        },
        shortlist={"type": "array", "items": tool, "description": "Those worth a look."},
        settings={
            "type": "object",
            "description": "The thresholds, with which scores and their differences are compared.",
        },
        took_ms={"type": "number"},
    )


def _call_fields() -> dict[str, Schema]:
    return {
        "tool": {"type": "string", "description": "Its id."},
        "call_id": {"type": "string"},
        "search_id": _nullable("string", "The search that the call was linked to."),
        "outcome": {
            "enum": ["ok", "tool_error", "protocol_error", "timeout", "refused", "unknown_tool"]
        },
        "error": _nullable("string", "What went wrong, in one line."),
        "structured": {"description": "The tool's answer as JSON, where it gives one."},
        "http_status": _nullable("integer", "Of the backend's answer, where it came over HTTP."),
        "took_ms": {"type": "number"},
    }


def mcp_search(settings: ServeSettings) -> tuple[Schema, Schema]:
    """Input and output schema of `search_tools`."""
    taken = _object(("query",), query=query(settings), k=_k(settings))
    return taken, answers()["SearchAnswer"]


def mcp_resolve(settings: ServeSettings) -> tuple[Schema, Schema]:
    """Input and output schema of `resolve_tool`."""
    taken = _object(("need",), need=query(settings), shortlist=_shortlist(settings))
    found: Schema = answers()["SearchAnswer"]["properties"]["tools"]["items"]
    return taken, _decision(found)


def mcp_call(settings: ServeSettings) -> tuple[Schema, Schema]:
    """Input and output schema of `call_tool`."""
    given = _object(("tool", "call_id", "outcome", "took_ms"), **_call_fields())
    return bodies(settings)["CallBody"], given
