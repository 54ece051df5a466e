"""Input schemas made shorter, since every character of an answer is read by a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolheads.sources.schemas import with_children

MOST_CHARS = 3_000
"""Longest schema, as JSON, that is given whole."""

MOST_PROPERTIES = 40
"""Most properties of a schema of which only names and types are left."""

_WORDS = (
    "description",
    "title",
    "examples",
    "example",
    "default",
    "$comment",
    "markdownDescription",
)


def shortened(schema: Mapping[str, Any], *, most_chars: int = MOST_CHARS) -> Mapping[str, Any]:
    """The schema, or as much of it as fits.

    First the words inside its properties go, then all words, then everything but the names and
    types of its properties. A caller can tell by identity: what fits is given back itself.

    Args:
        schema: JSON Schema of a tool's arguments.
        most_chars: Longest text of it as JSON.
    """
    if _chars(schema) <= most_chars:
        return schema
    outer = with_children(schema, lambda inner: with_children(inner, _wordless))
    if _chars(outer) <= most_chars:
        return outer
    bare = _wordless(schema)
    if _chars(bare) <= most_chars:
        return bare
    return _names_and_types(schema)


def _wordless(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = with_children(schema, _wordless)
    return {name: value for name, value in inner.items() if name not in _WORDS}


def _names_and_types(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = [name for name in schema.get("required") or () if name in properties]
    names = list(dict.fromkeys([*required, *properties]))[:MOST_PROPERTIES]
    short: dict[str, Any] = {
        "type": "object",
        "properties": {name: _type(properties[name]) for name in names},
    }
    return short | ({"required": required} if required else {})


def _type(schema: Any) -> dict[str, Any]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return {} if kind is None else {"type": kind}


def _chars(schema: Mapping[str, Any]) -> int:
    return len(json.dumps(schema, ensure_ascii=False, default=dict))
