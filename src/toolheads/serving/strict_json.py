"""JSON from outside, read strictly: no NaN, no lone surrogates, no deep nesting, no doubled names.

And JSON on its way out: what a backend answered, made valid.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

from toolheads.serving.api_error import ApiError

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(body: bytes, *, max_levels: int) -> Any:
    """Read a body.

    Raises:
        ApiError: `invalid_json`, if it is none by the rules above.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as e:
        msg = (
            f"the body must be UTF-8, got {body[e.start : e.start + 4].hex(' ')} at byte {e.start}"
        )
        raise ApiError("invalid_json", msg) from e
    try:
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_without_doubles,
        )
    except json.JSONDecodeError as e:
        msg = f"the body must be JSON, got: {e.msg} at line {e.lineno} column {e.colno}"
        raise ApiError("invalid_json", msg) from e
    except RecursionError as e:
        raise _too_deep(max_levels) from e
    except ValueError as e:  # from the functions below, or an integer of 4,300 digits
        msg = f"the body must be JSON, got: {e}"
        raise ApiError("invalid_json", msg) from e
    if body.count(b"{") + body.count(b"[") > max_levels and levels(value) > max_levels:
        raise _too_deep(max_levels)
    if _ESCAPED_SURROGATE.search(body) and _has_surrogate(value):
        msg = "the body must be valid Unicode, got a lone surrogate"
        raise ApiError("invalid_json", msg)
    return value


def levels(value: Any) -> int:
    """Depth of nesting; a loop over levels, since recursion is what it protects from."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth


def sendable(value: Any) -> Any:
    """The value as it can be sent: NaN and infinity become null, lone surrogates U+FFFD.

    A value that is fine, as almost all are, is given back itself.
    """
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False, default=dict).encode()
    except ValueError:
        return _replaced(value)
    return value


def _replaced(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list | tuple):
        return [_replaced(inner) for inner in value]
    if isinstance(value, dict):
        return {_replaced(str(name)): _replaced(inner) for name, inner in value.items()}
    return value


def _has_surrogate(value: Any) -> bool:
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, dict):
            stack += [*inner, *inner.values()]
        elif isinstance(inner, list):
            stack += inner
        elif isinstance(inner, str) and _SURROGATE.search(inner):
            return True
    return False


def _no_constant(name: str) -> float:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        msg = f"{literal[:40]} is beyond the range of a float"
        raise ValueError(msg)
    return number


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two fields with one name every reader takes another one, so neither is taken."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        double = Counter(name for name, _ in pairs).most_common(1)[0][0]
        msg = f"field {double[:40]!r} is there twice"
        raise ValueError(msg)
    return fields


def _too_deep(max_levels: int) -> ApiError:
    return ApiError(
        "invalid_json", f"the body must nest at most {max_levels} levels deep, got more"
    )
