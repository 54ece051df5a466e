"""A scorer whose rows lie in a vector index: what is there already is not embedded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from toolheads.arrays import Floats
from toolheads.domain import Hit, Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError
from toolheads.identity import Fingerprint
from toolheads.ports import VectorIndex
from toolheads.scorers.fused import Words
from toolheads.scorers.indexed import IndexedRows
from toolheads.scorers.indexed_corpus import DEPTH, IndexedCorpus, gathered, spread_of
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.scorers.recipe import Recipe
from toolheads.scorers.vectors import check_k
from toolheads.texts import tool_view_texts

KeyOf = Callable[[Sequence[str]], str]
"""The key of the row that is made of a tool's texts, one for each view."""


class IndexBackedScorer:
    """Scores as `VectorScorer` does, to the bit over an exact index. See `toolheads.ports.Scorer`.

    Only tools whose key the index lacks are embedded and projected; no other row is written.

    Args:
        name: Short name for reports.
        embedder: Gives the embeddings.
        recipe: What scores are made of.
        index: Holds the rows; owned by the caller.
        key_of: Names rows.
        ranks: Mixes words in by rank; None does as the recipe's fusion says.
        depth: How many rows the index is asked for at first.
    """

    def __init__(
        self,
        name: str,
        embedder: Embedder,
        recipe: Recipe,
        index: VectorIndex,
        key_of: KeyOf,
        *,
        ranks: RankFusion | None = None,
        depth: int = DEPTH,
    ) -> None:
        self._name = name
        self._embedder, self._recipe, self._index = embedder, recipe, index
        self._key_of, self._ranks, self._depth = key_of, ranks, depth
        self._corpus: tuple[tuple[Tool, ...], IndexedCorpus] | None = None

    @property
    def name(self) -> str:
        """Short name for reports."""
        return self._name

    @property
    def recipe(self) -> Recipe:
        """What the scores are made of, apart from any corpus."""
        return self._recipe

    @property
    def ranks(self) -> RankFusion | None:
        """How words are mixed in by rank; None where they are not."""
        return self._ranks

    @property
    def fingerprint(self) -> Fingerprint:
        """Encoder and text settings of the vectors."""
        return self._embedder.fingerprint

    def tool_rows(self) -> Floats:
        """(n, e) float32, the row of each tool as the index holds it."""
        _, corpus = self._indexed()
        rows = corpus.rows
        return gathered(self._index, [rows.keys[place] for place in rows.row_of.tolist()])

    def index(self, tools: Sequence[Tool]) -> None:
        """Take over a corpus: embed and project what is new in it, and remove what is gone."""
        corpus = tuple(tools)
        if not corpus:
            msg = "tools must hold at least one tool, got none"
            raise ConfigError(msg)
        views, texts = list(self._recipe.tool_weights), self._embedder.texts
        keys = [self._key_of(tool_view_texts(tool, views, texts)) for tool in corpus]
        words = Words.of(self._recipe.fusion, corpus) if self._recipe.fusion else None
        there = self._index.keys()
        new = {key: tool for key, tool in zip(keys, corpus, strict=True) if key not in there}
        if new:
            self._index.apply(list(new), self._recipe.rows(self._embedder, list(new.values())))
        rows = IndexedRows.of(keys, self._recipe.longest)
        spread = spread_of(self._index, rows)
        self._corpus = corpus, IndexedCorpus(self._recipe, rows, spread, words, self._ranks)
        self._index.apply([], np.empty((0, self._recipe.width), np.float32), there - set(keys))

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools for each query. See `toolheads.ports.Scorer`."""
        check_k(k)
        tools, corpus = self._indexed()
        texts = [query.text for query in queries]
        projections = self._recipe.queries(self._embedder, texts, keep=True)
        ranked = []
        for row, text in enumerate(texts):
            search = corpus.search(self._index, text, projections, row)
            rows, scores = search.top(int(k), depth=self._depth)
            ranked.append(
                [Hit(tools[i], float(score)) for i, score in zip(rows, scores, strict=True)]
            )
        return ranked

    def _indexed(self) -> tuple[tuple[Tool, ...], IndexedCorpus]:
        if self._corpus is None:
            msg = f"{self._name} must have a corpus, got none; call index(tools) first"
            raise ConfigError(msg)
        return self._corpus
