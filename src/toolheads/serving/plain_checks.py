"""Quick checks of plain objects: what they take keeps its schema, what they do not is looked at.

A validator of JSON Schema takes longer over the body of a search than the rest of the server does
over reading it. Most bodies hold a text, a number, and no mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

_ABOUT_OBJECTS = {"type", "properties", "required", "additionalProperties", "description"}


def plain_check(schema: Mapping[str, Any]) -> Check:
    """A check of values against a schema that is sure of what it takes.

    Args:
        schema: A JSON Schema.

    Returns:
        True for values that keep the schema, for sure; False for others, and for those that a
        quick look says nothing about.
    """
    if not schema.keys() <= _ABOUT_OBJECTS or schema.get("additionalProperties") is not False:
        return _unsure
    checks = {name: _of_field(field) for name, field in schema.get("properties", {}).items()}
    required = frozenset(schema.get("required", ()))

    def check(value: Any) -> bool:
        if type(value) is not dict or not value.keys() >= required:
            return False
        return all(name in checks and checks[name](inner) for name, inner in value.items())

    return check


def _of_field(schema: Mapping[str, Any]) -> Check:
    rules = {name: rule for name, rule in schema.items() if name != "description"}
    if rules.keys() == {"enum"} and all(isinstance(one, str) for one in rules["enum"]):
        choices = frozenset(rules["enum"])
        return lambda value: type(value) is str and value in choices
    kind = rules.pop("type", None)
    if kind == "boolean" and not rules:
        return lambda value: type(value) is bool
    if kind == "string" and rules.keys() <= {"minLength", "maxLength", "pattern"}:
        return _of_text(**rules)
    if kind == "integer" and rules.keys() <= {"minimum", "maximum"}:
        least, most = rules.get("minimum", -float("inf")), rules.get("maximum", float("inf"))
        return lambda value: type(value) is int and least <= value <= most
    return _unsure


def _of_text(minLength: int = 0, maxLength: float = float("inf"), pattern: str = "") -> Check:  # noqa: N803
    found = re.compile(pattern).search
    return lambda value: (
        type(value) is str and minLength <= len(value) <= maxLength and found(value) is not None
    )


def _unsure(_: Any) -> bool:
    return False
