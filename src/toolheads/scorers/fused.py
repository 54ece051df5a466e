"""What a fusion adds to the dense scores over one corpus. See `toolheads.heads.Fusion`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolheads.arrays import Floats
from toolheads.domain import Tool
from toolheads.heads import Fusion
from toolheads.lexical import FieldedIndex, FoldedIndex, Match
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


@dataclass(frozen=True)
class Words:
    """The words of a corpus, to be mixed in. Never changes."""

    index: FieldedIndex
    """By field, to explain scores."""
    folded: FoldedIndex
    """With the fields weighed, to score."""

    @classmethod
    def of(cls, fusion: Fusion, tools: Sequence[Tool]) -> Words | None:
        """Count the words of n tools; None if the fusion mixes none in."""
        if fusion.lexical is None:
            return None
        index = FieldedIndex(tools, fusion.lexical.settings)
        return cls(index, index.folded(fusion.lexical.fields))


class FusedTools:
    """Adds shared words and hubness to dense scores, in units of their spread.

    Never changes, so threads may share it.

    Args:
        fusion: What is mixed.
        size: n, the number of tools.
        spread: Of their rows.
        words: Theirs; None unless the fusion mixes words in.
        hubs: (n,) hubness in standard deviations; None unless the fusion has hubness.
    """

    def __init__(
        self,
        fusion: Fusion,
        size: int,
        spread: Spread,
        words: Words | None,
        hubs: Doubles | None = None,
    ) -> None:
        self._fusion = fusion
        self._size = size
        self._spread = spread
        self._words = words
        self._hubs = hubs

    def added(self, text: str, whole: Floats) -> Doubles:
        """What is added to the scores of one query.

        Args:
            text: The query.
            whole: (d,) float32, its projection.

        Returns:
            (n,) float64.
        """
        spread = self._spread.of(whole)
        added: Doubles = np.zeros(self._size)
        if self._fusion.lexical is not None and self._words is not None:
            scores = self._words.folded.scores([text])[0].astype(np.float64)
            added = (self._fusion.lexical.weight * spread * scale_of(scores)) * scores
        if self._fusion.hubness is not None and self._hubs is not None:
            added -= (self._fusion.hubness.weight * spread) * self._hubs
        return added

    def parts(self, text: str, whole: Floats, row: int) -> AddedParts:
        """What `added` adds to one tool, taken apart."""
        spread = self._spread.of(whole)
        lexical, hubness = 0.0, 0.0
        terms: tuple[Match, ...] = ()
        if self._fusion.lexical is not None and self._words is not None:
            scores = self._words.folded.scores([text])[0].astype(np.float64)
            factor = self._fusion.lexical.weight * spread * scale_of(scores)
            lexical = factor * float(scores[row])
            matches = self._words.index.explain(text, row, self._fusion.lexical.fields)
            terms = tuple(replace(match, score=factor * match.score) for match in matches)
        if self._fusion.hubness is not None and self._hubs is not None:
            hubness = -self._fusion.hubness.weight * spread * float(self._hubs[row])
        return AddedParts(lexical, terms, hubness)


def scale_of(scores: Doubles) -> float:
    """One over the standard deviation of the lexical scores of one query; 0 where they are equal.

    Args:
        scores: (n,) float64, >= 0, those of all tools.
    """
    deviation = float(scores.std())
    best = float(scores.max(initial=0.0))
    return 1 / deviation if deviation > LEAST_SHARE * best else 0.0
