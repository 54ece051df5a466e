"""Conformal risk control: the least strict threshold whose expected loss is at most alpha.

Angelopoulos, Bates, Fisch, Lei and Schuster (2024), https://arxiv.org/abs/2208.02814, eq. 4: for
losses in [0, 1] that never rise with the threshold, and n calibration queries exchangeable with
the next one, the least threshold with

    n / (n + 1) * mean loss + 1 / (n + 1) <= alpha

has an expected loss of at most alpha on the next query. The mean is over calibration sets too: a
single set may come out a little above, by chance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.errors import ConfigError

Doubles = npt.NDArray[np.float64]

_ROUNDING = 1e-9
"""Of sums of losses, such as thirds that add up to one."""


def allowed_loss(n: int, alpha: float) -> float:
    """Largest sum of n losses that the bound allows; below 0 if n queries are too few.

    Raises:
        ConfigError: If alpha is not in (0, 1).
    """
    if not 0 < alpha < 1:
        msg = f"alpha must be in (0, 1), got {alpha!r:.80}"
        raise ConfigError(msg)
    return alpha * (n + 1) - 1


def least_queries(alpha: float) -> int:
    """Fewest queries that can give a bound of alpha: with fewer, even no loss says too little."""
    return int(np.ceil(1 / alpha - _ROUNDING)) - 1


def least_margin(gaps: Doubles, weights: Doubles, n: int, alpha: float) -> float | None:
    """Least margin of ranked lists whose share of missed relevant tools is at most alpha.

    Args:
        gaps: (t,) >= 0. For each relevant tool of each query, the margin from which on a list has
            it; infinite for a tool that no list reaches.
        weights: (t,) one over the number of relevant tools of its query.
        n: Queries.
        alpha: In (0, 1).

    Returns:
        The margin, inclusive; None if none is enough: too few queries, or too many tools that no
        list reaches.
    """
    allowed = allowed_loss(n, alpha) + _ROUNDING
    order = np.argsort(gaps, kind="stable")[::-1]
    rising = np.concatenate([[0.0], gaps[order][::-1]])  # candidates, from 0
    # Loss at a candidate: the weight of all gaps above it.
    above = np.concatenate([[0.0], np.cumsum(weights[order])])
    lost = above[len(gaps) - np.searchsorted(rising[1:], rising, side="right")]
    fits = np.flatnonzero((lost <= allowed) & np.isfinite(rising))
    return float(rising[fits[0]]) if fits.size else None


def least_floor(scores: Floats, n: int, alpha: float) -> float | None:
    """Least floor that at most a share alpha of queries reaches.

    Args:
        scores: (m,) float32, m <= n. Of the queries that are lost if their score is at or over
            the floor.
        n: Queries.
        alpha: In (0, 1).

    Returns:
        The floor, a float32; None if n queries are too few.
    """
    allowed = allowed_loss(n, alpha) + _ROUNDING
    if allowed < 0:
        return None
    most = int(allowed)
    if len(scores) <= most:
        return 0.0
    last = np.sort(scores)[::-1][most]
    return max(0.0, float(np.nextafter(last, np.float32(np.inf))))


def highest_floor(scores: Floats, alpha: float) -> float | None:
    """Highest floor that at most a share alpha of queries stays below.

    Args:
        scores: (n,) float32, of all queries. One that is below the floor is lost.
        alpha: In (0, 1).

    Returns:
        One of the scores, inclusive; None if n queries are too few, or so many of them have no
        score (-inf) that every floor loses too many.
    """
    allowed = allowed_loss(len(scores), alpha) + _ROUNDING
    if allowed < 0:
        return None
    floor = float(np.sort(scores)[int(allowed)])
    return floor if np.isfinite(floor) else None
