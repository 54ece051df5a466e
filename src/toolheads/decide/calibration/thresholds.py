"""Floor, margin and duplicate threshold for a share of false binds, and what they give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.decide.calibration.conformal import least_floor, least_queries
from toolheads.decide.calibration.episodes import Episodes, Leads, halves
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
    return 1.0 if least is None else min(1.0, max(LEAST_DUPLICATE, least))


def absence_auroc(episodes: Episodes) -> float:
    """Chance that a query with a right tool has a better leader than one without; ties half."""
    absent = np.sort(episodes.absent.scores)
    below = np.searchsorted(absent, episodes.present.scores, side="left")
    up_to = np.searchsorted(absent, episodes.present.scores, side="right")
    return _mean((below + up_to) / (2 * max(1, len(absent))))


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
