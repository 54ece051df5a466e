"""The rule that arguments break, in one line that names the place."""

from __future__ import annotations

import json
from typing import Any

_SHOWN = 80
"""Characters of a value."""

_RULES = {
    "minimum": "be >= {}",
    "maximum": "be <= {}",
    "exclusiveMinimum": "be > {}",
    "exclusiveMaximum": "be < {}",
    "multipleOf": "be a multiple of {}",
    "minLength": "have at least {} characters",
    "maxLength": "have at most {} characters",
    "minItems": "have at least {} items",
    "maxItems": "have at most {} items",
    "minProperties": "have at least {} properties",
    "maxProperties": "have at most {} properties",
    "pattern": "match the pattern {}",
    "const": "be {}",
    "enum": "be one of {}",
    "uniqueItems": "have no item twice",
    "contains": "contain an item that fits {}",
    "not": "not fit {}",
    "anyOf": "fit one of the schemas of anyOf",
    "oneOf": "fit exactly one of the schemas of oneOf",
}


def reason(error: Any) -> str:
    """What a validation error says, as `arguments.a[0] must be >= 1, got 0`.

    Args:
        error: A `jsonschema.ValidationError`.
    """
    place = "arguments" + "".join(map(_step, error.absolute_path))
    keyword, value, instance = error.validator, error.validator_value, error.instance
    if keyword == "required" and isinstance(instance, dict):
        missing = [name for name in value if name not in instance]
        return f"{place} must have {_named(missing)}, got {_names(instance)}"
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        known = error.schema.get("properties", {})
        odd = [name for name in instance if name not in known] or list(instance)
        rule = f"{_named(known)} only" if known else "no properties beyond those of its schema"
        return f"{place} must have {rule}, got {_names(odd)}"
    if keyword == "type":
        kinds = value if isinstance(value, list) else [value]
        rule = f"be of type {' or '.join(map(str, kinds))}"
    elif keyword in _RULES:
        rule = _RULES[keyword].format(_shown(value))
    elif keyword is None:
        rule = "not be given"  # the schema is `false`
    else:
        rule = f"keep {keyword} {_shown(value)}"
    return f"{place} must {rule}, got {_shown(instance)}"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"[{_shown(step)}]"


def _named(names: Any) -> str:
    shown = [str(name)[:_SHOWN] for name in names]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")


def _names(names: Any) -> str:
    return _named(names) if names else "none"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
