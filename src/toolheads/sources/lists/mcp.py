"""Tools as a server of the Model Context Protocol lists them (the result of `tools/list`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolheads.data.files import OnFaults
from toolheads.data.jsonl import shown
from toolheads.domain import Tool
from toolheads.errors import DataError
from toolheads.sources.lists.entries import EntryError, as_object, made, read_entries, rest
from toolheads.sources.lists.naming import as_json, kept_fields, object_schema, provider_names

_FIELDS = ("name", "description", "inputSchema")
_NAMED = {"title": "title", "annotations": "annotations", "outputSchema": "output_schema"}
"""Field on the wire → field of `extra`."""


def from_mcp(
    listed: Any,
    *,
    source: str | None = None,
    skip_bad: bool = False,
    on_faults: OnFaults | None = None,
) -> list[Tool]:
    """Read the tools of a `tools/list` result.

    Args:
        listed: The result, its `tools` alone, or the same as models of the SDK.
        source: `server` of each tool; None for none.
        skip_bad: Leave out entries with faults.
        on_faults: Told what `skip_bad` left out.

    Raises:
        DataError: If an entry has a fault and `skip_bad` is off.
    """
    entries = listed
    if isinstance(listed, Mapping) or hasattr(listed, "model_dump"):
        try:
            entries = as_object(listed).get("tools")
        except EntryError as e:
            raise DataError(str(e)) from e
    return read_entries(
        entries, _read, kind="MCP", source=source, skip_bad=skip_bad, on_faults=on_faults
    )


def to_mcp(tools: Sequence[Tool]) -> dict[str, Any]:
    """Write tools as the result of `tools/list`.

    Args:
        tools: The tools; their names are those of `provider_names`.

    Raises:
        DataError: If a tool is no JSON, or an id is there twice.
    """
    listed = []
    for name, tool in provider_names(tools).items():
        entry: dict[str, Any] = {"name": name}
        if tool.description:
            entry["description"] = tool.description
        entry["inputSchema"] = object_schema(tool)
        there = {wire: tool.extra[field] for wire, field in _NAMED.items() if field in tool.extra}
        listed.append(kept_fields(tool, "mcp", entry | as_json(there, tool)))
    return {"tools": listed}


def _read(entry: Mapping[str, Any], source: str | None) -> Tool:
    if not isinstance(entry.get("inputSchema", {}), Mapping):
        msg = f"inputSchema must be an object, got {shown(entry['inputSchema'])}"
        raise EntryError(msg)
    extra = {field: entry[wire] for wire, field in _NAMED.items() if wire in entry}
    if more := rest(entry, *_FIELDS, *_NAMED):
        extra["mcp"] = more
    return made(entry, source=source, schema_field="inputSchema", extra=extra)
