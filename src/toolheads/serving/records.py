"""Tools as clients see them, and tools that clients send."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Literal

from toolheads.catalogue import api_name
from toolheads.domain import Tool
from toolheads.serving.api_error import ApiError
from toolheads.serving.shortening import shortened

MOST_DESCRIPTION = 1_500
"""Characters of a description in the answer of a search; a model reads every one of them."""

Schemas = Literal["short", "full", "none"]


class FoundRecords:
    """Tools as the answers of searches have them.

    Those found last are kept: to shorten a large schema takes as long as to rank. Used from one
    thread.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int = 1_024) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, Schemas], tuple[Tool, dict[str, Any]]] = OrderedDict()

    def of(self, tool: Tool, score: float, schemas: Schemas) -> dict[str, Any]:
        """As `found_record`."""
        key = id(tool), schemas
        kept = self._kept.get(key)
        if kept is None or kept[0] is not tool:
            kept = self._kept[key] = tool, found_record(tool, score, schemas)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept[1] | {"score": score}


def found_record(tool: Tool, score: float, schemas: Schemas) -> dict[str, Any]:
    """A tool in the answer of a search."""
    record = _record(tool) | {"score": score}
    if schemas != "full" and len(tool.description) > MOST_DESCRIPTION:
        record["description"] = tool.description[: MOST_DESCRIPTION - 1] + "…"
    if schemas != "none":
        record |= _schema(tool, is_short=schemas == "short")
    return record


def full_record(tool: Tool) -> dict[str, Any]:
    """Everything about a tool that a client may know."""
    record = _record(tool) | _schema(tool, is_short=False)
    for name in ("title", "output_schema"):
        if value := tool.extra.get(name):
            record[name] = value
    http = tool.extra.get("http")
    if isinstance(http, Mapping):
        record["http"] = {name: http[name] for name in ("method", "path") if name in http}
    return record


def listed_record(tool: Tool) -> dict[str, Any]:
    """A tool in a list without schemas."""
    return _record(tool)


def given_tools(records: list[Mapping[str, Any]]) -> list[Tool]:
    """Tools that a client sent, in its order; ids are places in its list.

    Raises:
        ApiError: `invalid_argument`, if a field has the wrong type.
    """
    return [_given(place, record) for place, record in enumerate(records)]


def _given(place: int, record: Mapping[str, Any]) -> Tool:
    function = record.get("function")
    fields = function if isinstance(function, Mapping) else record
    schema = next((fields[name] for name in _SCHEMA_NAMES if fields.get(name) is not None), None)
    description = fields.get("description") or ""
    server = record.get("server")
    for name, value, kind, rule in (
        ("description", description, str, "a string"),
        ("input_schema", schema, (Mapping, type(None)), "an object"),
        ("server", server, (str, type(None)), "a string"),
    ):
        if not isinstance(value, kind):
            msg = f"tools[{place}].{name} must be {rule}, got {type(value).__name__}"
            raise ApiError("invalid_argument", msg)
    return Tool(str(place), fields["name"], server or None, description, schema)


_SCHEMA_NAMES = ("input_schema", "inputSchema", "parameters")


def _record(tool: Tool) -> dict[str, Any]:
    kind = tool.extra.get("kind")
    record: dict[str, Any] = {
        "id": tool.id,
        "api_name": api_name(tool.id),
        "name": tool.name,
        "server": tool.server,
        "kind": kind if isinstance(kind, str) else "tools",
        "description": tool.description,
    }
    annotations = tool.extra.get("annotations")
    return record | ({"annotations": annotations} if isinstance(annotations, Mapping) else {})


def _schema(tool: Tool, *, is_short: bool) -> dict[str, Any]:
    if tool.input_schema is None or not is_short:
        return {"input_schema": tool.input_schema}
    short = shortened(tool.input_schema)
    if short is tool.input_schema:
        return {"input_schema": short}
    return {"input_schema": short, "input_schema_is_short": True}
