"""Embeddings of tools to one row for each, the same to the bit alone and in a million.

A BLAS sums in an order that depends on the shape of the product. So each product with a head has
one shape, the last one filled up with zeros: a row does not depend on what the others are, and one
tool that is added to a catalogue gets the row that it would get in a catalogue made anew.

That shape has few rows, so that one tool stays cheap; a processor reaches half of its rate with it.
Most BLAS give the same bits for larger products too, but none promises it. Where there are many
rows it is tried out, on this machine and for this head, and larger products are taken if every row
of theirs has the bits of the small ones.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from toolheads.arrays import Floats, Ids, as_rows, normalized
from toolheads.errors import ShapeError
from toolheads.heads import Head
from toolheads.heads.head import BLOCK

SMALL = 32
"""Rows of a product, whatever is asked for."""

LARGE = BLOCK
"""Rows of a product with many rows, where they have the bits that `SMALL` ones give."""

_SAMPLED = 16
"""Entries of a row that are looked at to see whether it may equal another."""

_lock = threading.Lock()
_at_once: WeakKeyDictionary[Head, int] = WeakKeyDictionary()


def folded_rows(views: Mapping[str, Floats], weights: Mapping[str, float], head: Head) -> Floats:
    """(n, e) float32, the row of each tool: the weighted sum of the projections of its views.

    Args:
        views: View → (n, d) float32 embeddings.
        weights: View → weight; all of `views`.
        head: Projects the embeddings.
    """
    checked = [as_rows(v, width=head.width, name=n) for n, v in views.items()]
    stacked = checked[0] if len(checked) == 1 else np.concatenate(checked)
    projected = projected_once(stacked, head).reshape(len(views), -1, head.projection_width)
    folded: Floats = projected[0]
    folded *= np.float32(weights[next(iter(views))])
    folded += np.float32(0)  # the sum begins at zero, which has no minus
    for view, name in zip(projected[1:], list(views)[1:], strict=True):
        view *= np.float32(weights[name])
        folded += view
    return folded if len(views) == 1 else folded.copy()


def projected_once(rows: Floats, head: Head) -> Floats:
    """Project equal rows once, so that tools with one text have one projection, to the bit.

    Args:
        rows: (n, d) float32, finite.
        head: Projects them.

    Returns:
        (n, e) float32, an array of its own.
    """
    rows = np.ascontiguousarray(rows)
    first = first_of_equal(rows)
    is_first = first == np.arange(len(rows))
    if is_first.all():
        return _projected(rows, head)
    place = np.cumsum(is_first) - 1  # (n,) of a row that is the first, among those
    repeated: Floats = _projected(rows[is_first], head)[place[first]]
    return repeated


def first_of_equal(rows: Floats) -> Ids:
    """(n,) int64: the first row of (n, d) that has the bytes of this one."""
    first = np.arange(len(rows), dtype=np.int64)
    # Most rows are like no other, and a few of their entries say so.
    step = max(1, rows.shape[1] // _SAMPLED)
    sample = np.ascontiguousarray(rows[:, ::step]).view(np.uint32).astype(np.uint64)
    odd = np.random.default_rng(0).integers(1 << 63, size=sample.shape[1], dtype=np.uint64) | 1
    sums = (sample * odd).sum(axis=1, dtype=np.uint64)  # (n,) modulo 2^64
    order = np.argsort(sums, kind="stable")
    is_next_equal = np.diff(sums[order]) == 0
    in_doubt = np.append(is_next_equal, False) | np.append(False, is_next_equal)
    seen: dict[bytes, int] = {}
    for row in np.sort(order[in_doubt[: len(order)]]).tolist():
        first[row] = seen.setdefault(rows[row].tobytes(), row)
    return first


def rows_at_once(head: Head) -> int:
    """How many rows a product with a head may have: `LARGE` if no bit depends on it, or `SMALL`.

    Found by projecting `LARGE` made rows both ways, once for each head in a process. What a BLAS
    does depends on shapes and on the processor, not on the numbers, so these rows speak for all.
    """
    with _lock:
        if head not in _at_once:
            rng = np.random.default_rng(0)
            made = normalized(rng.standard_normal((LARGE, head.width), dtype=np.float32))
            try:
                large, small = (_in_blocks(made, head, size) for size in (LARGE, SMALL))
                is_same = np.array_equal(large.view(np.uint32), small.view(np.uint32))
            except ShapeError:  # made rows are too much for these weights; those at hand may do
                is_same = False
            _at_once[head] = LARGE if is_same else SMALL
        return _at_once[head]


def _projected(rows: Floats, head: Head) -> Floats:
    """(n, e) projections of (n, d) rows."""
    if len(rows) < LARGE or rows_at_once(head) == SMALL:
        return _in_blocks(rows, head, SMALL)
    rest = len(rows) % LARGE
    whole = len(rows) - rest
    projected = head(rows[:whole])  # a head takes `LARGE` rows at once by itself
    if not rest:
        return projected
    # A large product takes half the time for a row, so it pays from half a block on.
    size = LARGE if rest > LARGE // 2 else SMALL
    return np.concatenate([projected, _in_blocks(rows[whole:], head, size)])


def _in_blocks(rows: Floats, head: Head, size: int) -> Floats:
    """(n, e) projections in products of one shape."""
    projected = np.empty((len(rows), head.projection_width), np.float32)
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        count = len(block)
        if count < size:
            block = np.concatenate([block, np.zeros((size - count, head.width), np.float32)])
        projected[start : start + count] = head(block)[:count]
    return projected
