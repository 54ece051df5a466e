"""Schemas of a description as JSON Schema 2020-12, their references kept as `$defs`.

A schema that is used a thousand times is converted once. One that refers to itself stays one
definition, so recursion and fan-out cost nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolheads.data.jsonl import shown
from toolheads.sources.openapi.document import Document, OperationError
from toolheads.sources.openapi.keywords import is_well_formed

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LOOKS_HASHED = re.compile(r"___[0-9a-f]{16}$")
_COMPONENT = "#/components/schemas/"
_MOST_HOPS = 32

_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_SINGLE = (
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "unevaluatedItems",
    "not",
    "if",
    "then",
    "else",
)


@dataclass(frozen=True)
class _Definition:
    schema: Any
    needs: tuple[str, ...]
    """References in it, in order."""
    size: int
    """Characters as JSON."""


class Definitions:
    """Converts the schemas of one document. What only answers show (`readOnly`) is left out."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._made: dict[str, _Definition | OperationError] = {}

    def converted(self, schema: Any, needs: dict[str, None]) -> Any:
        """One schema; the references in it are added to `needs`, in order.

        Raises:
            OperationError: If it is no schema.
        """
        return self._converted(schema, needs, frozenset())

    def closure(
        self, needs: Iterable[str], *, most_characters: float = math.inf
    ) -> tuple[dict[str, Any], bool]:
        """Name → schema of all definitions that references lead to, nearest first.

        Args:
            needs: References.
            most_characters: Beyond these, definitions take anything and lead nowhere.

        Returns:
            The definitions, and whether some take anything for that reason.

        Raises:
            OperationError: If one of them leads out of the document, nowhere, or to no schema.
        """
        found: dict[str, Any] = {}
        size, is_cut = 0, False
        level = list(needs)
        while level:
            next_level: list[str] = []
            for reference in level:
                name = definition_name(reference)
                if name in found:
                    continue
                definition = self._definition(reference)
                size += definition.size
                if size > most_characters:
                    found[name], is_cut = {}, True
                else:
                    found[name] = definition.schema
                    next_level += definition.needs
            level = next_level
        return found, is_cut

    def target(self, schema: Any) -> Any:
        """A schema, references followed.

        Raises:
            OperationError: If they lead nowhere or in a circle.
        """
        for _ in range(_MOST_HOPS):
            if not (isinstance(schema, Mapping) and "$ref" in schema):
                return schema
            schema = self._document.at(schema["$ref"])
        raise OperationError("a schema must be at the end of its references, got a circle")

    def is_plain_reference(self, schema: Any) -> bool:
        """Whether nothing counts that stands beside a schema's `$ref`, if it has one."""
        if not isinstance(schema, Mapping) or "$ref" not in schema or self._document.is_3_0:
            return True
        return schema.keys() <= {"$ref", "title", "description"}

    def _definition(self, reference: str) -> _Definition:
        made = self._made.get(reference)
        if made is None:
            needs: dict[str, None] = {}
            try:
                schema = self._document.at(reference)
                self.target(schema)
                converted = self._converted(schema, needs, frozenset())
                made = _Definition(converted, tuple(needs), len(json.dumps(converted)))
            except OperationError as e:
                made = OperationError(f"{reference}: {e}")
            self._made[reference] = made
        if isinstance(made, OperationError):
            raise made
        return made

    def _converted(self, schema: Any, needs: dict[str, None], hidden: frozenset[str]) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            msg = f"a schema must be an object, got {shown(schema)}"
            raise OperationError(msg)
        hidden |= self._read_only(schema, set())
        copy: dict[str, Any] = {}
        reference = schema.get("$ref")
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            raise OperationError("a schema must refer to others by $ref, got $dynamicRef")
        if "$ref" in schema:
            self._document.at(reference)
            needs[str(reference)] = None
            copy["$ref"] = f"#/$defs/{definition_name(str(reference))}"
        is_alone = "$ref" in schema and self._document.is_3_0  # what stands beside it is ignored
        for keyword, value in schema.items():
            if is_alone and keyword not in ("description", "title"):
                continue
            if keyword in _LISTS:
                copy[keyword] = self._list(keyword, value, needs, hidden)
            elif keyword in _MAPS:
                copy[keyword] = self._map(keyword, value, needs, hidden)
            elif keyword in _SINGLE:
                copy[keyword] = self._converted(value, needs, frozenset())
            elif keyword == "required" and isinstance(value, list):
                if required := [n for n in value if isinstance(n, str) and n not in hidden]:
                    copy[keyword] = list(dict.fromkeys(required))
            elif is_well_formed(keyword, value):
                copy[keyword] = value
        _add_example(copy, schema)
        _convert_bounds(copy, schema)
        return _with_null(copy) if schema.get("nullable") is True else copy

    def _list(
        self, keyword: str, value: Any, needs: dict[str, None], hidden: frozenset[str]
    ) -> list[Any]:
        if not (isinstance(value, list) and value):
            msg = f"{keyword} must be a list of schemas, got {shown(value)}"
            raise OperationError(msg)
        passed = hidden if keyword == "allOf" else frozenset()
        return [self._converted(inner, needs, passed) for inner in value]

    def _map(
        self, keyword: str, value: Any, needs: dict[str, None], hidden: frozenset[str]
    ) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            msg = f"{keyword} must map names to schemas, got {shown(value)}"
            raise OperationError(msg)
        return {
            name: self._converted(inner, needs, frozenset())
            for name, inner in value.items()
            if not (keyword == "properties" and name in hidden)
        }

    def _read_only(self, schema: Mapping[str, Any], seen: set[int]) -> frozenset[str]:
        """Names of the properties that only answers have, those of `allOf` included.

        Each schema is looked at once, however often `allOf` leads to it.
        """
        names: frozenset[str] = frozenset()
        if id(schema) in seen:
            return names
        seen.add(id(schema))
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            names |= {n for n, inner in properties.items() if self._is_read_only(inner, set())}
        members = schema.get("allOf")
        if isinstance(members, list):
            for member in members:
                target = self.target(member)
                if isinstance(target, Mapping):
                    names |= self._read_only(target, seen)
        return names

    def _is_read_only(self, schema: Any, seen: set[int]) -> bool:
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return False
        seen.add(id(schema))
        if schema.get("readOnly") is True:
            return True
        if "$ref" in schema:
            return self._is_read_only(self._document.at(schema["$ref"]), seen)
        members = schema.get("allOf")
        return isinstance(members, list) and any(self._is_read_only(m, seen) for m in members)


