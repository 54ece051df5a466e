"""YAML to JSON values, as YAML 1.2 reads it, within limits.

PyYAML reads YAML 1.1, where `no` is false, `12:30` is 750 and a date is an object. None of that is
meant in a description, and none of it is JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from toolheads.errors import import_extra

_MOST_NODES = 2_000_000
"""Values once every alias is written out, and events of the text itself."""

_ALWAYS_NODES = 100_000
_MOST_GROWTH = 10
"""Aliases may make ten times of what is written, and always this many values."""

_RULES = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
}
"""Tag → what a plain scalar of it looks like, and the characters it may start with."""


class YamlError(ValueError):
    """Why a text is not read: one line."""


def parse_yaml(text: str, *, most_levels: int) -> Any:
    """Read one YAML document as JSON values; keys become strings.

    Args:
        text: The document.
        most_levels: Deeper nesting is refused.

    Raises:
        YamlError: If it is no YAML, nests too deep, refers to itself, or would be too large with
            its aliases written out.
        MissingExtraError: If PyYAML is not installed.
    """
    yaml = import_extra("yaml", user="sources.openapi", extra="openapi")
    loader = _loader()
    try:
        n_events = _count_events(yaml.parse(text, Loader=loader), yaml, most_levels)
        value = yaml.load(text, Loader=loader)  # a safe loader
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(e, "problem", None) or str(e).partition("\n")[0]
        msg = f"the text must be JSON or YAML, got: {problem}{place}"
        raise YamlError(msg) from e
    except (ValueError, RecursionError, TypeError) as e:
        if isinstance(e, YamlError):
            raise
        msg = f"the text must be JSON or YAML, got: {e}"
        raise YamlError(msg) from e
    most_nodes = min(_MOST_NODES, max(_ALWAYS_NODES, _MOST_GROWTH * n_events))
    return _Plain(most_levels, most_nodes).copy(value, 0)


def _count_events(events: Any, yaml: Any, most_levels: int) -> int:
    """How much is written. Refuses what would overrun the stack of the reader, before it reads."""
    depth = count = 0
    for count, event in enumerate(events, 1):
        if isinstance(event, yaml.events.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            depth -= 1
        if depth > most_levels:
            raise YamlError(_too_deep(most_levels))
        if count > _MOST_NODES:
            raise YamlError(_too_large(_MOST_NODES))
    return count


class _Plain:
    """Copies what the loader made into JSON values, and counts: an alias is a copy."""

    def __init__(self, most_levels: int, most_nodes: int) -> None:
        self.most_levels, self.most_nodes = most_levels, most_nodes
        self.nodes = 0

    def copy(self, value: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > self.most_nodes:
            raise YamlError(_too_large(self.most_nodes))
        if depth > self.most_levels:  # an alias inside what it names ends here
            raise YamlError(_too_deep(self.most_levels))
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self.copy(inner, depth + 1) for inner in value]
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if value is None or isinstance(value, str | int | float):
            return value
        msg = f"the text must hold JSON values, got a {type(value).__name__}"
        raise YamlError(msg)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        """An object; what `<<` names is put in under its own keys.

        The loader would do that, too, but without counting.
        """
        merged = value.get("<<")
        others = merged if isinstance(merged, list) else [merged]
        is_merge = bool(others) and all(isinstance(other, Mapping) for other in others)
        copied: dict[str, Any] = {}
        if is_merge:
            for other in reversed(others):  # the first one counts most
                copied |= self.copy(other, depth + 1)
        for name, inner in value.items():
            if not (is_merge and name == "<<"):
                copied[_key(name)] = self.copy(inner, depth + 1)
        return copied


def _key(name: Any) -> str:
    if isinstance(name, bool):
        return "true" if name else "false"
    if name is None:
        return "null"
    if isinstance(name, str | int | float):
        return str(name)
    msg = f"a key must be a string, got a {type(name).__name__}"
    raise YamlError(msg)


@cache
def _loader() -> Any:
    """A safe loader with the scalars of YAML 1.2; the one in C where PyYAML has it."""
    yaml = import_extra("yaml", user="sources.openapi", extra="openapi")
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("_Loader", (base,), {"yaml_implicit_resolvers": {}})
    for tag, (rule, first) in _RULES.items():
        loader.add_implicit_resolver(tag, re.compile(f"(?:{rule})$"), list(first))
    loader.add_constructor("tag:yaml.org,2002:int", _int)
    loader.add_constructor("tag:yaml.org,2002:float", _float)
    return loader


def _int(loader: Any, node: Any) -> int | str:
    text = str(loader.construct_scalar(node))
    try:
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    except ValueError:  # thousands of digits, or a tag that was written out
        return text


def _float(loader: Any, node: Any) -> float | str:
    text = str(loader.construct_scalar(node))
    try:
        return float(text)
    except ValueError:
        return text


def _too_deep(most_levels: int) -> str:
    return f"the text must nest at most {most_levels} levels deep, got more"


def _too_large(most_nodes: int) -> str:
    return f"the text must have at most {most_nodes:,} values with its aliases, got more"
