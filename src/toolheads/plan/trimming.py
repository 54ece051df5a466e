"""Tools without the descriptions of some of their optional parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from toolheads.domain import Tool


def optional_descriptions(
    tools: Sequence[Tool], ranking: Sequence[int] | None = None
) -> list[tuple[int, str]]:
    """(row, parameter) of each description that a tool can do without, the first to go first.

    Those are the descriptions of parameters at the top level that are not required.

    Args:
        tools: The catalogue.
        ranking: Its rows, best first: those of the last tools go first, and within a tool the
            longest. None takes the longest of all first, equal ones from the end of the alphabet.
    """
    found = [
        (row, name, description)
        for row, tool in enumerate(tools)
        for name, description in _optional(tool)
    ]
    place = {row: place for place, row in enumerate(ranking or ())}

    def goes_first(item: tuple[int, str, str]) -> tuple[int, int, str, str]:
        row, name, description = item
        return place.get(row, 0), len(description), tools[row].name, name

    return [(row, name) for row, name, _ in sorted(found, key=goes_first, reverse=True)]


def without_descriptions(tool: Tool, parameters: Collection[str]) -> Tool:
    """A tool whose named parameters have no description; the tool itself for none."""
    if not parameters:
        return tool
    schema = tool.input_schema or {}
    properties = {
        name: {k: v for k, v in about.items() if k != "description"}
        if name in parameters
        else about
        for name, about in schema["properties"].items()
    }
    return dataclasses.replace(tool, input_schema={**schema, "properties": properties})


def _optional(tool: Tool) -> Iterator[tuple[str, str]]:
    schema: Mapping[str, Any] = tool.input_schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return
    needed = required if isinstance(required, list) else []
    for name, about in properties.items():
        said = about.get("description") if isinstance(about, Mapping) else None
        if name not in needed and isinstance(said, str) and said:
            yield name, said
