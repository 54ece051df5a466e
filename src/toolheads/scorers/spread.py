"""How far the scores of a query spread over a corpus, without scoring a tool."""

from __future__ import annotations

import numpy as np

from toolheads.arrays import Floats
from toolheads.scorers.exact import Doubles

_BLOCK = 4096
"""Rows that are held in float64 at once."""


class Spread:
    """Standard deviation over a corpus of the products with a query.

    In closed form: sqrt(q^T C q) with the covariance C of the tools. It depends on the query and
    the corpus alone, where the deviation of scores would depend on how they were added up.

    Args:
        rows: (n, d) float32, a row for each tool.
    """

    def __init__(self, rows: Floats) -> None:
        n, d = rows.shape
        mean = rows.mean(axis=0, dtype=np.float64)
        self._factor: Doubles | None = None
        """(n, d) with C = factor^T factor, for a corpus of fewer tools than entries."""
        if n < d:
            self._factor = (rows - mean) / np.sqrt(n)
            return
        self._covariance: Doubles = np.zeros((d, d))
        for start in range(0, n, _BLOCK):
            centred = rows[start : start + _BLOCK] - mean  # (b, d) float64
            self._covariance += centred.T @ centred
        self._covariance /= n

    def of(self, query: Floats) -> float:
        """The deviation for one query.

        Args:
            query: (d,) float32.

        Returns:
            At least 0; 0 for one tool alone.
        """
        q = query.astype(np.float64)
        if self._factor is not None:
            return float(np.sqrt(np.square(self._factor @ q).sum()))
        return float(np.sqrt(max(0.0, float(q @ self._covariance @ q))))
