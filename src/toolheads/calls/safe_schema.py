"""A schema from outside, made safe to check against: bounded, self-contained, without surprises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from toolheads.calls.patterns import is_quick
from toolheads.sources.schemas import levels, places, pointer, with_children

_MOST_CHARACTERS = 300_000
_MOST_LEVELS = 100
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DROPPED = frozenset({"$schema", "$id", "id", "$vocabulary"})
"""Keywords that would change the dialect or the meaning of a reference on the way down."""

_NAME_LENGTH = 200
"""Characters of a property's name for which a pattern of names must be quick."""


class SchemaProblem(ValueError):  # noqa: N818 - it is no failure of ours
    """Why a schema is not checked against: a predicate such as "too large"."""


def safe_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema without what could reach outside, mislead or hold up the check.

    References that lead to no schema inside are dropped, as are patterns of property names that
    could take long, with the keywords whose meaning depends on them.

    Raises:
        SchemaProblem: If it is too large, nests too deep or is no JSON.
    """
    if levels(schema) > _MOST_LEVELS:
        msg = f"nested more than {_MOST_LEVELS} levels deep"
        raise SchemaProblem(msg)
    try:
        text = json.dumps(schema, allow_nan=False, default=dict)
    except (TypeError, ValueError) as e:
        msg = f"no JSON: {e}"
        raise SchemaProblem(msg) from e
    if len(text) > _MOST_CHARACTERS:
        msg = f"longer than {_MOST_CHARACTERS:,} characters"
        raise SchemaProblem(msg)
    plain: dict[str, Any] = json.loads(text)
    targets = {"#"}
    has_slow_names = False
    for place, inner in places(plain):
        targets.add(pointer(place))
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(inner.get(keyword), str):
                targets.add(f"#{inner[keyword]}")
        has_slow_names |= _has_slow_names(inner)
    return _Safe(targets, has_slow_names).copy(plain)


class _Safe:
    def __init__(self, targets: set[str], has_slow_names: bool) -> None:
        self.targets, self.has_slow_names = targets, has_slow_names

    def copy(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in schema.items() if name not in _DROPPED}
        for keyword in _REFERENCES:
            target = kept.get(keyword)
            if keyword in kept and not (
                isinstance(target, str) and unquote(target) in self.targets
            ):
                del kept[keyword]
        if _has_slow_names(kept):
            del kept["patternProperties"]
            kept.pop("additionalProperties", None)
        if self.has_slow_names:
            kept.pop("unevaluatedProperties", None)
        return with_children(kept, self.copy)


def _has_slow_names(schema: Mapping[str, Any]) -> bool:
    patterns = schema.get("patternProperties")
    return isinstance(patterns, Mapping) and any(
        not is_quick(pattern, _NAME_LENGTH) for pattern in patterns
    )
