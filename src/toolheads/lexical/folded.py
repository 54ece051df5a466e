"""An index whose field weights are fixed: one impact for each term and tool, fastest to ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, Ids
from toolheads.lexical.normalisation import Doubles, mass_of, normalised
from toolheads.lexical.postings import Rows
from toolheads.lexical.settings import Normalise
from toolheads.lexical.spans import Spans
from toolheads.lexical.vocabulary import Vocabulary


class FoldedIndex:
    """Scores tools by the words they share with a query, fields weighed beforehand.

    Made by `FieldedIndex.folded`; its scores are those of `FieldedIndex.weighted`, to the bit.
    Never changes, so threads may share it.

    Args:
        vocabulary: The t terms.
        bounds: (t + 1,) entries bounds[i]:bounds[i + 1] are those of term i.
        rows: (e,) the tool of each entry, rising within a term.
        impacts: (e,) float32, what one mention of the term adds to the score of the tool, >= 0.
        most: (t,) float64, what one mention of each term can add.
        size: n, the number of tools.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        bounds: Ids,
        rows: Rows,
        impacts: Floats,
        most: Doubles,
        size: int,
    ) -> None:
        self._vocabulary = vocabulary
        self._bounds = bounds
        self._rows = rows
        self._impacts = impacts
        self._most = most
        self._size = size

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays; the vocabulary comes on top."""
        return sum(a.nbytes for a in (self._bounds, self._rows, self._impacts, self._most))

    def scores(self, texts: Sequence[str], *, normalise: Normalise = "none") -> Floats:
        """Score every tool for each text. See `FieldedIndex.weighted`.

        Returns:
            (q, n) float32, finite, >= 0.
        """
        out = np.empty((len(texts), self._size), np.float32)
        for row, text in enumerate(texts):
            asked = self._vocabulary.asked(text)
            spans = Spans(asked.numbers, self._bounds)
            added = added_up(
                spans.of(self._rows),
                spans.of(self._impacts),
                spans.each(asked.repeats) if asked.has_repeats else None,
                self._size,
            )
            mass = mass_of(asked.repeats, self._most[asked.numbers])
            out[row] = normalised(added, mass=mass, by=normalise)
        return out


def added_up(
    slots: npt.NDArray[np.integer[Any]],
    impacts: Floats | Doubles,
    repeats: Doubles | None,
    size: int,
) -> Doubles:
    """Add impacts up by slot, in float64 and in the order they are given.

    Args:
        slots: (e,) where each is added, in [0, size).
        impacts: (e,) what is added.
        repeats: (e,) how often each counts; None for once.
        size: Number of slots.

    Returns:
        (size,) float64.
    """
    weights = impacts if repeats is None else impacts * repeats
    # Without entries, bincount gives whole numbers.
    return np.bincount(slots, weights=weights, minlength=size).astype(np.float64, copy=False)
