"""Ranks tools that a caller gives, which need not be of the catalogue."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.domain import Tool
from toolheads.errors import EncoderError, IndexStoreError
from toolheads.lexical import FieldedIndex
from toolheads.retrieval.building import Scoring
from toolheads.retrieval.encoder_watch import EncoderWatch, one_line
from toolheads.retrieval.workers import Workers
from toolheads.scorers.exact import Doubles, QueryProjections, exact_parts, weighed
from toolheads.scorers.fused import FusedTools, Words
from toolheads.scorers.rank_fusion import best_first
from toolheads.scorers.recipe import Recipe
from toolheads.scorers.spread import Spread

_MOST_ROWS = 4096
"""Rows of such tools that are kept: a caller ranks the same ones again and again."""


class GivenTools:
    """Scores lists of tools as `VectorScorer` does.

    Args:
        scoring: How they are scored.
        recipe: Its recipe.
        watch: Of the encoder.
        embedded: Gives the keys whose rows the index has.
    """

    def __init__(
        self,
        scoring: Scoring,
        recipe: Recipe,
        watch: EncoderWatch,
        embedded: Callable[[], frozenset[str]],
    ) -> None:
        self._scoring, self._recipe, self._watch = scoring, recipe, watch
        self._embedded = embedded
        self._workers: Workers[Floats] = Workers("toolheads-rank", workers=2, waiting=16)
        self._mutex = threading.Lock()
        self._rows: OrderedDict[tuple[str, str], Floats] = OrderedDict()

    def scores(
        self,
        text: str,
        queries: QueryProjections,
        tools: Sequence[Tool],
        *,
        scope: str,
        deadline_s: float,
    ) -> Doubles | str:
        """(n,) float64 scores of n tools, or in one line why there are none."""
        rows = self._rows_of(tools, scope, deadline_s)
        if isinstance(rows, str):
            return rows
        dense = weighed(queries, *exact_parts(queries, 0, rows))
        ranks, fusion = self._scoring.ranks, self._recipe.fusion
        if fusion is None:
            return dense
        words = Words.of(fusion, tools)
        if ranks is not None and words is not None:
            lexical = words.folded.scores([text])[0].astype(np.float64)
            every = np.arange(len(tools))
            by_vectors = best_first(dense, every, ranks.depth + 1)
            by_words = best_first(lexical, np.flatnonzero(lexical), ranks.depth + 1)
            return ranks.fused(len(tools), by_vectors, by_words)
        spread = Spread(rows, self._recipe.longest)
        fused = FusedTools(fusion, len(tools), spread, words)
        scores: Doubles = dense + fused.added(text, queries.whole[0])
        return scores

    def close(self) -> None:
        """Take no more lists."""
        self._workers.close()

    def forget(self) -> None:
        """Drop all rows: other weights made them."""
        with self._mutex:
            self._rows.clear()

    def _rows_of(self, tools: Sequence[Tool], scope: str, deadline_s: float) -> Floats | str:
        keys = [(scope, key) for key in self._scoring.row_keys(tools)]
        with self._mutex:
            found = {key: self._rows[key] for key in keys if key in self._rows}
            for key in found:
                self._rows.move_to_end(key)
        found |= self._stored([key for key in keys if key not in found])
        new = {key: tool for key, tool in zip(keys, tools, strict=True) if key not in found}
        if new:
            made = self._made(list(new.values()), deadline_s)
            if isinstance(made, str):
                return made
            found |= dict(zip(new, made, strict=True))
            with self._mutex:
                self._rows |= {key: found[key] for key in new}
                while len(self._rows) > _MOST_ROWS:
                    self._rows.popitem(last=False)
        return np.stack([found[key] for key in keys])

    def _stored(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Floats]:
        """Rows of tools that are served too."""
        embedded, index = self._embedded(), self._scoring.index
        there = [key for key in dict.fromkeys(keys) if key[1] in embedded]
        if index is None or not there:
            return {}
        try:
            return dict(zip(there, index.gather([key for _, key in there]), strict=True))
        except (IndexStoreError, KeyError):  # they are embedded as others are
            return {}

    def _made(self, tools: Sequence[Tool], deadline_s: float) -> Floats | str:
        if not self._watch.is_usable:
            return self._watch.breaker.reason or "the encoder failed"
        if deadline_s <= 0:
            return "the tools are not cached and may not wait for the encoder"
        future = self._workers.submit(lambda: self._made_rows(tools))
        if future is None:
            return "too many lists of tools wait for the encoder"
        try:
            error = future.exception(timeout=deadline_s)
        except TimeoutError:
            future.cancel()
            return f"the encoder gave no vectors of {len(tools)} tools within {deadline_s:g} s"
        except CancelledError:
            return "the encoder was busy with other lists of tools"
        return one_line(error) if error is not None else future.result()

    def _made_rows(self, tools: Sequence[Tool]) -> Floats:
        embedder = self._watch.embedder
        if embedder is None:
            raise EncoderError("the encoder is being started")
        return self._recipe.rows(embedder, tools)


def scores_by_words(text: str, tools: Sequence[Tool], scoring: Scoring) -> Doubles:
    """(n,) float64 scores of n tools by the words that they share with a query."""
    part = scoring.lexical
    index = FieldedIndex(tools, part.settings)
    scores: Doubles = index.weighted([text], part.fields)[0].astype(np.float64)
    return scores


def ranked(scores: Doubles, k: int | None) -> tuple[Ids, Doubles]:
    """Rows and scores, best first, ties by row; all of them for None."""
    return best_first(scores, np.arange(len(scores)), len(scores) if k is None else k)
