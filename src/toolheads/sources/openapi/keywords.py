"""Keywords of JSON Schema 2020-12 that hold no schema, and what a value of each must look like.

Providers refuse a whole list of tools for one schema that is wrong, so what is not well formed
stays out: `type: file`, `required: true`, `minimum: "0"`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return (
            bool(value)
            and all(v in _TYPES for v in value if isinstance(v, str))
            and (all(isinstance(v, str) for v in value) and len(set(value)) == len(value))
        )
    return isinstance(value, str) and value in _TYPES


def _is_names_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(names, list) and all(map(_is_text, names)) for names in value.values()
    )


_RULES: Mapping[str, Callable[[Any], bool]] = {
    "title": _is_text,
    "description": _is_text,
    "default": lambda _: True,
    "examples": lambda value: isinstance(value, list),
    "deprecated": lambda value: value is True,
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "const": lambda _: True,
    "format": _is_text,
    "pattern": _is_text,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "uniqueItems": lambda value: isinstance(value, bool),
    "minItems": _is_count,
    "maxItems": _is_count,
    "minContains": _is_count,
    "maxContains": _is_count,
    "minProperties": _is_count,
    "maxProperties": _is_count,
    "dependentRequired": _is_names_map,
    "contentMediaType": _is_text,
    "contentEncoding": _is_text,
}


def is_well_formed(keyword: str, value: Any) -> bool:
    """Whether a keyword is one of JSON Schema and has a value that it may have."""
    rule = _RULES.get(keyword)
    return rule is not None and rule(value)
