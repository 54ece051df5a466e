"""The entries of a few terms, cut out of arrays over all entries. Knows no text and no score."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Ids


class Spans:
    """Where the entries of t terms lie.

    Args:
        numbers: (t,) the terms.
        bounds: (all terms + 1,) entries bounds[i]:bounds[i + 1] are those of term i.
    """

    def __init__(self, numbers: Ids, bounds: Ids) -> None:
        first, last = bounds[numbers], bounds[numbers + 1]
        self._slices = [slice(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        self._sizes = last - first  # (t,)

    def of(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(e,) the entries of all terms, one term after the other, of an array over entries."""
        if not self._slices:
            return column[:0]
        return np.concatenate([column[part] for part in self._slices])

    def each(self, of_terms: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(e, ...) what each entry has from its term, of an array (t, ...) over these terms."""
        return np.repeat(of_terms, self._sizes, axis=0)
