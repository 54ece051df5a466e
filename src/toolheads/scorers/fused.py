"""What a fusion adds to the dense scores over one corpus. See `toolheads.heads.Fusion`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolheads.arrays import Floats
from toolheads.domain import Tool
from toolheads.heads import Fusion
from toolheads.lexical import FieldedIndex, Match
from toolheads.scorers.exact import Doubles
from toolheads.scorers.spread import Spread

LEAST_SHARE = 1e-6
"""A deviation of lexical scores below this share of the best one is the rounding of equal scores:
a query whose words all tools have alike says nothing."""


@dataclass(frozen=True)
class AddedParts:
    """What is added to the score of one tool."""

    lexical: float
    terms: tuple[Match, ...]
    """The shared words, in units of the score; they add up to `lexical`."""
    hubness: float


class FusedTools:
    """Adds shared words and hubness to dense scores, in units of their spread.

    Never changes, so threads may share it.

    Args:
        fusion: What is mixed.
        tools: n tools.
        rows: (n, d) float32, the folded projections of the tools.
        hubs: (n,) hubness in standard deviations; None unless the fusion has hubness.
    """

    def __init__(
        self, fusion: Fusion, tools: Sequence[Tool], rows: Floats, hubs: Doubles | None
    ) -> None:
        self._fusion = fusion
        self._spread = Spread(rows)
        self._size = len(rows)
        self._hubs = hubs
        if fusion.lexical is not None:
            self._index = FieldedIndex(tools, fusion.lexical.settings)
            self._folded = self._index.folded(fusion.lexical.fields)

    def added(self, text: str, whole: Floats) -> Doubles:
        """What is added to the scores of one query.

        Args:
            text: The query.
            whole: (d,) float32, its projection.

        Returns:
            (n,) float64.
        """
        spread = self._spread.of(whole)
        added = np.zeros(self._size)
        if self._fusion.lexical is not None:
            scale, scores = self._lexical(text)
            added += (self._fusion.lexical.weight * spread * scale) * scores
        if self._fusion.hubness is not None and self._hubs is not None:
            added -= (self._fusion.hubness.weight * spread) * self._hubs
        return added

    def parts(self, text: str, whole: Floats, row: int) -> AddedParts:
        """What `added` adds to one tool, taken apart."""
        spread = self._spread.of(whole)
        lexical, hubness = 0.0, 0.0
        terms: tuple[Match, ...] = ()
        if self._fusion.lexical is not None:
            scale, scores = self._lexical(text)
            factor = self._fusion.lexical.weight * spread * scale
            lexical = factor * float(scores[row])
            matches = self._index.explain(text, row, self._fusion.lexical.fields)
            terms = tuple(replace(match, score=factor * match.score) for match in matches)
        if self._fusion.hubness is not None and self._hubs is not None:
            hubness = -self._fusion.hubness.weight * spread * float(self._hubs[row])
        return AddedParts(lexical, terms, hubness)

    def _lexical(self, text: str) -> tuple[float, Doubles]:
        """One over the deviation of the scores, and the (n,) scores."""
        scores = self._folded.scores([text])[0].astype(np.float64)
        return scale_of(scores), scores


def scale_of(scores: Doubles) -> float:
    """One over the standard deviation of the lexical scores of one query; 0 where they are equal.

    Args:
        scores: (n,) float64, >= 0, those of all tools.
    """
    deviation = float(scores.std())
    best = float(scores.max(initial=0.0))
    return 1 / deviation if deviation > LEAST_SHARE * best else 0.0
