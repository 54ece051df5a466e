"""Floor, margin and duplicate threshold for a share of false binds, and what they give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.decide.calibration.conformal import least_floor, least_margin, least_queries
from toolheads.decide.calibration.episodes import Episodes, Leads
from toolheads.decide.settings import PickerSettings

LEAST_DUPLICATE = 0.9
"""A duplicate threshold is never fitted below this: what is less alike is no duplicate, however
few such pairs the queries show."""

LOST_TO_DUPLICATES = 0.01
"""Most right leaders that may be called duplicates of a tool that is not right."""

_MARGINS = 19


@dataclass(frozen=True)
class Trade:
    """What thresholds give on queries: false binds against coverage."""

    false_binds: float
    """Share of queries without a right tool that are bound all the same."""
    coverage: float
    """Share of queries with a right tool that are bound, rightly or not."""
    accuracy: float
    """Share of these binds that are right; 0 without any."""
    duplicates: float
    """Share of queries with a right tool that are answered `duplicate`."""
    present: int
    """Queries with a right tool."""
    absent: int
    """Queries without."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


def trade_of(episodes: Episodes, settings: PickerSettings) -> Trade:
    """Count what thresholds give."""
    present, absent = episodes.present, episodes.absent
    bound = present.binds(settings)
    over = present.scores >= np.float32(settings.similarity_floor)
    twins = over & (present.twins >= np.float32(settings.duplicate_threshold))
    return Trade(
        false_binds=_mean(absent.binds(settings)),
        coverage=_mean(bound),
        accuracy=_mean(present.is_right[bound]),
        duplicates=_mean(twins),
        present=len(present),
        absent=len(absent),
    )


def fit_thresholds(
    episodes: Episodes, false_binds: float, *, top_k: int = 3, seed: int = 0
) -> PickerSettings | None:
    """Thresholds whose share of false binds is at most `false_binds` on queries like these.

    Duplicate threshold and margin are chosen on one half of the queries: the margin with the most
    right binds less wrong ones. The floor is then chosen on the other half by conformal risk
    control, so the bound holds for it, whatever the first half came to.

    Args:
        episodes: The queries.
        false_binds: Most false binds, in (0, 1).
        top_k: See `PickerSettings`.
        seed: Of the halves.

    Returns:
        The settings; None if the queries are too few for the bound.
    """
    first, second = halves(episodes, seed)
    if len(first.absent) < least_queries(false_binds) or not len(first.present):
        return None
    duplicate_threshold = fit_duplicate_threshold(first.present)
    best, margin = -len(first.present) - 1, 0.0
    for candidate in _margin_candidates(first.present):
        floor = _floor(first.absent, candidate, duplicate_threshold, false_binds)
        if floor is None:
            continue
        bound = first.present.may_bind(candidate, duplicate_threshold)
        bound &= first.present.scores >= np.float32(floor)
        right = int(np.count_nonzero(bound & first.present.is_right))
        if (gain := 2 * right - int(np.count_nonzero(bound))) > best:
            best, margin = gain, candidate
    floor = _floor(second.absent, margin, duplicate_threshold, false_binds)
    if floor is None:
        return None
    return PickerSettings(
        similarity_floor=min(floor, 1.0),
        margin=margin,
        duplicate_threshold=duplicate_threshold,
        top_k=top_k,
        score_unit=episodes.unit,
    )


def fit_duplicate_threshold(present: Leads) -> float:
    """The least similarity, from `LEAST_DUPLICATE` on, that calls few right leaders duplicates.

    A tool of the same server that no label calls right, and that is not the same in name and
    description, is taken as another tool: of right leaders, at most `LOST_TO_DUPLICATES` may have
    one so alike.
    """
    strangers = present.strangers[present.is_right]
    least = least_floor(strangers, len(strangers), LOST_TO_DUPLICATES)
    return 1.0 if least is None else float(np.clip(np.float32(least), LEAST_DUPLICATE, 1.0))


