"""What goes out with a tool: a name that providers take, and a schema that is one of an object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolheads.catalogue.names import api_name
from toolheads.data.jsonl import LineError, parse_object, shown, to_line
from toolheads.domain import Tool
from toolheads.errors import DataError

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def provider_names(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Name → tool, in the order of the tools; every name is `[A-Za-z0-9_-]{1,64}`.

    A tool of no source keeps its own name where that fits and no tool of a source has it. Any
    other has that of `toolheads.catalogue.api_name`.

    Raises:
        DataError: If two tools have the same id.
    """
    by_id = {tool.id: tool for tool in tools}
    if len(by_id) < len(tools):
        ids = [tool.id for tool in tools]
        twice = next(tool_id for tool_id in ids if ids.count(tool_id) > 1)
        msg = f"tools must have ids of their own, got {shown(twice)} twice"
        raise DataError(msg)
    taken = {api_name(tool.id) for tool in tools}
    names: dict[str, Tool] = {}
    for tool in tools:
        fallback = api_name(tool.id)
        keeps = tool.server is None and _PLAIN.fullmatch(tool.name) and tool.id == tool.name
        is_free = tool.name == fallback or tool.name not in taken
        names[tool.name if keeps and is_free else fallback] = tool
    return names


def object_schema(tool: Tool) -> dict[str, Any]:
    """The schema of a tool's arguments as plain JSON; it says that they are an object.

    Raises:
        DataError: If it is no JSON.
    """
    schema: Mapping[str, Any] = tool.input_schema or {}
    if "type" not in schema:
        schema = {"type": "object", **schema}
    if schema == {"type": "object"}:
        schema = {"type": "object", "properties": {}}
    return as_json(schema, tool)


def as_json(value: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """A copy made of JSON values alone.

    Raises:
        DataError: If there is something else in it, NaN included.
    """
    try:
        return parse_object(to_line(value))
    except LineError as e:
        msg = f"{shown(tool.id)} must be JSON to be listed: {e}"
        raise DataError(msg) from e


def kept_fields(tool: Tool, origin: str, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with the fields that came with the tool in the same kind of list.

    Raises:
        DataError: If they are no JSON.
    """
    fields = tool.extra.get(origin)
    kept = as_json(fields, tool) if isinstance(fields, Mapping) else {}
    return entry | {name: value for name, value in kept.items() if name not in entry}
