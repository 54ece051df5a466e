"""Composed requests: several training queries of one data set said in one breath.

Requests that need several tools are rare in most training data and frequent in use. Joined
queries have the tools of all of them as positives.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from toolheads.domain import Query
from toolheads_train.data.selection import Selected, Selection

MOST_PARTS = 3
"""Queries that are joined at most; two are the fewest."""

_TRIES = 8
"""Draws for each request that is wanted: a draw whose parts all ask for one tool makes none."""

_ENDS = ".!?。！？;；…"  # noqa: RUF001
_UNSPACED_ENDS = "。！？；"  # noqa: RUF001


def with_composed(selection: Selection, share: float, *, seed: int) -> Selection:
    """Add composed requests to the training queries of each data set.

    Args:
        selection: What trains. Only its training queries are joined, none is taken away.
        share: Composed requests for each training query, >= 0.
        seed: Of what is joined. A data set's requests depend on the seed, its name and its own
            training queries alone.

    Returns:
        The selection with as many more training queries; a data set of which no two queries have
        different tools gets none.
    """
    if not share:
        return selection
    return replace(
        selection,
        datasets=tuple(
            replace(one, train=(*one.train, *_composed(one, share, seed)))
            for one in selection.datasets
        ),
    )


def _composed(one: Selected, share: float, seed: int) -> list[Query]:
    count, queries = round(share * len(one.train)), one.train
    if len({frozenset(query.relevant) for query in queries}) < 2:
        return []
    own = int.from_bytes(hashlib.sha256(one.dataset.name.encode()).digest()[:8], "big")
    rng = np.random.default_rng((seed, own))
    made: list[Query] = []
    for _ in range(_TRIES * count):
        if len(made) == count:
            break
        wanted = int(rng.integers(2, MOST_PARTS + 1))
        parts: list[Query] = []
        for row in rng.integers(len(queries), size=wanted).tolist():
            # Two ways to ask for one thing are no request of two errands.
            if not any(set(queries[row].relevant) & set(part.relevant) for part in parts):
                parts.append(queries[row])
        if len(parts) > 1:
            made.append(_joined(parts, len(made)))
    return made


def _joined(parts: list[Query], number: int) -> Query:
    text = ""
    for part in parts:
        words = part.text.strip()
        words += "" if words[-1:] in _ENDS else "."
        text += words if not text or text[-1] in _UNSPACED_ENDS else f" {words}"
    tools = [tool_id for part in parts for tool_id in part.relevant]
    return Query(
        id=f"composed-{number}:" + "+".join(part.id for part in parts),
        text=text,
        relevance=dict.fromkeys(tools, 1),
        split="train",
    )
