"""Tools as OpenAI's APIs list them, in the form of Responses and in that of Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from toolheads.data.files import OnFaults
from toolheads.data.jsonl import shown
from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.sources.lists.entries import EntryError, made, read_entries, rest
from toolheads.sources.lists.naming import kept_fields, object_schema, provider_names

Form = Literal["chat", "responses"]

_FIELDS = ("type", "name", "description", "parameters")


def from_openai(
    tools: Any,
    *,
    source: str | None = None,
    skip_bad: bool = False,
    on_faults: OnFaults | None = None,
) -> list[Tool]:
    """Read tools as they are sent to OpenAI; both forms, also mixed.

    Args:
        tools: The list. Tools that OpenAI runs itself (`web_search`) are no functions and count
            as faults.
        source: `server` of each tool; None for none.
        skip_bad: Leave out entries with faults.
        on_faults: Told what `skip_bad` left out.

    Raises:
        DataError: If an entry has a fault and `skip_bad` is off.
    """
    return read_entries(
        tools, _read, kind="OpenAI", source=source, skip_bad=skip_bad, on_faults=on_faults
    )


def to_openai(tools: Sequence[Tool], *, form: Form = "chat") -> list[dict[str, Any]]:
    """Write tools for OpenAI's APIs, and for the many that are compatible with them.

    Args:
        tools: The tools; their names are those of `provider_names`.
        form: `chat` nests each tool in `function`, `responses` does not.

    Raises:
        ConfigError: If there is no such form.
        DataError: If a tool is no JSON, or an id is there twice.
    """
    if form not in ("chat", "responses"):
        msg = f"form must be chat or responses, got {form!r}"
        raise ConfigError(msg)
    listed = []
    for name, tool in provider_names(tools).items():
        function: dict[str, Any] = {"name": name}
        if tool.description:
            function["description"] = tool.description
        function["parameters"] = object_schema(tool)
        function = kept_fields(tool, "openai", function)
        flat = {"type": "function", **function}
        listed.append(flat if form == "responses" else {"type": "function", "function": function})
    return listed


def _read(entry: Mapping[str, Any], source: str | None) -> Tool:
    kind = entry.get("type", "function")
    if kind != "function":
        msg = f"type must be function, got {shown(kind)}"
        raise EntryError(msg)
    outer: dict[str, Any] = {}
    function: Any = entry
    if "function" in entry:
        function, outer = entry["function"], rest(entry, "type", "function")
        if not isinstance(function, Mapping):
            msg = f"function must be an object, got {shown(function)}"
            raise EntryError(msg)
    more = outer | rest(function, *_FIELDS)
    return made(
        function,
        source=source,
        schema_field="parameters",
        extra={"openai": more} if more else {},
    )