def absence_auroc(episodes: Episodes) -> float:
    """Chance that a query with a right tool has a better leader than one without; ties half."""
    absent = np.sort(episodes.absent.scores)
    below = np.searchsorted(absent, episodes.present.scores, side="left")
    up_to = np.searchsorted(absent, episodes.present.scores, side="right")
    return _mean((below + up_to) / (2 * max(1, len(absent))))


@dataclass(frozen=True)
class ListMargin:
    """The margin of a ranked list, and what it gives."""

    alpha: float
    """Most relevant tools that may be missed, as a mean share over queries."""
    margin: float
    """See `CutoffSettings.margin`; in the scorer's own unit."""
    missed: float
    """Mean share of relevant tools that the list leaves out, on the queries of the fit."""
    mean_length: float
    """Mean number of tools of a list there."""
    fixed_k: int | None
    """Length of a list of one length for all queries that misses as little; None if there is
    none."""
    queries: int

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


def fit_list_margin(episodes: Episodes, alpha: float) -> ListMargin | None:
    """The margin that misses at most a share alpha of relevant tools on queries like these.

    Returns:
        None if no margin does: too few queries, or too many relevant tools that no list reaches.
    """
    gaps, weights = episodes.flat_gaps
    margin = least_margin(gaps, weights, len(episodes.present), alpha)
    return None if margin is None else list_margin(episodes, alpha, margin)


def list_margin(episodes: Episodes, alpha: float, margin: float) -> ListMargin:
    """What a margin gives on queries."""
    missed, length = list_figures(episodes, margin)
    return ListMargin(
        alpha=alpha,
        margin=margin,
        missed=missed,
        mean_length=length,
        fixed_k=least_k(episodes, max(alpha, missed)),
        queries=len(episodes.present),
    )


def list_figures(episodes: Episodes, margin: float) -> tuple[float, float]:
    """Mean share of relevant tools that lists of a margin miss, and their mean length."""
    gaps, weights = episodes.flat_gaps
    n = max(1, len(episodes.present))
    missed = float(weights[gaps > margin].sum() / n)
    edge = np.float32(margin)
    lengths = [np.searchsorted(hit_gaps, edge, side="right") for hit_gaps in episodes.hit_gaps]
    return missed, float(np.sum(lengths) / n)


def least_k(episodes: Episodes, alpha: float) -> int | None:
    """Shortest list of one length for all queries that misses at most a share alpha.

    Counted on these very queries, without a bound: the best that a fixed length could do. None if
    no length does.
    """
    ranks = [
        np.where(np.isfinite(gaps), np.searchsorted(hits, gaps.astype(np.float32)), np.inf)
        for gaps, hits in zip(episodes.tool_gaps, episodes.hit_gaps, strict=True)
    ]
    _, weights = episodes.flat_gaps
    flat = np.concatenate([*ranks, np.empty(0)])
    order = np.argsort(flat, kind="stable")
    kept = np.cumsum(weights[order]) / max(1, len(episodes.present))
    enough = np.flatnonzero((kept >= 1 - alpha - 1e-9) & np.isfinite(flat[order]))
    return int(flat[order][enough[0]]) + 1 if enough.size else None


def halves(episodes: Episodes, seed: int) -> tuple[Episodes, Episodes]:
    """The queries in two random halves; a query and its twin without tools stay together."""
    rng = np.random.default_rng(seed)
    present, absent = len(episodes.present), len(episodes.absent)
    order = rng.permutation(absent)
    parts = (np.sort(order[: absent // 2]), np.sort(order[absent // 2 :]))
    first, second = (episodes.at(part[part < present], part) for part in parts)
    return first, second


def _margin_candidates(present: Leads) -> list[float]:
    gaps = present.gaps[np.isfinite(present.gaps)]
    shares = np.linspace(0, 0.9, _MARGINS)
    quantiles = [float(q) for q in np.quantile(gaps, shares)] if gaps.size else []
    return sorted({0.0, *(round(min(1.0, q), 4) for q in quantiles)})


def _floor(
    absent: Leads, margin: float, duplicate_threshold: float, false_binds: float
) -> float | None:
    may_bind = absent.may_bind(margin, duplicate_threshold)
    return least_floor(absent.scores[may_bind], len(absent), false_binds)


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if values.size else 0.0
