"""Overlap between catalogues: tools of one data set that are tools of another's test.

Training on such a tool teaches the test. `overlap.json` says for each data set which of its tools
occur elsewhere: `{data set: {tool id: [tool ids of other test sets, …]}}`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from toolheads.domain import Query
from toolheads.errors import DataError

Overlap = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Data set → tool id → ids of the same tool in other test sets."""


def read_overlap(path: str | os.PathLike[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Read an overlap file.

    Raises:
        DataError: If it cannot be read, is no JSON, or has another form.
    """
    rule = f"{path} must map data sets to tool ids to lists of tool ids"
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as e:
        msg = f"{path} cannot be read: {e.strerror or e}"
        raise DataError(msg) from e
    except (ValueError, RecursionError) as e:
        msg = f"{rule}, got invalid JSON: {e}"
        raise DataError(msg) from e
    if not isinstance(data, dict):
        msg = f"{rule}, got {type(data).__name__}"
        raise DataError(msg)
    for name, tools in data.items():
        if not isinstance(tools, dict):
            msg = f"{rule}, got {type(tools).__name__} for {name!r}"
            raise DataError(msg)
        for tool_id, others in tools.items():
            if not isinstance(others, list) or not all(isinstance(x, str) for x in others):
                msg = f"{rule}, got {type(others).__name__} for {tool_id!r} of {name!r}"
                raise DataError(msg)
    return {
        name: {tool_id: tuple(others) for tool_id, others in tools.items()}
        for name, tools in data.items()
    }


def overlapping_tools(
    overlap: Overlap, names: Iterable[str], *, allowed: Collection[str] = ()
) -> frozenset[str]:
    """Ids of the tools of some data sets that must be left out of training.

    Args:
        overlap: What `read_overlap` gives.
        names: Data sets that are trained on; one the overlap does not name has none.
        allowed: Ids in other test sets that do not count, since that set is not reported.
    """
    allowed = frozenset(allowed)
    return frozenset(
        tool_id
        for name in names
        for tool_id, others in overlap.get(name, {}).items()
        if not allowed.issuperset(others)
    )


def without_tools(queries: Iterable[Query], tool_ids: Collection[str]) -> list[Query]:
    """The queries to which none of the tools is relevant, in order."""
    gone = frozenset(tool_ids)
    return [query for query in queries if gone.isdisjoint(query.relevant)]
