"""How far the scores of a query spread over a corpus, without scoring a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.errors import ConfigError, ShapeError
from toolheads.scorers.exact import Doubles

_BLOCK = 4096
"""Rows that are held in float64 at once."""

_BITS = 16
"""Entries are rounded to this many bits below the longest row: far finer than the deviation of a
query's scores, and coarse enough that sums of products are whole numbers below 2^53."""

MOST_ROWS = 1 << (53 - 2 * _BITS)
"""Two million rows, whose sums of products are exact whatever their entries are."""

_LEAST_SHARE = 1e-12
"""A variance below this share of the mean square is the rounding of equal products."""


class Spread:
    """Standard deviation over a corpus of the products with a query.

    In closed form: sqrt(q^T C q) with the covariance C of the rows. Its sums are taken over
    whole numbers, which floating point adds exactly: it depends on the query and the set of rows
    alone, not on their order, nor on how the set came about. Never changes.

    Args:
        rows: (n, d) float32, a row for each tool.
        longest: A bound of the length of any row; None takes that of these.

    Raises:
        ConfigError: If there are more than `MOST_ROWS` rows.
    """

    def __init__(self, rows: Floats, longest: float | None = None) -> None:
        n, d = rows.shape
        if longest is None:
            longest = float(np.linalg.norm(rows.astype(np.float64), axis=1).max(initial=0.0))
        self._size, self._width = _checked_size(n), d
        self._scale = 2.0 ** (_BITS - int(np.ceil(np.log2(longest or 1.0))))
        self._rows: Doubles | None = None
        """(n, d) whole numbers, for a corpus of fewer tools than entries."""
        if n < d:
            self._rows = self._whole(rows)
            return
        self._sums, self._products = self._moments(rows)

    @property
    def is_summed(self) -> bool:
        """Whether the rows are summed up, and `changed` can be asked."""
        return self._rows is None

    @property
    def mean(self) -> Floats:
        """(d,) float32, the mean row; zeros of no rows."""
        sums = self._sums if self._rows is None else self._rows.sum(axis=0)
        mean: Floats = (sums / max(1, self._size) / self._scale).astype(np.float32)
        return mean

    def of(self, query: Floats) -> float:
        """The deviation for one query.

        Args:
            query: (d,) float32.

        Returns:
            At least 0; 0 for one tool alone, or none.
        """
        q = query.astype(np.float64)
        if self._rows is not None:
            return self._of_rows(q)
        square = float(q @ self._products @ q) / self._size
        mean = float(q @ self._sums) / self._size
        variance = square - mean * mean
        if variance <= _LEAST_SHARE * square:
            return 0.0
        return float(np.sqrt(variance)) / self._scale

    def changed(self, added: Floats, removed: Floats) -> Spread:
        """That of other rows, to the bit as if made of them anew.

        Args:
            added: (a, d) float32, within the bound.
            removed: (r, d) float32, rows of this one.

        Raises:
            ShapeError: If `is_summed` is false, or fewer than d rows would be left: make it anew.
        """
        size = self._size + len(added) - len(removed)
        if not self.is_summed or size < self._width:
            msg = f"rows must be at least {self._width} before and after, got {size} after"
            raise ShapeError(msg)
        other = Spread.__new__(Spread)
        other._size, other._width = _checked_size(size), self._width
        other._scale, other._rows = self._scale, None
        more, less = self._moments(added), self._moments(removed)
        other._sums = self._sums + more[0] - less[0]
        other._products = self._products + more[1] - less[1]
        return other

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays to be saved.

        Raises:
            ShapeError: If `is_summed` is false: it is quicker made anew.
        """
        if not self.is_summed:
            raise ShapeError("rows must be summed to be saved, got fewer rows than entries")
        about = np.array([self._size, self._scale])
        return {"about": about, "sums": self._sums, "products": self._products}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Spread:
        """Read what `to_arrays` gave.

        Raises:
            ShapeError: If an array is missing or does not fit the others.
        """
        shapes = {
            name: arrays[name].shape for name in ("about", "sums", "products") if name in arrays
        }
        d = shapes.get("sums", (0,))[0]
        if shapes != {"about": (2,), "sums": (d,), "products": (d, d)} or d == 0:
            msg = f"a spread must have about (2,), sums (d,) and products (d, d), got {shapes}"
            raise ShapeError(msg)
        spread = cls.__new__(cls)
        size, scale = arrays["about"].astype(np.float64).tolist()
        spread._size, spread._width, spread._scale = int(size), d, scale
        spread._sums = arrays["sums"].astype(np.float64)
        spread._products = arrays["products"].astype(np.float64)
        spread._rows = None
        return spread

    def _of_rows(self, q: Doubles) -> float:
        if self._rows is None or not self._size:
            return 0.0
        peak = float(np.abs(q).sum())
        scale = 2.0 ** (_BITS - int(np.ceil(np.log2(peak or 1.0))))
        # Whole numbers again, so that a product is exact wherever its row stands; sorted, so that
        # the sum over them is one of the set.
        products = np.sort(self._rows @ np.rint(q * scale))  # (n,)
        deviation = float(products.std())
        return deviation / scale / self._scale

    def _whole(self, rows: Floats) -> Doubles:
        """(n, d) whole numbers in float64."""
        whole: Doubles = np.rint(rows.astype(np.float64) * self._scale)
        return whole

    def _moments(self, rows: Floats) -> tuple[Doubles, Doubles]:
        """(d,) sum and (d, d) sum of products of rows, exact."""
        d = self._width
        sums, products = np.zeros(d), np.zeros((d, d))
        for start in range(0, len(rows), _BLOCK):
            whole = self._whole(rows[start : start + _BLOCK])
            sums += whole.sum(axis=0)
            products += whole.T @ whole
        return sums, products


def _checked_size(n: int) -> int:
    if n > MOST_ROWS:
        msg = f"a corpus must have at most {MOST_ROWS} tools, got {n}"
        raise ConfigError(msg)
    return n
