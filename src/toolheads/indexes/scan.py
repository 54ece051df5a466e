"""Products of queries with rows, the same to the last bit however they were found.

A BLAS sums in an order that depends on the shape of the product. So a product only finds
candidates, with its worst rounding error as slack, and these are scored again one by one: a score
is a function of one query and one stored row, whichever index found it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Bools, Floats, Ids, pieces
from toolheads.indexes.precision import StoredRows, widened

_BLOCK_ENTRIES = 1 << 20
"""Entries of the rows that are held in float32 at once, and of one product; 4 MB."""

_PRODUCT_ENTRIES = 1 << 24
"""Entries of the largest product of one group of queries; 64 MB."""

_EPS = float(np.finfo(np.float32).eps)
_SMALLEST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)
_FAR_BELOW_OVERFLOW = 1e37


def rows_of_a_block(width: int) -> int:
    """How many rows of d entries are held in float32 at once."""
    return max(1, _BLOCK_ENTRIES // width)


def exact_scores(query: Floats, rows: Floats) -> Floats:
    """Products of one query with rows, each rounded once.

    Args:
        query: (d,) float32.
        rows: (n, d) float32.

    Returns:
        (n,) float32; a product beyond float32 is its largest number.
    """
    wide = rows.astype(np.float64)
    wide *= query.astype(np.float64)
    # Not a matrix product: a sum over the last axis treats every row alike.
    sums: npt.NDArray[np.float64] = wide.sum(axis=1)
    return np.clip(sums, -_LARGEST, _LARGEST).astype(np.float32)


def best_first(keys: Sequence[str], scores: Floats, k: int) -> tuple[list[str], Floats]:
    """The k best of n keys and scores, best first, ties by key."""
    # Numbers of Python compare many times as fast as those of an array.
    order = [i for _, _, i in sorted(zip((-scores).tolist(), keys, count(), strict=False))[:k]]
    return [keys[i] for i in order], scores[order]


def lengths(rows: Floats) -> npt.NDArray[np.float64]:
    """(n,) lengths of (n, d) rows, without overflow."""
    found: npt.NDArray[np.float64] = np.empty(len(rows))
    for piece in pieces(*rows.shape):
        wide = rows[piece].astype(np.float64)
        wide *= wide
        wide.sum(axis=1, out=found[piece])
    return np.sqrt(found)


def slack_of(width: int, longest: float, query: Floats) -> float:
    """What a float32 product with a row may lie below another's that is in truth no better.

    Args:
        width: d.
        longest: Length of the longest row.
        query: (d,) float32.

    Returns:
        Twice the worst error of both; infinite where the product may overflow.
    """
    wide = query.astype(np.float64)
    reach = longest * math.sqrt(float(wide @ wide))
    if reach > _FAR_BELOW_OVERFLOW:
        return float("inf")
    return (2 * width + 16) * _EPS * reach + 4 * width * _SMALLEST


def approximate(queries: Floats, parts: Sequence[StoredRows]) -> Floats:
    """(q, n) float32 products with all rows of all parts; the last bits depend on q and n."""
    total = sum(len(part) for part in parts)
    products = np.empty((len(queries), total), np.float32)
    start = 0
    for part in parts:
        values, width = part.values, queries.shape[1]
        # Rows that are float32 already are multiplied where they lie.
        step = len(part) if values.dtype == np.float32 else rows_of_a_block(width)
        for first in range(0, len(part), step):
            block = widened(values[first : first + step])
            place = slice(start + first, start + first + len(block))
            with np.errstate(all="ignore"):  # what overflows is scored again, see `slack_of`
                np.matmul(queries, block.T, out=products[:, place])
                if part.scales is not None:
                    products[:, place] *= part.scales[first : first + step]
        start += len(part)
    return products


def groups(queries: int, rows: int) -> list[slice]:
    """Runs of queries whose products with all rows stay within the memory of one group."""
    most = max(1, _PRODUCT_ENTRIES // max(1, rows))
    return [slice(start, min(queries, start + most)) for start in range(0, queries, most)]


def candidates(products: Floats, k: int, slack: float, alive: Bools | None) -> Ids:
    """Rows that may be among the k best.

    Args:
        products: (n,) float32 of one query; overwritten where a row is not alive.
        k: At most as many as there are rows alive.
        slack: See `slack_of`.
        alive: (n,) which rows count; None for all.
    """
    if alive is not None:
        products[~alive] = -np.inf
    least = np.partition(products, len(products) - k)[len(products) - k] - slack
    near = ~(products < least)  # so that NaN, from an overflow, is a candidate
    if alive is not None:
        near &= alive
    return np.flatnonzero(near)
