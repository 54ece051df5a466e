"""Cut-offs of ranked lists for a share of missed relevant tools, and what they give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from toolheads.cutoff import CutoffSettings
from toolheads.decide.calibration.conformal import Doubles, least_margin
from toolheads.decide.calibration.episodes import Episodes, halves
from toolheads.errors import CalibrationError

CAPS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 1000)
"""Lengths that the cap of a list is chosen from."""


@dataclass(frozen=True)
class ListFigures:
    """What lists give on queries."""

    missed: float
    """Mean share of relevant tools that the list of a query leaves out."""
    mean_length: float
    """Mean number of tools of a list."""
    queries: int

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@dataclass(frozen=True)
class ListCutoff:
    """Where ranked lists are cut so that at most a share alpha of relevant tools is missed."""

    alpha: float
    margin: float
    """See `CutoffSettings.margin`; in the scorer's own unit."""
    max_k: int
    """Most hits of a list."""
    figures: ListFigures
    """On the queries of the fit."""
    fixed_k: int | None
    """Length of lists of one length that keeps the same bound, chosen on the same queries; None
    if none does."""

    @property
    def settings(self) -> CutoffSettings:
        """For `VectorScorer.search` and the like."""
        return CutoffSettings(margin=self.margin, max_k=self.max_k)

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> ListCutoff:
        """Read what `to_json` wrote.

        Raises:
            TypeError: If a field is missing or unknown.
            ConfigError: If margin or max_k break their rules.
        """
        read = cls(**{**data, "figures": ListFigures(**data["figures"])})
        _ = read.settings
        return read


def fit_list_cutoff(episodes: Episodes, alpha: float, *, seed: int = 0) -> ListCutoff | None:
    """The cut-off that misses at most a share alpha of relevant tools on queries like these.

    One half of the queries says which cap gives the shortest lists. On the other half lists grow
    along one path, first with the margin up to that cap, then beyond it, until conformal risk
    control allows their misses; so the bound holds whatever cap the first half came to.

    Returns:
        None if nothing does: too few queries, or too many relevant tools that are no hits.
    """
    first, second = halves(episodes, seed)
    cap, shortest = CAPS[-1], np.inf
    for candidate in CAPS:
        margin = _margin(first, alpha, candidate)
        if margin is None:
            continue
        length = list_figures(first, margin, candidate).mean_length
        if length < shortest:
            cap, shortest = candidate, length
    margin = _margin(second, alpha, cap)
    if margin is None:
        longer = fit_fixed_k(second, alpha)
        if longer is None:
            return None
        cap, margin = longer, _largest_gap(episodes)
    return ListCutoff(
        alpha=alpha,
        margin=margin,
        max_k=cap,
        figures=list_figures(episodes, margin, cap),
        fixed_k=fit_fixed_k(episodes, alpha),
    )


def fit_fixed_k(episodes: Episodes, alpha: float) -> int | None:
    """Least length of lists of one length with the same bound; None if none has it."""
    ranks = _flat(episodes.tool_ranks)
    k = least_margin(ranks, _weights(episodes), len(episodes.present), alpha)
    return None if k is None else max(1, int(k))


def list_figures(episodes: Episodes, margin: float, max_k: int) -> ListFigures:
    """What a margin with a cap gives.

    Raises:
        CalibrationError: If there is no query with a relevant tool.
    """
    n = len(episodes.present)
    if not n:
        raise CalibrationError("queries must have relevant tools to measure lists, got none")
    gaps, ranks = _flat(episodes.tool_gaps), _flat(episodes.tool_ranks)
    is_missed = (gaps > margin) | (ranks > max_k)
    # Gaps of hits are kept in float32.
    edge = np.nextafter(np.float32(margin), np.float32(np.inf))
    lengths = [np.searchsorted(gaps, edge, side="right") for gaps in episodes.hit_gaps]
    return ListFigures(
        missed=float(_weights(episodes)[is_missed].sum() / n),
        mean_length=float(np.minimum(lengths, max_k).mean()),
        queries=n,
    )


def _margin(episodes: Episodes, alpha: float, cap: int) -> float | None:
    gaps, ranks = _flat(episodes.tool_gaps), _flat(episodes.tool_ranks)
    reached = np.where(ranks <= cap, gaps, np.inf)
    return least_margin(reached, _weights(episodes), len(episodes.present), alpha)


def _largest_gap(episodes: Episodes) -> float:
    return max(float(gaps.max(initial=0.0)) for gaps in episodes.hit_gaps)


def _flat(parts: tuple[Doubles, ...]) -> Doubles:
    return np.concatenate([*parts, np.empty(0)])


def _weights(episodes: Episodes) -> Doubles:
    """(t,) one over the number of relevant tools of the query, for each of its tools."""
    return _flat(tuple(np.full(len(gaps), 1 / len(gaps)) for gaps in episodes.tool_gaps))
