"""Tools as Anthropic's Messages API lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolheads.data.files import OnFaults
from toolheads.data.jsonl import shown
from toolheads.domain import Tool
from toolheads.sources.lists.entries import EntryError, made, read_entries, rest
from toolheads.sources.lists.naming import kept_fields, object_schema, provider_names

_FIELDS = ("name", "description", "input_schema")


def from_anthropic(
    tools: Any,
    *,
    source: str | None = None,
    skip_bad: bool = False,
    on_faults: OnFaults | None = None,
) -> list[Tool]:
    """Read tools as they are sent to Anthropic.

    Args:
        tools: The list. Tools that Anthropic defines itself (`bash_20250124`) have no schema and
            count as faults.
        source: `server` of each tool; None for none.
        skip_bad: Leave out entries with faults.
        on_faults: Told what `skip_bad` left out.

    Raises:
        DataError: If an entry has a fault and `skip_bad` is off.
    """
    return read_entries(
        tools, _read, kind="Anthropic", source=source, skip_bad=skip_bad, on_faults=on_faults
    )


def to_anthropic(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Write tools for Anthropic's Messages API.

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
        entry["input_schema"] = object_schema(tool)
        listed.append(kept_fields(tool, "anthropic", entry))
    return listed


def _read(entry: Mapping[str, Any], source: str | None) -> Tool:
    kind = entry.get("type", "custom")
    if kind not in ("custom", None):
        msg = f"type must be custom, got {shown(kind)}"
        raise EntryError(msg)
    more = rest(entry, *_FIELDS)
    return made(
        entry,
        source=source,
        schema_field="input_schema",
        extra={"anthropic": more} if more else {},
    )
