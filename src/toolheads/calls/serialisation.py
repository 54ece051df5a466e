"""Values of arguments as text in an address, a header or a form, by the style rules of OpenAPI.

https://spec.openapis.org/oas/v3.1.1.html#style-values. What those leave open (an object inside
an array) is written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from toolheads.sources.openapi.operation import Parameter

_RESERVED = ":/?@!$'()*,;"
"""Reserved characters that stay where `allowReserved` is set; `#`, `&`, `+`, `=` would not be
read back."""

_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}

Pairs = list[tuple[str, str]]
"""Names and values, encoded."""


def plain(value: Any) -> str:
    """One value as text: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)


def path_text(parameter: Parameter, value: Any) -> str:
    """What stands in the place of a path parameter, encoded."""
    name = quote(parameter.name, safe="")
    if parameter.style == "matrix":
        pairs = _exploded(value, name) if parameter.explode else None
        if pairs is None:
            return f";{name}={_joined(value, ',')}"
        return "".join(f";{key}={text}" for key, text in pairs)
    start, mark = (".", ".") if parameter.style == "label" else ("", ",")
    if not parameter.explode:
        return start + _joined(value, ",")
    if isinstance(value, Mapping):
        return start + mark.join(f"{_encoded(k)}={_encoded(v)}" for k, v in value.items())
    return start + _joined(value, mark)


def query_pairs(parameter: Parameter, value: Any) -> Pairs:
    """A query parameter, encoded; nothing for null and for an empty list or object."""
    safe = _RESERVED if parameter.keeps_reserved else ""
    name = quote(parameter.name, safe="")
    if value is None:
        return []
    if parameter.is_json:
        return [(name, quote(json.dumps(value, ensure_ascii=False, default=dict), safe=safe))]
    if isinstance(value, Mapping | list | tuple) and not value:
        return []
    if parameter.style == "deepObject" and isinstance(value, Mapping):
        return _deep(parameter.name, value, safe)
    if parameter.style == "deepObject" or parameter.explode:
        pairs = _exploded(value, name, safe)
        return [(name, _encoded(value, safe))] if pairs is None else pairs
    return [(name, _joined(value, _DELIMITERS.get(parameter.style, ","), safe))]


def header_text(parameter: Parameter, value: Any) -> str:
    """A header parameter, not encoded: whoever sends it checks its characters."""
    if parameter.is_json:
        return json.dumps(value, default=dict)
    if isinstance(value, Mapping):
        mark = "=" if parameter.explode else ","
        return ",".join(f"{key}{mark}{plain(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(plain, value))
    return plain(value)


def form_pairs(values: Mapping[str, Any]) -> Pairs:
    """Properties of a URL-encoded form, encoded; null is left out, a list repeats its name."""
    pairs: Pairs = []
    for name, value in values.items():
        items = value if isinstance(value, list | tuple) else [] if value is None else [value]
        pairs += [(quote(name, safe=""), _encoded(item)) for item in items]
    return pairs


def _deep(name: str, value: Any, safe: str) -> Pairs:
    """`filter[a][b]=1`; a list repeats its name."""
    if isinstance(value, Mapping):
        return [
            pair for key, inner in value.items() for pair in _deep(f"{name}[{key}]", inner, safe)
        ]
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return [(quote(name, safe="[]"), _encoded(item, safe)) for item in items]


def _exploded(value: Any, name: str, safe: str = "") -> Pairs | None:
    """A list as its name again and again, an object as its own names; None for a single value."""
    if isinstance(value, Mapping):
        return [(_encoded(key), _encoded(inner, safe)) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(name, _encoded(item, safe)) for item in value]
    return None


def _joined(value: Any, mark: str, safe: str = "") -> str:
    if isinstance(value, Mapping):
        parts: list[Any] = [part for pair in value.items() for part in pair]
    else:
        parts = list(value) if isinstance(value, list | tuple) else [value]
    return mark.join(_encoded(part, safe) for part in parts)


def _encoded(value: Any, safe: str = "") -> str:
    return quote(plain(value), safe=safe)
