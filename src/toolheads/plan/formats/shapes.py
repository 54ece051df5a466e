"""What a JSON Schema says of a value, in the few words that a type of a language has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from toolheads.texts.untrusted import one_line

_MOST_LEVELS = 6
"""Deeper types are left open: nobody reads them in a prompt."""

_MOST_LITERALS = 40

Simple = Literal["string", "integer", "number", "boolean", "null"]
Kind = Simple | Literal["any", "array", "object", "union", "literals"]

_SIMPLE: Mapping[str, Simple] = {name: name for name in get_args(Simple)}


@dataclass(frozen=True)
class Shape:
    """A type."""

    kind: Kind
    of: tuple[Shape, ...] = ()
    """Item of an array, options of a union."""
    fields: tuple[Field, ...] = ()
    """Of an object; none where it may have any."""
    literals: tuple[Any, ...] = ()
    """JSON values without parts: strings, numbers, booleans, null."""


@dataclass(frozen=True)
class Field:
    """A parameter, or a field of an object."""

    name: str
    shape: Shape
    is_required: bool
    description: str = ""
    """As it was written, with its line breaks."""
    default: Any = None
    has_default: bool = False

    @property
    def line(self) -> str:
        """The description on one line."""
        return one_line(self.description)


ANY = Shape("any")


def parameters_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """The parameters of a tool, in the order of its schema."""
    return _fields(schema, schema, _MOST_LEVELS)


def _shape(schema: Any, root: Mapping[str, Any], levels: int) -> Shape:
    if not isinstance(schema, Mapping) or levels == 0:
        return ANY
    if isinstance(schema.get("$ref"), str):
        return _shape(_resolved(schema["$ref"], root), root, levels - 1)
    literals = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(literals, list) and literals and all(map(_has_no_parts, literals)):
        return Shape("literals", literals=tuple(literals[:_MOST_LITERALS]))
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list) and schema[keyword]:
            return _union([_shape(option, root, levels - 1) for option in schema[keyword]])
    if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
        return _shape(schema["allOf"][0], root, levels - 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([_shape({**schema, "type": k}, root, levels - 1) for k in kind])
    if kind == "array":
        return Shape("array", (_shape(schema.get("items"), root, levels - 1),))
    if kind == "object" or (kind is None and "properties" in schema):
        return Shape("object", fields=_fields(schema, root, levels - 1))
    return Shape(_SIMPLE[kind]) if isinstance(kind, str) and kind in _SIMPLE else ANY


def _fields(schema: Mapping[str, Any], root: Mapping[str, Any], levels: int) -> tuple[Field, ...]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return ()
    needed = required if isinstance(required, list) else []
    fields = []
    for name, about in properties.items():
        said = about if isinstance(about, Mapping) else {}
        described = said.get("description")
        fields.append(
            Field(
                str(name),
                _shape(about, root, levels),
                name in needed,
                described if isinstance(described, str) else "",
                said.get("default"),
                "default" in said,
            )
        )
    return tuple(fields)


def _union(options: list[Shape]) -> Shape:
    different = tuple({repr(option): option for option in options}.values())
    if not different or ANY in different:
        return ANY
    return different[0] if len(different) == 1 else Shape("union", different)


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    """What a reference within the schema points at; None for any other."""
    found: Any = root
    if not reference.startswith("#"):
        return None
    for step in reference[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _has_no_parts(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
