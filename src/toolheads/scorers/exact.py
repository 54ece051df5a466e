"""Exact search over projected tools: arrays in, rows and scores out. Knows no text and no model.

A BLAS sums in an order that depends on the shape of the product, so the last bits of a plain
product depend on how many queries are asked at once and on where a tool stands. Here the product
only finds candidates, with its worst rounding error as slack; these are scored again, one by one
in float64. What comes out is a function of one query and one tool, and equal tools have equal
scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, Ids, pieces
from toolheads.heads import Head
from toolheads.scorers.best import best
from toolheads.scorers.folding import folded_rows
from toolheads.scorers.row_file import let_go

Doubles = npt.NDArray[np.float64]

Multiply = Callable[[Floats, Floats], Floats]
"""(b, d) and (t, d) float32 → (b, t) float32, all products of two rows, an array of its own."""

Added = Callable[[int], Doubles]
"""Row of a query → (n,) what is added to its scores: a function of that query and the corpus, to
the bit, and equal for equal tools."""

_BLOCK_ENTRIES = 1 << 24
"""Entries of the largest product that is held at once; 64 MB in float32."""


def multiplied(one: Floats, two: Floats) -> Floats:
    """All products of two rows, by the BLAS of numpy. See `Multiply`."""
    product: Floats = one @ two.T
    return product


_EPS = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class QueryProjections:
    """Projections of q queries and of their clauses, with the weights of the two views.

    Attributes:
        whole: (q, d) float32, the whole texts.
        clauses: (m, d) float32, the clauses of all queries in order.
        offsets: (q + 1,) int64; the clauses of query i are rows offsets[i]:offsets[i + 1].
        whole_weight: Weight of the whole text.
        clause_weight: Weight of the best clause; a query without clauses counts with its whole
            text here too, so that scores of all queries are on one scale.
        clause_temperature: Softens the best clause, see `soft_maximum`; 0 is the best itself.
    """

    whole: Floats
    clauses: Floats
    offsets: Ids
    whole_weight: float
    clause_weight: float
    clause_temperature: float = 0.0

    def __len__(self) -> int:
        return len(self.whole)

    def of(self, row: int) -> tuple[Floats, Floats]:
        """(d,) the whole text and (c, d) the clauses of one query."""
        return self.whole[row], self.clauses[self.offsets[row] : self.offsets[row + 1]]


class ProjectedTools:
    """One row for each tool of a corpus: the weighted sum of the projections of its views.

    Args:
        views: View → (n, d) float32 embeddings, rows in the order of the corpus.
        weights: View → weight; all of `views`.
        head: Projects the embeddings.
    """

    def __init__(
        self, views: Mapping[str, Floats], weights: Mapping[str, float], head: Head
    ) -> None:
        self._take(folded_rows(views, weights, head))

    @classmethod
    def of_rows(cls, rows: Floats) -> ProjectedTools:
        """Take (n, e) float32 rows that are made already; they may be a mapped file."""
        tools = cls.__new__(cls)
        tools._take(rows)
        return tools

    def _take(self, rows: Floats) -> None:
        self._rows = rows
        longest = 0.0
        for piece in pieces(*rows.shape):
            longest = max(longest, float(np.linalg.norm(rows[piece], axis=1).max()))
            let_go(rows)
        self.slack = product_slack(rows.shape[1], longest)
        """See `product_slack`."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Floats:
        """(n, e) float32, one row for each tool; not to be written to."""
        return self._rows

    def scores(self, queries: QueryProjections, added: Added | None = None) -> Floats:
        """Score every tool for every query.

        Args:
            queries: The queries.
            added: What is added to the scores of each; None for nothing.

        Returns:
            (q, n) float32; the last bits depend on q and n.
        """
        scores = np.empty((len(queries), len(self)), np.float32)
        for block in self._blocks(queries):
            scores[block] = self._block_scores(queries, block)
            if added is not None:
                for row in range(block.start, block.stop):
                    scores[row] += added(row)
        return scores

    def top(
        self, queries: QueryProjections, k: int, added: Added | None = None
    ) -> Iterator[tuple[Ids, Doubles]]:
        """Find the k best tools for each query.

        Args:
            queries: The queries.
            k: How many.
            added: What is added to the scores of each; None for nothing.

        Yields:
            For each query, (min(k, n),) rows and scores in float64, best first, ties by row.
        """
        return best(self.asked(queries, added), k)

    def asked(
        self,
        queries: QueryProjections,
        added: Added | None = None,
        multiply: Multiply = multiplied,
    ) -> Asked:
        """The queries against these tools, for `toolheads.scorers.best`.

        Args:
            queries: The queries.
            added: What is added to the scores of each; None for nothing.
            multiply: Multiplies rows in float32, as exactly as a BLAS.
        """
        return Asked(self, queries, added, multiply)

    def parts(
        self, queries: QueryProjections, row: int, candidates: Ids
    ) -> tuple[Doubles, Doubles | None]:
        """The two views of one query apart, before they are weighed.

        Returns:
            (c,) products of the whole text with these tools, and (c,) those of the best clause;
            None where clauses do not count.
        """
        at_once = max(1, _BLOCK_ENTRIES // (8 * self._rows.shape[1]))
        text = np.empty(len(candidates))
        best = np.empty(len(candidates)) if queries.clause_weight else None
        for start in range(0, len(candidates), at_once):
            part = slice(start, start + at_once)
            of_text, of_clauses = exact_parts(queries, row, self._rows[candidates[part]])
            text[part] = of_text
            if best is not None:
                best[part] = of_clauses
        return text, best

    def _blocks(self, queries: QueryProjections) -> Iterator[slice]:
        """Runs of queries whose product, clauses included, stays within the block's memory."""
        most = max(1, _BLOCK_ENTRIES // max(1, len(self)))
        start = 0
        for row in range(1, len(queries) + 1):
            clauses = int(queries.offsets[min(row + 1, len(queries))] - queries.offsets[start])
            if row == len(queries) or row - start + 1 + clauses > most:
                yield slice(start, row)
                start = row

    def _block_scores(
        self,
        queries: QueryProjections,
        block: slice,
        tile: slice = slice(None),
        multiply: Multiply = multiplied,
    ) -> Floats:
        """(b, t) float32."""
        tools = self._rows[tile]  # (t, e)
        scores = multiply(queries.whole[block], tools)  # (b, t)
        if queries.clause_weight:
            offsets = queries.offsets[block.start : block.stop + 1]
            clauses = multiply(queries.clauses[offsets[0] : offsets[-1]], tools)  # (c, t)
            of_query = zip(offsets - offsets[0], offsets[1:] - offsets[0], strict=False)
            for whole, (a, b) in zip(scores, of_query, strict=True):
                finest = soft_maximum(clauses[a:b], queries.clause_temperature) if b > a else whole
                weighted = np.float32(queries.clause_weight) * finest
                whole *= np.float32(queries.whole_weight)
                whole += weighted
        else:
            scores *= np.float32(queries.whole_weight)
        let_go(tools)
        return scores


class Asked:
    """Queries against projected tools. See `toolheads.scorers.best.Scored`.

    Args:
        tools: The tools.
        queries: The queries.
        added: What is added to the scores of each; None for nothing.
        multiply: See `ProjectedTools.asked`.
    """

    def __init__(
        self,
        tools: ProjectedTools,
        queries: QueryProjections,
        added: Added | None,
        multiply: Multiply,
    ) -> None:
        self._tools, self._queries, self._added = tools, queries, added
        self._multiply = multiply
        self._more: dict[int, Doubles] = {}

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def tools(self) -> int:
        """See `Scored`."""
        return len(self._tools)

    @property
    def has_more(self) -> bool:
        """See `Scored`."""
        return self._added is not None

    def vectors(self, rows: slice) -> int:
        """See `Scored`."""
        wholes = int(rows.stop) - int(rows.start)
        if not self._queries.clause_weight:
            return wholes
        return wholes + int(self._queries.offsets[rows.stop] - self._queries.offsets[rows.start])

    def begin(self, rows: slice) -> None:
        """See `Scored`."""
        if self._added is not None:
            self._more = {row: self._added(row) for row in range(rows.start, rows.stop)}

    def approximate(self, rows: slice, tile: slice) -> Floats:
        """See `Scored`."""
        scores = self._tools._block_scores(self._queries, rows, tile, self._multiply)
        if self._added is not None:
            for row, found in zip(range(rows.start, rows.stop), scores, strict=True):
                found += self._more[row][tile]
        return scores

    def slack(self, row: int) -> float:
        """See `Scored`."""
        queries = self._queries
        slack = self._tools.slack * (queries.whole_weight + queries.clause_weight)
        # Exponential and logarithm of a soft maximum, and the sum, round on their own.
        return slack + 64 * _EPS * queries.clause_weight * queries.clause_temperature

    def exact(self, row: int, candidates: Ids) -> Doubles:
        """See `Scored`."""
        exact = weighed(self._queries, *self._tools.parts(self._queries, row, candidates))
        let_go(self._tools.rows)
        if self._added is not None:
            more = self._more[row] if row in self._more else self._added(row)
            exact += more[candidates]
        return exact


def exact_parts(
    queries: QueryProjections, row: int, tools: Floats
) -> tuple[Doubles, Doubles | None]:
    """The two views of one query apart, for rows at hand; what a row gets depends on it alone.

    Args:
        queries: The queries.
        row: Which of them.
        tools: (c, d) float32 rows of tools.

    Returns:
        (c,) products of the whole text with these tools, and (c,) those of the best clause;
        None where clauses do not count.
    """
    whole, clauses = (v.astype(np.float64) for v in queries.of(row))
    rows = tools.astype(np.float64)  # (c, d)
    # Not a matrix product: a sum over the last axis treats every row alike.
    text: Doubles = (rows * whole).sum(axis=1)
    if not queries.clause_weight:
        return text, None
    of_clauses = [(rows * clause).sum(axis=1) for clause in clauses]
    if not of_clauses:
        return text, text
    return text, soft_maximum(np.stack(of_clauses), queries.clause_temperature)


def weighed(queries: QueryProjections, text: Doubles, clause: Doubles | None) -> Doubles:
    """(c,) dense scores out of the two views that `exact_parts` gives."""
    scores: Doubles = queries.whole_weight * text
    if clause is not None:
        scores += queries.clause_weight * clause
    return scores


def product_slack(width: int, longest: float) -> float:
    """Twice the worst error of a float32 dot product of a row with one of length 1."""
    return 2 * width * _EPS * longest


_Real = TypeVar("_Real", np.float32, np.float64)


def soft_maximum(scores: npt.NDArray[_Real], temperature: float) -> npt.NDArray[_Real]:
    """Max + T * ln(mean(exp((s - max) / T))) over clauses: between their mean and their maximum.

    Args:
        scores: (c, n), c >= 1.
        temperature: T >= 0; 0 gives the maximum itself.

    Returns:
        (n,) of the same dtype.
    """
    best: npt.NDArray[_Real] = scores.max(axis=0)
    if not temperature:
        return best
    with np.errstate(under="ignore"):
        share = np.exp((scores - best) / scores.dtype.type(temperature)).mean(axis=0)
    softened: npt.NDArray[_Real] = best + scores.dtype.type(temperature) * np.log(share)
    return softened
