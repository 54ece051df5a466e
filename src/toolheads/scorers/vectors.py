"""What the scorers over embeddings have in common: embed, project, fold, scan, cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolheads.arrays import Floats
from toolheads.cutoff import CutoffSettings
from toolheads.domain import Hit, Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError
from toolheads.heads import Fusion, Head, Views
from toolheads.identity import Fingerprint
from toolheads.scorers.exact import (
    Added,
    Asked,
    Doubles,
    Multiply,
    ProjectedTools,
    QueryProjections,
    multiplied,
)
from toolheads.scorers.explanation import Explanation
from toolheads.scorers.folding import projected_once
from toolheads.scorers.fused import AddedParts, FusedTools, Words
from toolheads.scorers.hubness import hubness
from toolheads.scorers.rank_fusion import RankFusion, best_first
from toolheads.scorers.recipe import Recipe
from toolheads.scorers.row_file import collected
from toolheads.scorers.spread import Spread
from toolheads.texts import TOOL_VIEWS, split_clauses

_EMBEDDED_ENTRIES = 1 << 26
"""Of the embeddings that are held at once while a corpus is indexed; 256 MB in float32."""


@dataclass(frozen=True)
class _Corpus:
    tools: tuple[Tool, ...]
    projected: ProjectedTools
    fused: FusedTools | None
    words: Words | None

    def added(self, texts: Sequence[str], queries: QueryProjections) -> Added | None:
        """What is added to the scores of each query."""
        fused = self.fused
        if fused is None:
            return None
        return lambda row: fused.added(texts[row], queries.whole[row])


class VectorScorer:
    """Scores tools by products of projected embeddings. See `toolheads.ports.Scorer`.

    The score of a tool is w_text * s(whole)·T + w_clause * max over clauses of s(clause)·T with
    T = sum over tool views of w_view * a(view), where s and a are the two heads. T is folded into
    one stored row for each tool. A fusion adds shared words, see `toolheads.heads.Fusion`. The
    scan is exact; all texts of a call go to the embedder at once. Safe to share between threads
    as far as the embedder is.

    Args:
        name: Short name for reports.
        embedder: Gives the embeddings.
        state: Projects queries.
        action: Projects tools.
        views: Weights of the views.
        cutoff: How many hits `search` keeps.
        fusion: What is mixed into the scores; None leaves them as they are.
        ranks: Mixes the words of the fusion in by rank instead, and nothing else of it.
    """

    def __init__(
        self,
        name: str,
        embedder: Embedder,
        *,
        state: Head,
        action: Head,
        views: Views,
        cutoff: CutoffSettings,
        fusion: Fusion | None = None,
        ranks: RankFusion | None = None,
    ) -> None:
        self._name = name
        self._embedder = embedder
        self._recipe = Recipe(state, action, views, cutoff, fusion)
        self._cutoff = cutoff
        self._fusion = fusion
        self._ranks = ranks
        self._corpus: _Corpus | None = None

    @property
    def name(self) -> str:
        """Short name for reports."""
        return self._name

    @property
    def cutoff(self) -> CutoffSettings:
        """How many hits `search` keeps when it is not told."""
        return self._cutoff

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
        """(n, e) float32, the row of each tool as it was indexed; not to be written to."""
        return self._indexed().projected.rows

    def index(self, tools: Sequence[Tool]) -> None:
        """Embed and project a corpus. See `toolheads.ports.Scorer`."""
        corpus = tuple(tools)
        if not corpus:
            msg = "tools must hold at least one tool, got none"
            raise ConfigError(msg)
        weights = self._recipe.tool_weights
        embeddings: dict[str, Floats] = {}
        hub_views = self._hub_views(weights)
        entries = len(corpus) * len(weights) * self.fingerprint.encoder.width
        if hub_views or entries <= _EMBEDDED_ENTRIES:
            needed = {*weights, *hub_views}
            embeddings = self._embedder.tools(corpus, views=[v for v in TOOL_VIEWS if v in needed])
            own = {view: embeddings[view] for view in weights}
            projected = ProjectedTools(own, weights, self._recipe.action)
        else:
            at_once = max(1, _EMBEDDED_ENTRIES * len(corpus) // entries)
            parts = (corpus[at : at + at_once] for at in range(0, len(corpus), at_once))
            rows = (self._recipe.rows(self._embedder, part) for part in parts)
            projected = ProjectedTools.of_rows(collected(len(corpus), self._recipe.width, rows))
        fused, words = None, None
        if self._fusion is not None:
            hubs = self._hubs(weights, embeddings)
            spread = Spread(projected.rows, self._recipe.longest)
            words = Words.of(self._fusion, corpus)
            fused = FusedTools(self._fusion, len(corpus), spread, words, hubs)
        self._corpus = _Corpus(corpus, projected, fused, words)

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank the k best tools for each query. See `toolheads.ports.Scorer`."""
        return self._ranked([query.text for query in queries], k, keep=True)

    def search(self, text: str, k: int | None = None) -> list[Hit]:
        """Find the tools for one query.

        Args:
            text: The query as a person types it.
            k: How many; None lets the cut-off decide, which may be none at all.

        Returns:
            Hits, best first.

        Raises:
            ConfigError: If nothing is indexed, k < 1, or the text is blank.
        """
        return self.search_many([text], k)[0]

    def search_many(self, texts: Sequence[str], k: int | None = None) -> list[list[Hit]]:
        """Find the tools for several queries at once. See `search`."""
        for text in texts:
            check_text(text)
        # What people type stays out of the cache: it would grow without bound.
        if k is not None:
            return self._ranked(texts, k, keep=False)
        ranked = self._ranked(texts, self._cutoff.max_k, keep=False)
        return [hits[: self._cutoff.count([hit.score for hit in hits])] for hits in ranked]

    def scores(self, texts: Sequence[str]) -> Floats:
        """Score every tool for each text, to be mixed with other scores.

        Returns:
            (q, n) float32, tools in the order they were indexed; equal to the scores of `rank`
            to about 1e-6.
        """
        corpus = self._indexed()
        queries = self._projections(texts, keep=True)
        if self._ranks is not None:
            by_rank = list(self._fused_ranks(corpus, texts, queries, self._ranks))
            return np.array(by_rank, np.float32).reshape(len(texts), len(corpus.tools))
        return corpus.projected.scores(queries, corpus.added(texts, queries))

    def asked(self, texts: Sequence[str], multiply: Multiply = multiplied) -> Asked:
        """Training queries against the corpus, for `toolheads.scorers.best`.

        Args:
            texts: q queries; their vectors are kept in the embedder's cache.
            multiply: See `ProjectedTools.asked`.

        Raises:
            ConfigError: If nothing is indexed, or scores are made of ranks.
        """
        if self._ranks is not None:
            msg = "ranks must be None to score tile by tile, got scores that are made of ranks"
            raise ConfigError(msg)
        corpus = self._indexed()
        queries = self._projections(texts, keep=True)
        return corpus.projected.asked(queries, corpus.added(texts, queries), multiply)

    def explain(self, text: str, tool_id: str) -> Explanation:
        """Take the score of one tool for one query apart.

        Args:
            text: The query as a person types it.
            tool_id: Id of a tool of the corpus; of several with this id, the first.

        Raises:
            ConfigError: If nothing is indexed, the text is blank, or no tool has this id.
        """
        check_text(text)
        if self._ranks is not None:
            msg = "ranks must be None to take a score apart, got scores that are made of ranks"
            raise ConfigError(msg)
        corpus = self._indexed()
        ids = [tool.id for tool in corpus.tools]
        if tool_id not in ids:
            msg = f"tool_id must be the id of a tool of the corpus, got {tool_id!r:.80}"
            raise ConfigError(msg)
        row = ids.index(tool_id)
        queries = self._projections([text], keep=False)
        whole, clause = corpus.projected.parts(queries, 0, np.array([row]))
        score = queries.whole_weight * whole
        of_whole, of_clause = float(score[0]), 0.0
        if clause is not None:
            of_clause = float(queries.clause_weight * clause[0])
            score += queries.clause_weight * clause
        added = AddedParts(0.0, (), 0.0)
        if corpus.fused is not None:
            added = corpus.fused.parts(text, queries.whole[0], row)
            score += corpus.fused.added(text, queries.whole[0])[row]
        return Explanation(
            tool=corpus.tools[row],
            score=float(score[0]),
            whole=of_whole,
            clause=of_clause,
            best_clause=_best_clause(text, queries, corpus.projected.rows[row]),
            lexical=added.lexical,
            terms=added.terms,
            hubness=added.hubness,
        )

    def _ranked(self, texts: Sequence[str], k: int, *, keep: bool) -> list[list[Hit]]:
        check_k(k)
        corpus = self._indexed()
        queries = self._projections(texts, keep=keep)
        if self._ranks is None:
            ranked = corpus.projected.top(queries, int(k), corpus.added(texts, queries))
        else:
            everything = np.arange(len(corpus.tools))
            by_rank = self._fused_ranks(corpus, texts, queries, self._ranks)
            ranked = (best_first(scores, everything, int(k)) for scores in by_rank)
        return [
            [Hit(corpus.tools[row], float(score)) for row, score in zip(rows, scores, strict=True)]
            for rows, scores in ranked
        ]

    def _fused_ranks(
        self,
        corpus: _Corpus,
        texts: Sequence[str],
        queries: QueryProjections,
        ranks: RankFusion,
    ) -> Iterator[Doubles]:
        """(n,) scores by rank for each query."""
        if corpus.words is None:
            raise ConfigError("fusion must have lexical to mix ranks, got none")
        dense = corpus.projected.top(queries, ranks.depth + 1)
        lexical = corpus.words.folded.scores(texts).astype(np.float64)  # (q, n)
        for by_vectors, scores in zip(dense, lexical, strict=True):
            by_words = best_first(scores, np.flatnonzero(scores), ranks.depth + 1)
            yield ranks.fused(len(corpus.tools), by_vectors, by_words)

    def _hub_views(self, weights: Mapping[str, float]) -> tuple[str, str] | tuple[()]:
        """Views that hubness is measured by: the text, and what stands for a request."""
        if self._fusion is None or self._fusion.hubness is None:
            return ()
        return "text", "summary" if "summary" in weights else "text"

    def _hubs(
        self, weights: Mapping[str, float], embeddings: Mapping[str, Floats]
    ) -> Doubles | None:
        if self._fusion is None or self._fusion.hubness is None:
            return None
        action = self._recipe.action
        views = self._hub_views(weights)
        text, asked = (projected_once(embeddings[view], action) for view in views)
        return hubness(text, asked, self._fusion.hubness.neighbours)

    def _indexed(self) -> _Corpus:
        if self._corpus is None:
            msg = f"{self._name} must have a corpus, got none; call index(tools) first"
            raise ConfigError(msg)
        return self._corpus

    def _projections(self, texts: Sequence[str], *, keep: bool) -> QueryProjections:
        return self._recipe.queries(self._embedder, texts, keep=keep)


def _best_clause(text: str, queries: QueryProjections, tool: Floats) -> str | None:
    """The clause that fits a tool best; None where clauses do not count or there are none."""
    clauses = split_clauses(text) if queries.clause_weight else []
    return clauses[int((queries.clauses @ tool).argmax())] if clauses else None


def check_k(k: object) -> None:
    """Refuse what is no number of hits.

    Raises:
        ConfigError: If it is no whole number >= 1.
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        msg = f"k must be a whole number >= 1, got {k!r}"
        raise ConfigError(msg)


def check_text(text: object) -> None:
    """Refuse what is no query.

    Raises:
        ConfigError: If it is blank, no string, or holds a lone surrogate.
    """
    if not isinstance(text, str) or not text.strip():
        msg = f"text must have at least one character that is no space, got {text!r:.80}"
        raise ConfigError(msg)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as e:
        msg = f"text must be valid Unicode, got a lone surrogate at character {e.start}"
        raise ConfigError(msg) from e
