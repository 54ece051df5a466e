"""How alike two tools are: by the rows they are ranked by, or by the words they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, Ids, as_rows
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import ShapeError
from toolheads.ports import Scorer
from toolheads.texts.formats import schema_parameters
from toolheads.texts.words import search_terms


class Similarity(Protocol):
    """Similarities of the tools of one catalogue, in [-1, 1]; 1 for equal tools, to the bit."""

    def to(self, row: int, rows: Ids | None = None) -> Floats:
        """Compare one tool with others.

        Args:
            row: Of one tool.
            rows: (m,) of others; None takes all tools, itself included.

        Returns:
            (m,) float32.
        """
        ...


SimilarityOf = Callable[[Sequence[Tool]], Similarity]
"""Makes the similarity of a catalogue."""


@runtime_checkable
class HasToolRows(Protocol):
    """A scorer that ranks by rows."""

    def tool_rows(self) -> Floats:
        """(n, e) rows of the tools that were indexed, in their order."""
        ...


class RowSimilarity:
    """Cosines of rows.

    Args:
        rows: (n, e), finite, of any length. A row of zeros is like nothing.
    """

    def __init__(self, rows: npt.ArrayLike) -> None:
        exact = as_rows(rows, width=None, name="rows").astype(np.float64)
        lengths = np.sqrt(np.square(exact).sum(axis=1, keepdims=True))
        # In float64, so that the rounding to float32 gives equal rows a cosine of exactly 1.
        self._units = np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0)

    def to(self, row: int, rows: Ids | None = None) -> Floats:
        """See `Similarity`."""
        units = self._units if rows is None else self._units[rows]
        cosines = units @ self._units[row]
        rounded: Floats = np.clip(cosines, -1.0, 1.0).astype(np.float32)
        return rounded


class WordSimilarity:
    """Share of distinct words: |A and B| / sqrt(|A| * |B|), a cosine of sets.

    Words are those of the name, the description, and the names of the parameters.

    Args:
        tools: n tools.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        vocabulary: dict[str, int] = {}
        sets = [
            sorted({vocabulary.setdefault(t, len(vocabulary)) for t in _words(tool)})
            for tool in tools
        ]
        sizes = np.array([len(words) for words in sets], np.int64)
        self._flat = np.array([word for words in sets for word in words], np.int64)
        self._ends = np.concatenate([[0], np.cumsum(sizes)])
        self._sizes = sizes
        self._vocabulary_size = len(vocabulary)

    def to(self, row: int, rows: Ids | None = None) -> Floats:
        """See `Similarity`."""
        if rows is None:
            rows = np.arange(len(self._sizes))
        mine = np.zeros(self._vocabulary_size + 1, np.int64)
        mine[self._flat[self._ends[row] : self._ends[row + 1]]] = 1
        shared = np.concatenate([[0], np.cumsum(mine[self._flat])])
        both = shared[self._ends[rows + 1]] - shared[self._ends[rows]]
        cosines: Floats = (both / np.sqrt(self._sizes[rows] * self._sizes[row])).astype(np.float32)
        return cosines


def by_embedding(embedder: Embedder) -> SimilarityOf:
    """Similarity by the frozen vectors of the whole texts of tools."""
    return lambda tools: RowSimilarity(embedder.tools(tools)["text"])


def similarity_of(scorer: Scorer, tools: Sequence[Tool]) -> Similarity:
    """The similarity that goes with a scorer: by its rows where it has some, else by words.

    Args:
        scorer: Has indexed the tools.
        tools: n tools.

    Raises:
        ShapeError: If the scorer's rows are not finite or not one for each tool.
    """
    if not isinstance(scorer, HasToolRows):
        return WordSimilarity(tools)
    rows = scorer.tool_rows()
    if len(rows) != len(tools):
        msg = f"tool_rows of scorer {scorer.name} must have {len(tools)} rows, got {len(rows)}"
        raise ShapeError(msg)
    return RowSimilarity(rows)


def _words(tool: Tool) -> list[str]:
    """Never empty, so that tools of odd names are alike only if they are equal."""
    parameters = [name for name, _ in schema_parameters(tool.input_schema)]
    text = "\n".join([tool.name, tool.description, *parameters])
    return search_terms(text, with_singles=False) or [tool.name]
