"""Splits of queries by query, by tool and by data set.

What a query, tool or data set falls into depends on its own hash and the seed alone: not on the
order, and not on what else is there, so that a new query never moves an old one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolheads.data.leaks import text_key
from toolheads.data.records import SPLITS
from toolheads.domain import Query, Tool
from toolheads.errors import ConfigError


@dataclass(frozen=True)
class Split:
    """Queries by split, and what is held out of training."""

    train: tuple[Query, ...]
    val: tuple[Query, ...]
    test: tuple[Query, ...]
    held_out: frozenset[str] = frozenset()
    """Ids of the tools that no training query is about; empty when queries were split."""


def split_by_query(
    queries: Iterable[Query], *, val: float = 0.0, test: float = 0.0, seed: int = 0
) -> Split:
    """Split queries at random; equal texts (see `text_key`) fall together.

    Args:
        queries: Any queries; the split they are in counts for nothing.
        val: Share of the texts for validation, in [0, 1].
        test: Share of the texts for the test, in [0, 1 - val].
        seed: Another seed, another split.

    Returns:
        The queries in their order, each with `split` set.

    Raises:
        ConfigError: If a share breaks its rule.
    """
    _check_shares(val, test)
    return _gather((q, _draw(text_key(q.text), val, test, seed)) for q in queries)


def split_by_tool(
    queries: Iterable[Query],
    tools: Sequence[Tool],
    *,
    val: float = 0.0,
    test: float = 0.0,
    seed: int = 0,
) -> Split:
    """Split queries so that the tools of held-out queries are new to training.

    Tools are drawn, tools of equal (server, name) together. A query goes to test if a test tool
    is relevant to it, else to val if a val tool is, else to train; so no test tool is relevant to
    a train or val query, and no val tool to a train query. Queries of several tools make the
    held-out share of queries larger than that of tools. A query that no tool fits is drawn by
    its text.

    Args:
        queries: Any queries; the split they are in counts for nothing.
        tools: The tools that the queries name.
        val: Share of the tools for validation, in [0, 1].
        test: Share of the tools for the test, in [0, 1 - val].
        seed: Another seed, another split.

    Returns:
        The queries in their order, each with `split` set, and the ids of val and test tools.

    Raises:
        ConfigError: If a share breaks its rule or a relevant tool is not among the tools.
    """
    _check_shares(val, test)
    drawn = {tool.id: _draw(json.dumps(tool.identity), val, test, seed) for tool in tools}

    def split_of(query: Query) -> str:
        if unknown := [tool_id for tool_id in query.relevant if tool_id not in drawn]:
            msg = f"relevant tools of query {query.id!r} must be among tools, got {unknown[0]!r}"
            raise ConfigError(msg)
        if not query.relevant:
            return _draw(text_key(query.text), val, test, seed)
        return max((drawn[tool_id] for tool_id in query.relevant), key=SPLITS.index)

    held_out = frozenset(tool_id for tool_id, split in drawn.items() if split != "train")
    return _gather(((q, split_of(q)) for q in queries), held_out)


def split_by_dataset(
    names: Iterable[str],
    *,
    val: float = 0.0,
    test: float = 0.0,
    seed: int = 0,
    fixed: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Put whole data sets into splits.

    Args:
        names: Names of the data sets.
        val: Chance of a data set to be drawn for validation, in [0, 1].
        test: Chance of a data set to be drawn for the test, in [0, 1 - val].
        seed: Another seed, another split.
        fixed: Name → split, for those that are not drawn.

    Returns:
        Name → split, in the order of `names`. With few data sets a split may be empty.

    Raises:
        ConfigError: If a share breaks its rule, or `fixed` has an unknown name or split.
    """
    _check_shares(val, test)
    fixed = fixed or {}
    known = list(names)
    if unknown := sorted(set(fixed) - set(known)):
        msg = f"fixed must name data sets of {', '.join(known)}, got {unknown[0]!r}"
        raise ConfigError(msg)
    if odd := sorted(set(fixed.values()) - set(SPLITS)):
        msg = f"fixed must map to {', '.join(SPLITS)}, got {odd[0]!r}"
        raise ConfigError(msg)
    return {name: fixed.get(name) or _draw(name, val, test, seed) for name in known}


def _draw(key: str, val: float, test: float, seed: int) -> str:
    digest = hashlib.sha256(f"{seed}\0{key}".encode(errors="surrogatepass")).digest()
    u = int.from_bytes(digest[:7], "big") / (1 << 56)  # 56 bits: below 1 as a float too
    if u < test:
        return "test"
    return "val" if u < test + val else "train"


def _gather(queries: Iterable[tuple[Query, str]], held_out: frozenset[str] = frozenset()) -> Split:
    parts: dict[str, list[Query]] = {name: [] for name in SPLITS}
    for query, split in queries:
        parts[split].append(replace(query, split=split))
    return Split(tuple(parts["train"]), tuple(parts["val"]), tuple(parts["test"]), held_out)


def _check_shares(val: float, test: float) -> None:
    for name, share in (("val", val), ("test", test)):
        if not 0 <= share <= 1:
            msg = f"{name} must be in [0, 1], got {share}"
            raise ConfigError(msg)
    if val + test > 1:
        msg = f"val + test must be <= 1, got {val} + {test}"
        raise ConfigError(msg)
