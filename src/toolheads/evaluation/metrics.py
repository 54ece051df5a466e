"""Ranking metrics of one ranked list, and the names they go by.

The functions here are the definitions; `toolheads.evaluation.ranked` computes the same numbers for
many queries at once. Knows no file, scorer or data set.

Equal to trec_eval 9: `ndcg` is `ndcg_cut`, `recall` is `recall`, `precision` is `P`,
`average_precision` is `map_cut`, `reciprocal_rank` is `recip_rank` of the list cut at k. A list is
taken in the order it has: ties were decided by whoever made it. The scorers of this package order
equal scores as the tools were given; `toolheads.evaluation.trec` orders files as trec_eval does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolheads.errors import ConfigError, DataError

METRICS_VERSION = "metrics/v1"
"""Name of the definitions below. A change of any number they give is a new version."""

DEFAULT_CUTOFFS = (5, 10, 20)
"""Cutoffs of the evaluation protocol."""

Values = npt.NDArray[np.float64]
"""Metric values; float64, so that means equal trec_eval's to the last printed digit."""


def ndcg(ranked: Sequence[str], qrels: Mapping[str, int], cutoff: int) -> float:
    """Normalized discounted cumulative gain, linear gain and log2 discount.

    Jarvelin and Kekalainen (2002), https://doi.org/10.1145/582415.582418, with b = 2, in the form
    trec_eval computes: the ideal list is cut at the same depth.

    Args:
        ranked: Tool ids, best first, each once.
        qrels: Relevance of each judged tool; absent counts as 0, below 0 as 0.
        cutoff: Rank depth k, >= 1.

    Returns:
        In [0, 1]; 0 when no tool is relevant.
    """
    gains = [max(qrels.get(tool_id, 0), 0) for tool_id in ranked[:cutoff]]
    ideal = sorted((max(grade, 0) for grade in qrels.values()), reverse=True)[:cutoff]
    best = _dcg(ideal)
    return _dcg(gains) / best if best > 0 else 0.0


def recall(ranked: Sequence[str], qrels: Mapping[str, int], cutoff: int) -> float:
    """Share of the relevant tools that are in the top k; 0 when no tool is relevant."""
    relevant = _relevant(qrels)
    return _found(ranked, relevant, cutoff) / len(relevant) if relevant else 0.0


def precision(ranked: Sequence[str], qrels: Mapping[str, int], cutoff: int) -> float:
    """Relevant tools in the top k, divided by k even when the list is shorter."""
    return _found(ranked, _relevant(qrels), cutoff) / cutoff


def average_precision(ranked: Sequence[str], qrels: Mapping[str, int], cutoff: int) -> float:
    """Sum of the precisions at the ranks of found relevant tools, divided by all relevant ones."""
    relevant = _relevant(qrels)
    found, total = 0, 0.0
    for rank, tool_id in enumerate(ranked[:cutoff], start=1):
        if tool_id in relevant:
            found += 1
            total += found / rank
    return total / len(relevant) if relevant else 0.0


def reciprocal_rank(ranked: Sequence[str], qrels: Mapping[str, int], cutoff: int) -> float:
    """1 / rank of the first relevant tool in the top k; 0 when there is none."""
    relevant = _relevant(qrels)
    ranks = (r for r, tool_id in enumerate(ranked[:cutoff], start=1) if tool_id in relevant)
    return 1 / next(ranks, math.inf)


def completeness(ranked: Sequence[str], qrels: Mapping[str, int], cutoff: int) -> float:
    """1 when every relevant tool is in the top k, else 0.

    `Comprehensiveness@k` of ToolRet (https://arxiv.org/abs/2503.01763), whose code counts the
    queries with recall@k = 1. A query with more than k relevant tools can never be complete and
    counts 0, as it does there; so does a query without any.
    """
    relevant = _relevant(qrels)
    return float(bool(relevant) and _found(ranked, relevant, cutoff) == len(relevant))


DEFINITIONS: Mapping[str, Callable[[Sequence[str], Mapping[str, int], int], float]] = {
    "ndcg": ndcg,
    "recall": recall,
    "precision": precision,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "completeness": completeness,
}
"""Kind of metric → its definition."""

ADAPTIVE_METRICS = (
    "length@adaptive",
    "recall@adaptive",
    "precision@adaptive",
    "completeness@adaptive",
)
"""Metrics of the list that adaptive K shows: how long it is and what is in it."""


@dataclass(frozen=True)
class Metric:
    """A metric at a cutoff, such as `ndcg@10`."""

    kind: str
    """A key of `DEFINITIONS`."""
    cutoff: int
    """Rank depth k, >= 1."""

    def __str__(self) -> str:
        return f"{self.kind}@{self.cutoff}"

    def __call__(self, ranked: Sequence[str], qrels: Mapping[str, int]) -> float:
        """Value for one ranked list, best first, each tool once."""
        return DEFINITIONS[self.kind](ranked, qrels, self.cutoff)

    @classmethod
    def parse(cls, name: str) -> Metric:
        """Read a name such as `ndcg@10`.

        Raises:
            ConfigError: If the kind is unknown or the cutoff is no whole number >= 1.
        """
        kind, _, depth = name.partition("@")
        if kind not in DEFINITIONS or not (depth.isascii() and depth.isdigit()) or int(depth) < 1:
            msg = (
                f"a metric must be KIND@K with KIND one of {', '.join(DEFINITIONS)} and K >= 1, "
                f"got {name!r}"
            )
            raise ConfigError(msg)
        return cls(kind, int(depth))


def default_metrics(cutoffs: Iterable[int] = DEFAULT_CUTOFFS) -> tuple[str, ...]:
    """Names of every kind of metric at each cutoff, and `precision@1`."""
    return ("precision@1", *(f"{kind}@{cutoff}" for kind in DEFINITIONS for cutoff in cutoffs))


def check_ranked(ranked: Sequence[str], *, query_id: str) -> None:
    """Refuse a list that names a tool twice; every metric would count it twice.

    Raises:
        DataError: If a tool is named twice.
    """
    if len(set(ranked)) != len(ranked):
        twice = next(tool_id for at, tool_id in enumerate(ranked) if tool_id in ranked[:at])
        msg = f"the run of query {query_id!r} must name each tool once, got {twice!r} twice"
        raise DataError(msg)


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _relevant(qrels: Mapping[str, int]) -> set[str]:
    return {tool_id for tool_id, grade in qrels.items() if grade > 0}


def _found(ranked: Sequence[str], relevant: set[str], cutoff: int) -> int:
    return sum(tool_id in relevant for tool_id in ranked[:cutoff])
