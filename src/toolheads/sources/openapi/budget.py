"""Fitting a tool into a size: examples go first, then words, then the shape of what lies deepest.

What is left is always a valid schema that takes whatever the whole one takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolheads.sources.openapi.document import OperationError
from toolheads.sources.schemas import with_children

DEFAULT_BYTES = 16_000
"""Bytes of a tool's description and schema as JSON, about 4,000 tokens."""

LEAST_BYTES = 500

_WORDS = (300, 120, 40, 0)
"""Characters that are left of a description inside a schema, one try after the other."""

_TOOL_WORDS = 2_000
"""Characters that are left of the tool's own description where the size does not do."""


@dataclass(frozen=True)
class Fitted:
    """A tool of a size, and what that took."""

    description: str
    schema: dict[str, Any]
    trimmed: tuple[str, ...]
    """Of `examples`, `descriptions`, `definitions`, `properties`; what is cut or left out."""


def fitted(description: str, schema: dict[str, Any], *, most_bytes: int) -> Fitted:
    """A tool that takes at most so many bytes.

    Args:
        description: The tool's own.
        schema: Of its arguments.
        most_bytes: Of both together, as JSON.

    Raises:
        OperationError: If even the names of the arguments take more.
    """
    draft = _Draft(description, schema, most_bytes)
    if draft.fits():
        return draft.fitted()
    draft.change("examples", lambda inner: _without(inner, "examples"))
    for most in _WORDS:
        if draft.fits():
            return draft.fitted()
        draft.change("descriptions", partial(_shortened, most=most))
    if not draft.fits():
        draft.shorten_description()
    draft.drop_definitions()
    draft.drop_properties()
    if not draft.fits():
        msg = f"its description and schema must fit {most_bytes:,} bytes, got {draft.size():,}"
        raise OperationError(msg)
    return draft.fitted()


class _Draft:
    def __init__(self, description: str, schema: dict[str, Any], most_bytes: int) -> None:
        self.description, self.schema, self.most_bytes = description, schema, most_bytes
        self.trimmed: list[str] = []

    def size(self) -> int:
        return _size(self.description) + _size(self.schema)

    def fits(self) -> bool:
        return self.size() <= self.most_bytes

    def fitted(self) -> Fitted:
        return Fitted(self.description, self.schema, tuple(dict.fromkeys(self.trimmed)))

    def change(self, what: str, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        """Change the schema and each one inside it."""

        def deep(inner: Mapping[str, Any]) -> dict[str, Any]:
            return with_children(change(inner), deep)

        changed = deep(self.schema)
        if changed != self.schema:
            self.schema = changed
            self.trimmed.append(what)

    def shorten_description(self) -> None:
        if len(self.description) > _TOOL_WORDS:
            self.description = _cut(self.description, _TOOL_WORDS)
            self.trimmed.append("descriptions")

    def drop_definitions(self) -> None:
        """Let the definitions farthest from the arguments take anything, until the rest fits."""
        definitions: dict[str, Any] = dict(self.schema.get("$defs", {}))
        over = self.size() - self.most_bytes
        for name in reversed(definitions):
            if over <= 0:
                break
            over -= _size(definitions[name]) - 2
            definitions[name] = {}
        if definitions != self.schema.get("$defs", {}):
            self.trimmed.append("definitions")
            self.schema = _without_unused(self.schema | {"$defs": definitions})

    def drop_properties(self) -> None:
        """Let the largest arguments take anything, until the rest fits."""
        properties: dict[str, Any] = dict(self.schema.get("properties", {}))
        for name in sorted(properties, key=lambda name: -_size(properties[name])):
            if self.fits():
                break
            properties[name] = {}
            self.trimmed.append("properties")
            self.schema = _without_unused(self.schema | {"properties": properties})


def _without(schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != keyword}


def _shortened(schema: Mapping[str, Any], most: int) -> dict[str, Any]:
    if most == 0:
        return _without(_without(schema, "description"), "title")
    text = schema.get("description")
    if isinstance(text, str) and len(text) > most:
        return {**schema, "description": _cut(text, most)}
    return dict(schema)


def _cut(text: str, most: int) -> str:
    """The start of a text, up to the end of a word."""
    if len(text) <= most:
        return text
    start = text[: most - 1]
    at_word, _, _ = start.rpartition(" ")
    return (at_word if len(at_word) > most // 2 else start).rstrip() + "…"


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without the definitions that nothing leads to any more."""
    definitions = schema.get("$defs", {})
    used: dict[str, Any] = {}
    queue = [{name: value for name, value in schema.items() if name != "$defs"}]
    while queue:
        for name in _references(queue.pop()):
            if name in definitions and name not in used:
                used[name] = definitions[name]
                queue.append(definitions[name])
    kept = {name: value for name, value in definitions.items() if name in used}
    rest = _without(schema, "$defs")
    return rest | {"$defs": kept} if kept else rest


def _references(schema: Any) -> list[str]:
    """Names of the definitions that a schema leads to directly."""
    found: list[str] = []

    def look(inner: Mapping[str, Any]) -> Mapping[str, Any]:
        reference = inner.get("$ref")
        if isinstance(reference, str):
            found.append(reference.removeprefix("#/$defs/"))
        with_children(inner, look)
        return inner

    if isinstance(schema, Mapping):
        look(schema)
    return found


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))
