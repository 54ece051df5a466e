"""A corpus over a vector index, ready to be searched: rows, spread, words, and how they mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from toolheads.arrays import Bools, Floats, Ids
from toolheads.errors import ConfigError
from toolheads.ports import VectorIndex
from toolheads.scorers.exact import Doubles, QueryProjections
from toolheads.scorers.fused import FusedTools, Words
from toolheads.scorers.indexed import IndexedRows, IndexedSearch
from toolheads.scorers.rank_fusion import RankFusion, best_first
from toolheads.scorers.recipe import Recipe
from toolheads.scorers.spread import Spread

DEPTH = 100
"""How many rows an index is asked for at first."""

_GATHERED_AT_ONCE = 4096
"""Rows that are taken from the index in one call."""


class Search(Protocol):
    """One query against one corpus."""

    def top(self, k: int, *, depth: int = DEPTH) -> tuple[Ids, Doubles]:
        """(min(k, allowed),) rows of tools and scores, best first, ties by row."""
        ...

    def score(self, tools: Ids) -> Doubles:
        """(c,) scores of some tools."""
        ...


@dataclass(frozen=True)
class IndexedCorpus:
    """n tools whose rows lie in an index. Never changes, so threads may share it."""

    recipe: Recipe
    rows: IndexedRows
    spread: Spread
    """Of the rows of the tools that have one."""
    words: Words | None
    """None unless words are mixed in."""
    ranks: RankFusion | None = None
    """Mixes words in by ranks, in place of the recipe's fusion."""

    def __post_init__(self) -> None:
        check_recipe(self.recipe)

    def search(
        self,
        index: VectorIndex,
        text: str,
        queries: QueryProjections,
        row: int = 0,
        *,
        allowed: Bools | None = None,
    ) -> Search:
        """Search for one query.

        Args:
            index: Holds the rows.
            text: The query.
            queries: Its projections, among others perhaps.
            row: Which of these it is.
            allowed: (n,) which tools may be found; None for all.
        """
        if self.ranks is not None and self.words is not None:
            return _RankedSearch(self, index, text, queries, row, allowed)
        added = None
        if self.recipe.fusion is not None:
            fused = FusedTools(self.recipe.fusion, len(self.rows), self.spread, self.words)
            added = fused.added(text, queries.whole[row])
        return IndexedSearch(index, self.rows, queries, row, added=added, allowed=allowed)


class _RankedSearch:
    """A search that mixes ranks: both orders are found first, then mixed."""

    def __init__(
        self,
        corpus: IndexedCorpus,
        index: VectorIndex,
        text: str,
        queries: QueryProjections,
        row: int,
        allowed: Bools | None,
    ) -> None:
        ranks, words = corpus.ranks, corpus.words
        if ranks is None or words is None:
            raise ConfigError("ranks and words must be there to be mixed, got None")
        size = len(corpus.rows)
        self._allowed = np.ones(size, np.bool_) if allowed is None else allowed
        dense = IndexedSearch(index, corpus.rows, queries, row, allowed=allowed)
        lexical = words.folded.scores([text])[0].astype(np.float64)
        sharing = np.flatnonzero((lexical > 0) & self._allowed)
        self._fused = ranks.fused(
            size, dense.top(ranks.depth + 1), best_first(lexical, sharing, ranks.depth + 1)
        )

    def top(self, k: int, *, depth: int = DEPTH) -> tuple[Ids, Doubles]:
        return best_first(self._fused, np.flatnonzero(self._allowed), k)

    def score(self, tools: Ids) -> Doubles:
        scores: Doubles = self._fused[tools]
        return scores


def spread_of(index: VectorIndex, rows: IndexedRows) -> Spread:
    """Spread of the rows of all tools that have one, read from the index."""
    keys = [rows.keys[place] for place in rows.row_of[rows.order].tolist()]
    width = index.width
    first = max(width, _GATHERED_AT_ONCE)
    spread = Spread(gathered(index, keys[:first]), rows.longest)
    none = np.empty((0, width), np.float32)
    for start in range(first, len(keys), _GATHERED_AT_ONCE):
        spread = spread.changed(gathered(index, keys[start : start + _GATHERED_AT_ONCE]), none)
    return spread


def gathered(index: VectorIndex, keys: Sequence[str]) -> Floats:
    """(n, d) float32 rows of n keys, of which some may be equal."""
    if not keys:
        return np.empty((0, index.width), np.float32)
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return index.gather(list(places))[[places[key] for key in keys]]


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe that cannot be had over an index.

    Raises:
        ConfigError: If it has hubness, which compares all pairs of tools.
    """
    hubness = recipe.fusion.hubness if recipe.fusion is not None else None
    if hubness is not None:
        msg = (
            f"fusion.hubness must be left out over an index, got weight {hubness.weight:g}; it "
            "compares all pairs of tools"
        )
        raise ConfigError(msg)
