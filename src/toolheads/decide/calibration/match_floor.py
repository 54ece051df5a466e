"""The score below which nothing matches, for a share of requests that are told so by mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from toolheads.decide.calibration.conformal import highest_floor
from toolheads.decide.calibration.episodes import Episodes


@dataclass(frozen=True)
class MatchFloor:
    """From which score of the best tool on a request counts as matched."""

    alpha: float
    """Most requests with a right tool that may be told that nothing matches, as a share."""
    score: float
    """Of the best tool, in the scorer's own unit; inclusive. A best tool below it is none."""
    missed: float
    """Share of the queries of the fit with a right tool that are below it."""
    noticed: float
    """Share of the queries of the fit without a right tool that are below it."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


def fit_match_floor(parts: Sequence[Episodes], alpha: float) -> MatchFloor | None:
    """The highest floor that keeps the bound on all queries, and on each data set with many.

    A catalogue of its own has scores of its own, so a bound on the mean of several data sets alone
    would let one of them be told far too often that nothing matches. Data sets of fewer than
    2 / alpha queries count among all, but say too little for a bound of their own.

    Args:
        parts: Queries, by data set, all in one unit.
        alpha: Most requests with a right tool below the floor, in (0, 1).

    Returns:
        None if the queries are too few.
    """
    scores = [part.present.scores for part in parts]
    many = [one for one in scores if len(one) >= 2 / alpha]
    floors = [highest_floor(one, alpha) for one in (np.concatenate(scores), *many)]
    known = [floor for floor in floors if floor is not None]
    if len(known) < len(floors):
        return None
    # Scores are float32 in units; the floor is compared with the scorer's own, in float64.
    score = float(np.nextafter(np.float32(min(known)), np.float32(-np.inf))) * parts[0].unit
    missed, noticed = match_shares(parts, score)
    return MatchFloor(alpha, score, missed, noticed)


def match_shares(parts: Sequence[Episodes], score: float) -> tuple[float, float]:
    """Shares of queries with, and without, a right tool whose best tool is below a score."""

    def below(scores: list[np.ndarray[Any, Any]]) -> float:
        every = np.concatenate([*scores, np.empty(0)])
        return float((every < score / parts[0].unit).mean()) if every.size else 0.0

    return below([p.present.scores for p in parts]), below([p.absent.scores for p in parts])
