"""Tools of LangChain, in and out. Needs langchain-core, and nothing else of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from toolheads.data.files import OnFaults
from toolheads.domain import Tool
from toolheads.errors import import_extra
from toolheads.sources.lists.entries import EntryError, made, read_entries
from toolheads.sources.lists.naming import object_schema, provider_names

Call = Callable[[Tool, Mapping[str, Any]], Any]
"""(tool, arguments) → answer."""

AsyncCall = Callable[[Tool, Mapping[str, Any]], Awaitable[Any]]


def from_langchain(
    tools: Iterable[Any],
    *,
    source: str | None = None,
    skip_bad: bool = False,
    on_faults: OnFaults | None = None,
) -> list[Tool]:
    """Read LangChain tools.

    Args:
        tools: `BaseTool` objects, or anything that LangChain itself can show to a model.
        source: `server` of each tool; None for none.
        skip_bad: Leave out tools with faults.
        on_faults: Told what `skip_bad` left out.

    Raises:
        DataError: If a tool has a fault and `skip_bad` is off.
        MissingExtraError: If langchain-core is not installed.
    """
    calling = import_extra(
        "langchain_core.utils.function_calling", user="sources.lists", extra="langchain"
    )
    converted = [_Converted(tool, calling.convert_to_openai_tool) for tool in tools]
    return read_entries(
        converted, _read, kind="LangChain", source=source, skip_bad=skip_bad, on_faults=on_faults
    )


def to_langchain(tools: Sequence[Tool], call: Call, *, acall: AsyncCall | None = None) -> list[Any]:
    """Write tools as LangChain's `StructuredTool`.

    Args:
        tools: The tools; their names are those of `provider_names`.
        call: Runs a tool.
        acall: Runs a tool in an event loop; None uses `call` in a thread.

    Raises:
        DataError: If a tool is no JSON, or an id is there twice.
        MissingExtraError: If langchain-core is not installed.
    """
    core = import_extra("langchain_core.tools", user="sources.lists", extra="langchain")
    return [
        core.StructuredTool(
            name=name,
            description=tool.description or tool.name,
            args_schema=object_schema(tool),
            func=_bound(call, tool),
            coroutine=None if acall is None else _abound(acall, tool),
        )
        for name, tool in provider_names(tools).items()
    ]


class _Converted(dict[str, Any]):
    """An object that is converted when it is read, so that a failure is that of one entry."""

    def __init__(self, tool: Any, convert: Callable[[Any], Mapping[str, Any]]) -> None:
        super().__init__()
        self.tool, self.convert = tool, convert


def _read(entry: Mapping[str, Any], source: str | None) -> Tool:
    assert isinstance(entry, _Converted)
    try:
        function = _function(entry)
    except (TypeError, ValueError, KeyError, AttributeError) as e:
        msg = f"a tool must be one of LangChain, got {type(entry.tool).__name__}: {e}"
        raise EntryError(" ".join(msg.split())[:300]) from e
    return made(function, source=source, schema_field="parameters", extra={})


def _function(entry: _Converted) -> Mapping[str, Any]:
    """Name, description and schema. LangChain's own conversion loses what refers to itself."""
    schema = getattr(entry.tool, "tool_call_schema", None)
    if callable(model_schema := getattr(schema, "model_json_schema", None)):
        schema = model_schema()
    if not isinstance(schema, Mapping):
        function: Mapping[str, Any] = entry.convert(entry.tool)["function"]
        return function
    bare = {name: value for name, value in schema.items() if name not in ("title", "description")}
    return {
        "name": entry.tool.name,
        "description": entry.tool.description,
        "parameters": {"type": "object", **bare},
    }


def _bound(call: Call, tool: Tool) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        return call(tool, arguments)

    return run


def _abound(acall: AsyncCall, tool: Tool) -> Callable[..., Awaitable[Any]]:
    async def run(**arguments: Any) -> Any:
        return await acall(tool, arguments)

    return run
