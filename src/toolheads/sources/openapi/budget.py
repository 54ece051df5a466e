"""Fitting a tool into a size: examples go first, then words, then the shape of what lies deepest.

What is left is always a valid schema that takes whatever the whole one takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
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


class Trimmer:
    """Fits the tools of one description; what their definitions become is worked out once."""

    def __init__(self, most_bytes: int) -> None:
        """Keep a size.

        Args:
            most_bytes: Of a tool's description and schema together, as JSON.
        """
        self.most_bytes = most_bytes
        self._changed: dict[tuple[int, int | None], tuple[Any, Any]] = {}
        self._sizes: dict[int, tuple[Any, int]] = {}

    def fitted(self, description: str, schema: Mapping[str, Any]) -> Fitted:
        """A tool of that size.

        Args:
            description: The tool's own.
            schema: Of its arguments.

        Raises:
            OperationError: If even the names of the arguments take more.
        """
        draft = _Draft(self, description, schema)
        if draft.fits():
            return draft.fitted()
        draft.change("examples", None)
        for most in _WORDS:
            if draft.fits():
                return draft.fitted()
            draft.change("descriptions", most)
        if not draft.fits():
            draft.shorten_description()
        draft.drop_definitions()
        draft.drop_properties()
        if not draft.fits():
            got = draft.size()
            msg = f"its description and schema must fit {self.most_bytes:,} bytes, got {got:,}"
            raise OperationError(msg)
        return draft.fitted()

    def changed(self, definition: Any, most: int | None) -> Any:
        """A definition without examples (None), or with at most so many characters of words."""
        key = (id(definition), most)
        if key not in self._changed:  # kept with what it was made of, so that no id is used again
            self._changed[key] = (definition, _deep(definition, most))
        return self._changed[key][1]

    def size(self, definition: Any) -> int:
        """Bytes of a definition."""
        if id(definition) not in self._sizes:
            self._sizes[id(definition)] = (definition, _size(definition))
        return self._sizes[id(definition)][1]


class _Draft:
    """A tool on its way to a size; definitions apart from the rest, since tools share them."""

    def __init__(self, trimmer: Trimmer, description: str, schema: Mapping[str, Any]) -> None:
        self.trimmer, self.description = trimmer, description
        self.rest = _without(schema, "$defs")
        self.definitions: dict[str, Any] = dict(schema.get("$defs", {}))
        self.trimmed: dict[str, None] = {}

    def size(self) -> int:
        whole = _size(self.description) + _size(self.rest)
        if self.definitions:
            whole += len(', "$defs": {}')
        for name, definition in self.definitions.items():
            whole += len(f'"{name}": , ') + self.trimmer.size(definition)  # names are ASCII
        return whole

    def fits(self) -> bool:
        return self.size() <= self.trimmer.most_bytes

    def fitted(self) -> Fitted:
        schema = self.rest | {"$defs": self.definitions} if self.definitions else self.rest
        return Fitted(self.description, schema, tuple(self.trimmed))

    def change(self, what: str, most: int | None) -> None:
        """Change the schema and each one inside it."""
        rest = _deep(self.rest, most)
        definitions = {n: self.trimmer.changed(d, most) for n, d in self.definitions.items()}
        if rest != self.rest or any(d is not definitions[n] for n, d in self.definitions.items()):
            self.trimmed[what] = None
        self.rest, self.definitions = rest, definitions

    def shorten_description(self) -> None:
        if len(self.description) > _TOOL_WORDS:
            self.description = _cut(self.description, _TOOL_WORDS)
            self.trimmed["descriptions"] = None

    def drop_definitions(self) -> None:
        """Let the definitions farthest from the arguments take anything, until the rest fits."""
        over = self.size() - self.trimmer.most_bytes
        for name in reversed(list(self.definitions)):
            if over <= 0:
                break
            over -= self.trimmer.size(self.definitions[name]) - len("{}")
            self.definitions[name] = {}
            self.trimmed["definitions"] = None
        self._drop_unused()

    def drop_properties(self) -> None:
        """Let the largest arguments take anything, until the rest fits."""
        properties: dict[str, Any] = dict(self.rest.get("properties", {}))
        for name in sorted(properties, key=lambda name: -_size(properties[name])):
            if self.fits():
                break
            properties[name] = {}
            self.trimmed["properties"] = None
            self.rest = self.rest | {"properties": properties}
            self._drop_unused()

    def _drop_unused(self) -> None:
        """Leave out definitions that nothing leads to any more."""
        used: set[str] = set()
        queue: list[Any] = [self.rest]
        while queue:
            for name in _references(queue.pop()):
                if name in self.definitions and name not in used:
                    used.add(name)
                    queue.append(self.definitions[name])
        self.definitions = {n: d for n, d in self.definitions.items() if n in used}


def _deep(schema: Any, most: int | None) -> Any:
    """A schema whose words are cut at every level; the same object where nothing is to cut."""
    if not isinstance(schema, Mapping):
        return schema
    if most is None:
        changed = _without(schema, "examples") if "examples" in schema else schema
    else:
        changed = _shortened(schema, most)
    copy = with_children(changed, lambda inner: _deep(inner, most))
    return schema if copy == schema else copy


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
