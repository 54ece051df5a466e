"""The tools that MCP clients see: `search_tools`, `call_tool` and, if asked for, `resolve_tool`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, cast

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from toolheads.errors import ToolheadsError
from toolheads.serving import schemas
from toolheads.serving.access import Asker
from toolheads.serving.api_error import ApiError
from toolheads.serving.checking import Checker
from toolheads.serving.service import ToolService, content_of

SEARCH, CALL, RESOLVE = "search_tools", "call_tool", "resolve_tool"

INSTRUCTIONS = (
    f"Many tools stand behind these two. Find the ones for a task with {SEARCH}, one task "
    f"a query, and use them with {CALL}. Search before you say that something cannot be done."
)
"""Of a server with the usual two tools; of others each tool says for itself what it is for."""

AskerOf = Callable[[ServerRequestContext[Any, Any]], Asker]
"""Who sent a message."""

_BLOCKS: TypeAdapter[Any] = TypeAdapter(types.ContentBlock)

logger = logging.getLogger(__name__)


def mcp_server(service: ToolService, asker_of: AskerOf, *, version: str) -> Server[Any]:
    """The MCP server, over whatever transport.

    Args:
        service: The use cases.
        asker_of: Finds out who sent a message.
        version: Of the package.
    """
    tools = _Tools(service, asker_of)
    return Server(
        "toolheads",
        version=version,
        title="Tool search",
        instructions=INSTRUCTIONS
        if set(service.settings.mcp_tools) == {"search", "call"}
        else None,
        on_list_tools=tools.listed,
        on_call_tool=tools.called,
    )


class _Tools:
    def __init__(self, service: ToolService, asker_of: AskerOf) -> None:
        self._service, self._asker_of = service, asker_of
        made = {"search": _search_tool, "call": _call_tool, "resolve": _resolve_tool}
        kinds = [kind for kind in made if kind in service.settings.mcp_tools]
        self._tools = [made[kind](service) for kind in kinds]
        self._scope_of = {
            tool.name: "call" if kind == "call" else "search"
            for kind, tool in zip(kinds, self._tools, strict=True)
        }
        self._checkers = {
            tool.name: Checker(tool.input_schema, name="arguments") for tool in self._tools
        }
        self._uses = {SEARCH: self._search, CALL: self._call, RESOLVE: self._resolve}

    async def listed(
        self, ctx: ServerRequestContext[Any, Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The tools that the client's key allows."""
        scopes = self._asker_of(ctx).access.scopes
        return types.ListToolsResult(
            tools=[tool for tool in self._tools if self._scope_of[tool.name] in scopes]
        )

    async def called(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """The answer of a tool. What is wrong with the arguments is said to the model."""
        if params.name not in self._checkers:
            names = " or ".join(self._checkers)
            msg = f"name must be {names}, got {params.name[:100]!r}"
            raise MCPError(code=types.INVALID_PARAMS, message=msg)
        try:
            arguments = self._checkers[params.name].check(params.arguments or {})
            return await self._uses[params.name](self._asker_of(ctx), arguments)
        except ApiError as e:
            return _failed(e)
        except (ToolheadsError, OSError) as e:
            logger.warning("%s failed: %s", params.name, e)
            return _failed(ApiError("unavailable", str(e)))
        except Exception:
            logger.exception("%s failed", params.name)
            return _failed(ApiError("internal_error", "the server failed; its log says why"))

    async def _search(self, asker: Asker, arguments: dict[str, Any]) -> types.CallToolResult:
        answer = await self._service.search(asker, arguments["query"], k=_whole(arguments.get("k")))
        return types.CallToolResult(content=[_text(answer)], structured_content=answer)

    async def _resolve(self, asker: Asker, arguments: dict[str, Any]) -> types.CallToolResult:
        shortlist = _whole(arguments.get("shortlist"))
        answer = await self._service.choosing.decide(
            asker, arguments["need"], shortlist=shortlist, is_full=True
        )
        return types.CallToolResult(content=[_text(answer)], structured_content=answer)

    async def _call(self, asker: Asker, arguments: dict[str, Any]) -> types.CallToolResult:
        said, result = await self._service.call(
            asker, arguments["name"], arguments.get("arguments"), arguments.get("search_id")
        )
        return types.CallToolResult(
            content=[_block(block) for block in content_of(result)],
            structured_content=said,
            is_error=result.outcome != "ok",
        )


def _search_tool(service: ToolService) -> types.Tool:
    taken, given = schemas.mcp_search(service.settings)
    return types.Tool(
        name=SEARCH,
        title="Search tools",
        description="Finds the tools for one task, out of all that are connected here. Say in "
        "plain words what is to be done; for several tasks search several times. The answer has "
        f"each tool's id and input schema, best first: use one with {CALL}. It says so when no "
        "tool fits.",
        input_schema=taken,
        output_schema=given,
        annotations=types.ToolAnnotations(
            title="Search tools",
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _call_tool(service: ToolService) -> types.Tool:
    taken, given = schemas.mcp_call(service.settings)
    return types.Tool(
        name=CALL,
        title="Call a tool",
        description=f"Calls a tool that {SEARCH} found, with arguments by its input schema. Give "
        "the search_id of that search too. If the call fails, the answer says why and has the "
        "tool's whole input schema.",
        input_schema=taken,
        output_schema=given,
        annotations=types.ToolAnnotations(
            title="Call a tool",
            read_only_hint=False,
            destructive_hint=True,
            idempotent_hint=False,
            open_world_hint=True,
        ),
    )


def _resolve_tool(service: ToolService) -> types.Tool:
    taken, given = schemas.mcp_resolve(service.settings)
    return types.Tool(
        name=RESOLVE,
        title="Resolve a tool",
        description="Says which one tool a need names, out of all that are connected here: bind "
        "(this one), duplicate (one server offers it more than once), ambiguous (any of these), "
        "or absent (none does it, so none should be called in its place).",
        input_schema=taken,
        output_schema=given,
        annotations=types.ToolAnnotations(
            title="Resolve a tool",
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _whole(number: float | None) -> int | None:
    """JSON Schema calls 3.0 a whole number too."""
    return None if number is None else int(number)


def _failed(error: ApiError) -> types.CallToolResult:
    text = types.TextContent(type="text", text=f"{error.code}: {error.message}")
    return types.CallToolResult(content=[text], structured_content=error.to_json(), is_error=True)


def _text(answer: dict[str, Any]) -> types.TextContent:
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"), default=dict)
    return types.TextContent(type="text", text=text)


def _block(block: dict[str, Any]) -> types.ContentBlock:
    """A block of a backend; one that is no MCP block is shown as JSON."""
    try:
        return cast("types.ContentBlock", _BLOCKS.validate_python(block))
    except ValidationError:
        return _text(block)
