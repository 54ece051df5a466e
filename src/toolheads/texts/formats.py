"""Named, versioned text formats. A format never changes: another text is another name.

The name of the format is part of every fingerprint, so that vectors of two formats cannot mix.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.texts.words import identifier_words

DEFAULT_TOOL_FORMAT = "tool/v1"
DEFAULT_QUERY_FORMAT = "query/v1"
DEFAULT_BUDGET = 6000
"""Characters of a tool's text. Long schemas beyond it say little that a query would ask for."""


@dataclass(frozen=True)
class TextSettings:
    """Which text an encoder reads for a tool and for a query."""

    tool_format: str = DEFAULT_TOOL_FORMAT
    query_format: str = DEFAULT_QUERY_FORMAT
    instruction: str = ""
    """Task sentence put before a query; empty for encoders that were trained without one."""
    budget: int = DEFAULT_BUDGET
    """Most characters of a tool's text, at least 1. The schema shrinks first, the name never."""

    def __post_init__(self) -> None:
        _known(self.tool_format, _TOOL_FORMATS, "tool_format")
        _known(self.query_format, _QUERY_FORMATS, "query_format")
        if self.budget < 1:
            msg = f"budget must be >= 1, got {self.budget}"
            raise ConfigError(msg)


def format_tool(tool: Tool, settings: TextSettings) -> str:
    """Write the whole text of a tool, never empty and within the budget if the name allows."""
    return _TOOL_FORMATS[settings.tool_format](tool, settings.budget)


def format_query(text: str, settings: TextSettings) -> str:
    """Write what the encoder reads for a query or for one clause of it."""
    return _QUERY_FORMATS[settings.query_format](text, settings.instruction)


def _tool_v1(tool: Tool, budget: int) -> str:
    """`server name: description`, then `Parameters: a: what a is; b: …` from the schema.

    Server and name are spelled as words: on the training queries of six public data sets this
    was better than the raw identifiers, see docs/log.md.
    """
    name = " ".join(identifier_words(part) for part in (tool.server, tool.name) if part)
    head = f"{name}: {_one_line(tool.description)}" if tool.description.strip() else name
    parameters = list(schema_parameters(tool.input_schema))
    for depth_of_detail in (_FULL, _FIRST_SENTENCE, _NAME_ONLY):
        listed = "; ".join(depth_of_detail(*parameter) for parameter in parameters)
        text = f"{head}\nParameters: {listed}" if listed else head
        if len(text) <= budget:
            return text
    return head if len(head) <= budget else head[: max(budget, len(name))]


def schema_parameters(schema: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """(name, description) of each top-level property; nothing where the schema is odd."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return
    for name, about in properties.items():
        described = about.get("description") if isinstance(about, Mapping) else None
        yield str(name), _one_line(described) if isinstance(described, str) else ""


def _FULL(name: str, description: str) -> str:  # noqa: N802  one of three named levels
    return f"{name}: {description}" if description else name


def _FIRST_SENTENCE(name: str, description: str) -> str:  # noqa: N802
    return _FULL(name, description.split(". ")[0])


def _NAME_ONLY(name: str, description: str) -> str:  # noqa: N802
    return name


def _tool_json(tool: Tool, budget: int) -> str:
    """Raw JSON, server first, as decoder embedders were measured best on by others."""
    names = {"server": tool.server} if tool.server else {}
    names |= {"name": tool.name}
    fields: dict[str, Any] = names | {"description": tool.description}
    for schema in (tool.input_schema, _flat_schema(tool.input_schema)):
        text = _to_json(fields | {"inputSchema": schema}) if schema else _to_json(fields)
        if len(text) <= budget:
            return text
    # The comma and the space after the names stay, the closing brace goes.
    return _to_json(fields)[: max(budget, len(_to_json(names)) + 1)]


def _tool_sentence(tool: Tool, budget: int) -> str:
    """`name with spaces. description. parameters: a, b`, the text of the promptforge tool picker.

    Kept to the letter, since thresholds that were measured on it depend on it: underscores of the
    name alone become spaces, the description stays as it is, top-level parameters are sorted.
    """
    listed = ", ".join(sorted(name for name, _ in schema_parameters(tool.input_schema)))
    name = tool.name.replace("_", " ")
    parts = (name, tool.description, f"parameters: {listed}" if listed else "")
    text = ". ".join(part for part in parts if part)
    return text[: max(budget, len(name))] if text.strip() else tool.name


def _to_json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, default=str)


def _flat_schema(schema: Mapping[str, Any] | None) -> dict[str, str]:
    return dict(schema_parameters(schema))


def _query_v1(text: str, instruction: str) -> str:
    """The text alone, or in the form instruction-tuned embedders are trained on."""
    return f"Instruct: {instruction}\nQuery:{text}" if instruction else text


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _known(name: str, formats: Mapping[str, object], setting: str) -> None:
    if name not in formats:
        msg = f"{setting} must be one of {', '.join(sorted(formats))}, got {name!r}"
        raise ConfigError(msg)


_TOOL_FORMATS: Mapping[str, Callable[[Tool, int], str]] = {
    "tool/v1": _tool_v1,
    "tool-json/v1": _tool_json,
    "tool-sentence/v1": _tool_sentence,
}
_QUERY_FORMATS: Mapping[str, Callable[[str, str], str]] = {"query/v1": _query_v1}
