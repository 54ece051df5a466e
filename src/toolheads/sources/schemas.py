"""Where a JSON Schema holds schemas. Knows the keywords of the drafts, no tool and no protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_MAPS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_SINGLE = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    }
)

Place = tuple[str | int, ...]
"""Keys and positions that lead from a schema to one inside it."""


def children(schema: Mapping[str, Any]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """The schemas directly inside a schema, with their places; `true` and `false` are left out.

    What merely looks like a schema is none: a value of `enum`, `const`, `default`, `examples`.
    """
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, Mapping):
            for name, inner in value.items():
                if isinstance(inner, Mapping):
                    yield (keyword, name), inner
        elif keyword in _LISTS and isinstance(value, list | tuple):
            for position, inner in enumerate(value):
                if isinstance(inner, Mapping):
                    yield (keyword, position), inner
        elif keyword in _SINGLE and isinstance(value, Mapping):
            yield (keyword,), value


def with_children(
    schema: Mapping[str, Any], change: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Any]:
    """A copy of a schema in which the schemas directly inside it are what `change` makes of them.

    Everything else, and `true` and `false`, is kept as it is.
    """

    def changed(inner: Any) -> Any:
        return change(inner) if isinstance(inner, Mapping) else inner

    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, Mapping):
            copy[keyword] = {name: changed(inner) for name, inner in value.items()}
        elif keyword in _LISTS and isinstance(value, list | tuple):
            copy[keyword] = [changed(inner) for inner in value]
        elif keyword in _SINGLE:
            copy[keyword] = changed(value)
        else:
            copy[keyword] = value
    return copy


def places(schema: Mapping[str, Any]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """A schema and every schema inside it, each with its place from the top."""
    stack: list[tuple[Place, Mapping[str, Any]]] = [((), schema)]
    while stack:
        place, inner = stack.pop()
        yield place, inner
        stack += [((*place, *step), child) for step, child in children(inner)]


def pointer(place: Place) -> str:
    """A place as a reference writes it: `#/properties/a~1b`."""
    return "#" + "".join(f"/{_escaped(str(step))}" for step in place)


def levels(value: Any) -> int:
    """Depth of nesting of a JSON value; 0 for a number, string, boolean or null.

    A loop over levels, since recursion is what it protects from.
    """
    level, depth = [value], 0
    while True:
        level = [inner for inner in level if isinstance(inner, Mapping | list | tuple)]
        if not level:
            return depth
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
        ]


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
