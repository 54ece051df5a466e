"""Whether new heads are better than the given ones, measured as they are served."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from toolheads.domain import Query
from toolheads.evaluation.metrics import Values
from toolheads.evaluation.ranked import per_query_metrics
from toolheads.evaluation.statistics import bootstrap_means, interval, permutation_p
from toolheads.scorers.vectors import VectorScorer
from toolheads.usage import JudgedRequest

SHOWN, WHOLE = "shown ndcg@10", "whole ndcg@10"
"""Names of the two measures: of the tools that were shown, and of the whole catalogue."""

DEPTH = 1000
"""Rank up to which shown tools are looked for; those below keep the order they were shown in."""

_BLOCK = 64
"""Requests that are ranked at once."""

CONFIDENCE = 0.95
POWER = 0.8
"""Chance of a significant test at which the number of requests it takes is given."""


@dataclass(frozen=True)
class Estimate:
    """A mean over requests and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Given and new heads on one set of requests; each mapping is by measure."""

    requests: int
    before: dict[str, Estimate]
    """Given heads."""
    after: dict[str, Estimate]
    """New heads."""
    change: dict[str, Estimate]
    """New less given, request by request."""
    p: dict[str, float]
    """Two-sided, of the paired permutation test on the change."""
    needed: int | None
    """Requests with which a change of `SHOWN` like this one would be significant with a chance
    of 80 %; None if nothing rose."""

    @property
    def gain(self) -> float:
        """Mean change of `SHOWN`."""
        return self.change[SHOWN].mean


def measured(scorer: VectorScorer, requests: Sequence[JudgedRequest]) -> dict[str, Values]:
    """How a scorer ranks the tools that were called, in two ways.

    Only a shown tool can have been called, so a log judges the tools that were shown and no
    others. Ranked among the whole catalogue, whatever a scorer finds beyond them counts as wrong,
    which keeps every scorer below the one that wrote the log. `SHOWN` therefore leaves the
    unjudged tools out of the list (condensed lists, Sakai 2007,
    https://doi.org/10.1145/1277741.1277756); `WHOLE` does not.

    Args:
        scorer: With an index.
        requests: q requests; each tool that was called is relevant.

    Returns:
        Measure → (q,) float64 in [0, 1].
    """
    queries = [Query(str(at), one.text) for at, one in enumerate(requests)]
    whole: dict[str, list[str]] = {}
    shown: dict[str, list[str]] = {}
    for start in range(0, len(queries), _BLOCK):
        block = queries[start : start + _BLOCK]
        for query, hits in zip(block, scorer.rank(block, DEPTH), strict=True):
            found = [hit.tool_id for hit in hits]
            whole[query.id] = found[:10]
            shown[query.id] = _condensed(found, requests[int(query.id)].shown)
    qrels = {q.id: dict.fromkeys(one.called, 1) for q, one in zip(queries, requests, strict=True)}
    return {
        name: per_query_metrics(run, qrels, ("ndcg@10",))["ndcg@10"]
        for name, run in ((SHOWN, shown), (WHOLE, whole))
    }


def compare(
    before: dict[str, Values],
    after: dict[str, Values],
    *,
    alpha: float,
    resamples: int,
    seed: int,
) -> Comparison:
    """Compare two systems on the same requests.

    Args:
        before: Measure → (q,) values of the given heads, q >= 1.
        after: The same of the new ones.
        alpha: Level of the test, for the number of requests it takes.
        resamples: Random signs, and draws.
        seed: Of both.
    """
    change = {name: after[name] - before[name] for name in (SHOWN, WHOLE)}

    def estimates(values: dict[str, Values]) -> dict[str, Estimate]:
        return {name: _estimate(values[name], resamples, seed) for name in (SHOWN, WHOLE)}

    return Comparison(
        requests=len(change[SHOWN]),
        before=estimates(before),
        after=estimates(after),
        change=estimates(change),
        p={
            name: permutation_p({"requests": values}, resamples=resamples, seed=seed)
            for name, values in change.items()
        },
        needed=needed_requests(change[SHOWN], alpha=alpha),
    )


def needed_requests(change: Values, *, alpha: float, power: float = POWER) -> int | None:
    """How many requests it takes to see a change of this mean and spread.

    `((z(power) - z(alpha / 2)) * deviation / mean) ** 2`, the normal approximation of a
    paired test, but never fewer than give the exact test a p value below alpha.

    Args:
        change: (q,) differences, q >= 1.
        alpha: Level of the two-sided test.
        power: Chance to find the change.

    Returns:
        None if the mean is not above 0.
    """
    mean = float(np.mean(change))
    if mean <= 0:
        return None
    z = NormalDist().inv_cdf(power) - NormalDist().inv_cdf(alpha / 2)
    fewest = math.floor(math.log2(2 / alpha)) + 1  # 2 / 2**n < alpha
    return max(fewest, math.ceil((z * float(np.std(change)) / mean) ** 2))


def agreement(shown: Sequence[Sequence[str]], ranked: Sequence[Sequence[str]], tools: int) -> float:
    """Share of shown tools that a ranking shows as well, with what chance gives taken off.

    Args:
        shown: Tools that each search showed.
        ranked: Tools of each search by the ranking, at least as many as were shown.
        tools: Size of the catalogue.

    Returns:
        At most 1; about 0 for lists that have nothing to do with the ranking; 1 where nothing
        can be said, since all tools or none were shown.
    """
    found = expected = total = 0.0
    for mine, theirs in zip(shown, ranked, strict=True):
        k = len(mine)
        found += len(set(mine) & set(theirs[:k]))
        expected += k * k / tools
        total += k
    return 1.0 if total <= expected else (found - expected) / (total - expected)


def _condensed(ranked: Sequence[str], shown: Sequence[str]) -> list[str]:
    """The shown tools in the order of a ranking."""
    wanted = frozenset(shown)
    found = [tool_id for tool_id in ranked if tool_id in wanted]
    return [*found, *(tool_id for tool_id in shown if tool_id not in set(found))]


def _estimate(values: Values, resamples: int, seed: int) -> Estimate:
    means = bootstrap_means({"requests": values}, resamples=resamples, seed=seed)["requests"]
    low, high = interval(means[:, 0], confidence=CONFIDENCE)
    return Estimate(float(np.mean(values)), low, high)
