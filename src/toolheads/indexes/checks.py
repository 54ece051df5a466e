"""What every index checks at its door: keys, rows, queries, k, names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

import numpy as np

from toolheads.arrays import Floats, as_rows
from toolheads.errors import ConfigError, IndexStoreError, ShapeError

_SPACE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY_LENGTH = 256
"""Most bytes of a key in UTF-8."""


def check_space(space: object) -> str:
    """Refuse a space that cannot be part of a file's name.

    Raises:
        ConfigError: If it is not 1 to 64 letters, digits, `-` and `_`.
    """
    if not isinstance(space, str) or not _SPACE.fullmatch(space):
        msg = f"space must be 1 to 64 letters, digits, - or _, got {space!r:.80}"
        raise ConfigError(msg)
    return space


def check_at_least(least: int, value: object, name: str) -> int:
    """Read a whole number that is not below a least one.

    Raises:
        ConfigError: If it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        msg = f"{name} must be a whole number >= {least}, got {value!r:.80}"
        raise ConfigError(msg)
    return int(value)


def check_choice(value: str, choices: Sequence[str], name: str) -> str:
    """Refuse what is not among the choices, and say which is nearest.

    Raises:
        ConfigError: If it is not.
    """
    if value not in choices:
        msg = f"{name} must be one of {', '.join(choices)}, got {value!r:.80}"
        near = get_close_matches(str(value), choices, n=1)
        raise ConfigError(f"{msg}; did you mean {near[0]}?" if near else msg)
    return value


def checked_rows(keys: Sequence[str], rows: Floats, *, width: int) -> tuple[list[str], Floats]:
    """Check what `apply` is to add, and keep the first of equal keys.

    Args:
        keys: n keys.
        rows: (n, d) of any float dtype.
        width: d.

    Returns:
        m keys without repetition and their rows, (m, d) float32, never the caller's array.

    Raises:
        ShapeError: If rows are not (n, d), of floats, and finite.
        ConfigError: If a key is no text that can be stored.
    """
    listed = checked_keys(keys, "keys")
    given = np.asarray(rows)
    if given.dtype.kind != "f":
        msg = f"rows must hold floats, got dtype {given.dtype}"
        raise ShapeError(msg)
    if given.shape != (len(listed), width):
        msg = f"rows must have shape ({len(listed)}, {width}), one for each key, got {given.shape}"
        raise ShapeError(msg)
    floats = as_rows(given, width=width, name="rows")
    first: dict[str, int] = {}
    for row, key in enumerate(listed):
        first.setdefault(key, row)
    if len(first) < len(listed):
        return list(first), floats[list(first.values())]
    return listed, floats.copy() if np.shares_memory(floats, given) else floats


def checked_keys(keys: Collection[str], name: str) -> list[str]:
    """Keys as a list.

    Raises:
        ConfigError: If one is no text of 1 to 256 bytes in UTF-8 without control characters.
    """
    if isinstance(keys, str):
        msg = f"{name} must be a collection of keys, got the single text {keys!r:.80}"
        raise ConfigError(msg)
    listed = list(keys)
    for key in listed:
        if not _is_key(key):
            msg = f"{name} must be printable texts of 1 to {_KEY_LENGTH} bytes, got {key!r:.80}"
            raise ConfigError(msg)
    return listed


def checked_queries(queries: Floats, k: int, *, width: int) -> tuple[Floats, int]:
    """(q, d) float32 queries, and k.

    Raises:
        ShapeError: If queries are not (q, d) or not finite.
        ConfigError: If k is no whole number >= 1.
    """
    return as_rows(queries, width=width, name="queries"), check_at_least(1, k, "k")


def closed_error(name: str) -> IndexStoreError:
    """What an index answers once it is closed."""
    return IndexStoreError(f"{name} must be open, got a call after close()")


def _is_key(key: object) -> bool:
    if not isinstance(key, str) or not key.isprintable():
        return False
    return 0 < len(key.encode("utf-8")) <= _KEY_LENGTH