@lru_cache(maxsize=65_536)
def definition_name(reference: str) -> str:
    """The name of a definition: that of the component, else one made of the whole reference.

    Two references never make one name.
    """
    name = reference.removeprefix(_COMPONENT)
    if name != reference and _PLAIN_NAME.fullmatch(name) and not _LOOKS_HASHED.search(name):
        return name
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2])[:40].strip("_")
    return f"{readable or 'schema'}___{hashlib.sha256(reference.encode()).hexdigest()[:16]}"


def _add_example(copy: dict[str, Any], schema: Mapping[str, Any]) -> None:
    if "example" in schema and "examples" not in copy and "$ref" not in copy:
        copy["examples"] = [schema["example"]]


def _convert_bounds(copy: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Bounds of OpenAPI 3.0, where `exclusiveMinimum` is a boolean beside `minimum`."""
    for exclusive, inclusive in (
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ):
        if schema.get(exclusive) is True and inclusive in copy:
            copy[exclusive] = copy.pop(inclusive)


def _with_null(copy: dict[str, Any]) -> dict[str, Any]:
    """A schema that also takes null, as `nullable` of OpenAPI 3.0 says."""
    kind = copy.get("type")
    if kind is not None:
        kinds = kind if isinstance(kind, list) else [kind]
        copy["type"] = list(dict.fromkeys([*kinds, "null"]))
        if "enum" in copy and None not in copy["enum"]:
            copy["enum"] = [*copy["enum"], None]
        if "const" in copy:
            copy["enum"] = [copy.pop("const"), None]
        return copy
    if not any(name in copy for name in ("$ref", "allOf", "anyOf", "oneOf", "enum", "const")):
        return copy
    outer = {name: copy.pop(name) for name in ("title", "description") if name in copy}
    return outer | {"anyOf": [copy, {"type": "null"}]}
