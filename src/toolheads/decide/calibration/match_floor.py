"""The score below which nothing matches, for a share of requests that are told so by mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.decide.calibration.conformal import allowed_loss, highest_floor
from toolheads.decide.calibration.episodes import Episodes
from toolheads.errors import CalibrationError


@dataclass(frozen=True)
class MatchFloor:
    """From which score of the best tool on a request counts as matched."""

    alpha: float
    """Most requests with a right tool that may be told that nothing matches, as a share."""
    score: float
    """Of the best tool, in the scorer's own unit; inclusive. A best tool below it is none."""
    missed: float
    """Share of the queries of the fit with a right tool that are below it."""
    noticed: float | None
    """Share of the queries of the fit without a right tool that are below it; None if not looked
    at."""

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


def floor_across(sets: Sequence[Floats], alpha: float) -> float:
    """A floor for a data set that is not among these.

    Each data set has a score that a share alpha of its queries stays below. These differ more from
    set to set than chance within one would have it, so a bound on known sets says little about a
    new one. This is the lower 95 % prediction limit of them for one more set, as for a sample from
    a normal distribution.

    Args:
        sets: Of three data sets or more, (q,) scores of the best tool for queries with a right
            tool. Of few queries the lowest score counts.
        alpha: In (0, 1).

    Raises:
        CalibrationError: If the sets are fewer than three.
    """
    if len(sets) < 3:
        msg = f"sets must be at least 3 for a floor that holds for another, got {len(sets)}"
        raise CalibrationError(msg)
    lowest = []
    for scores in sets:
        lost = max(0, int(allowed_loss(len(scores), alpha)))
        lowest.append(float(np.sort(scores)[lost]))
    n = len(lowest)
    slack = _student(n - 1) * float(np.std(lowest, ddof=1)) * float(np.sqrt(1 + 1 / n))
    return float(np.mean(lowest)) - slack


def _student(freedom: int) -> float:
    """95 % quantile of Student's t, to 0.03 for three or more degrees of freedom.

    Cornish and Fisher's expansion (Abramowitz and Stegun 1964, eq. 26.7.5) to its third term.
    """
    if freedom == 2:
        return 2.92
    z = 1.6448536
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum((term / float(freedom) ** (i + 1) for i, term in enumerate(terms)), 0.0)
