"""Reciprocal rank fusion: mixes two orders by the ranks in them, whatever their scores mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from toolheads.arrays import Ids
from toolheads.errors import ConfigError
from toolheads.scorers.exact import Doubles


@dataclass(frozen=True)
class RankFusion:
    """A tool scores 1 / (constant + rank) in each order.

    Cormack et al. (2009), Reciprocal Rank Fusion outperforms Condorcet and individual Rank
    Learning Methods, section 2.
    """

    constant: float = 60.0
    """Holds the first ranks back, finite and > 0."""
    depth: int = 100
    """Ranks that count, >= 1; a tool below them in an order gets nothing from it."""
    lexical_weight: float = 1.0
    """Of the order by words against that by vectors, finite and > 0."""

    def __post_init__(self) -> None:
        for name in ("constant", "lexical_weight"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or value <= 0:
                msg = f"{name} must be a finite number > 0, got {value!r:.80}"
                raise ConfigError(msg)
        if type(self.depth) is not int or self.depth < 1:
            msg = f"depth must be a whole number >= 1, got {self.depth!r:.80}"
            raise ConfigError(msg)

    def fused(self, size: int, dense: tuple[Ids, Doubles], lexical: tuple[Ids, Doubles]) -> Doubles:
        """Score all tools by their ranks in two orders.

        Equal scores have equal ranks, that of the first of them. So that equal tools score alike,
        those that share the last place of an order, beyond which some were left out, get nothing.

        Args:
            size: n, the number of tools.
            dense: Rows and scores, best first: `depth` + 1 of them, or all there are.
            lexical: The same by words; tools that share no word are not among them.

        Returns:
            (n,) float64, 0 for tools in neither order.
        """
        fused = np.zeros(size)
        for weight, (rows, scores) in ((1.0, dense), (self.lexical_weight, lexical)):
            counted = min(len(rows), self.depth)
            if len(rows) > self.depth:
                counted = int(np.count_nonzero(scores > scores[self.depth]))
            front = scores[:counted]
            ranks = np.searchsorted(-front, -front, side="left") + 1
            fused[rows[:counted]] += weight / (self.constant + ranks)
        return fused


def best_first(scores: Doubles, candidates: Ids, k: int) -> tuple[Ids, Doubles]:
    """The k best of (c,) candidates in (n,) scores, best first, ties by row."""
    if len(candidates) > k:
        kept = scores[candidates]
        least = np.partition(kept, len(kept) - k)[len(kept) - k]
        candidates = candidates[kept >= least]
    candidates = np.sort(candidates)
    order = np.argsort(-scores[candidates], kind="stable")[:k]
    return candidates[order], scores[candidates[order]]
