"""Hubs: tools that are near to everything, and come up for every query."""

from __future__ import annotations

import numpy as np

from toolheads.arrays import Floats
from toolheads.scorers.exact import Doubles

_BLOCK_ENTRIES = 1 << 24
"""Entries of the largest product that is held at once; 64 MB in float32."""

LEAST_DEVIATION = 1e-6
"""A deviation below this is the rounding of equal values, and says nothing."""


def hubness(texts: Floats, asked: Floats, neighbours: int) -> Doubles:
    """How near each tool is to everything, in standard deviations over the corpus.

    The mean of the `neighbours` largest products of a tool's text with what stands for the
    requests of the other tools; compare the mean similarity r in cross-domain similarity local
    scaling, Conneau et al. (2018), Word Translation Without Parallel Data, section 2.3.

    Args:
        texts: (n, d) float32, the tools.
        asked: (n, d) float32, what stands for a request for each tool.
        neighbours: How many of the others count, cut to n - 1.

    Returns:
        (n,) float64, equal for equal tools to the bit; zeros for fewer than three tools, or where
        all are equally near.
    """
    n = len(texts)
    if n < 3:
        return np.zeros(n)
    # Equal tools once: the last bits of a product depend on where a row stands.
    first, inverse = _first_of_equal(texts, asked)
    m = min(neighbours, n - 1)
    near = np.empty(len(first))
    at_once = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, len(first), at_once):
        rows = first[start : start + at_once]
        products = texts[rows] @ asked.T  # (b, n)
        products[np.arange(len(rows)), rows] = -np.inf
        best = np.partition(products, n - m, axis=1)[:, n - m :].astype(np.float64)
        near[start : start + at_once] = np.sort(best, axis=1).mean(axis=1)
    return standardised(near[inverse])


def standardised(values: Doubles) -> Doubles:
    """(n,) with mean 0 and deviation 1; zeros where all are equal but for rounding."""
    deviation = float(values.std())
    if deviation <= LEAST_DEVIATION:
        return np.zeros_like(values)
    standard: Doubles = (values - values.mean()) / deviation
    return standard


def _first_of_equal(
    texts: Floats, asked: Floats
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """(u,) rows of the first of equal tools, and (n,) which of these each tool is equal to."""
    seen: dict[bytes, int] = {}
    first: list[int] = []
    inverse = np.empty(len(texts), np.int64)
    for row, (text, ask) in enumerate(zip(texts, asked, strict=True)):
        key = text.tobytes() + ask.tobytes()
        if key not in seen:
            seen[key] = len(first)
            first.append(row)
        inverse[row] = seen[key]
    return np.array(first, np.int64), inverse
