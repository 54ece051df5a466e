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
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from weakref import WeakKeyDictionary

import numpy as np

from toolheads.arrays import (
    Bools,
    Floats,
    Ids,
    are_finite,
    as_rows,
    check_finite,
    normalized,
    pieces,
)
from toolheads.errors import ShapeError
from toolheads.heads import Head
from toolheads.heads.head import BLOCK, OUTPUT
from toolheads.heads.room import Room

SMALL = 32
"""Rows of a product, whatever is asked for."""

LARGE = BLOCK
"""Rows of a product with many rows, where they have the bits that `SMALL` ones give."""

_SAMPLED = 8
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
    folded = np.empty(projected.shape[1:], np.float32)
    for piece in pieces(*folded.shape):
        _fold(projected[:, piece], [weights[name] for name in views], folded[piece])
    return folded


def tools_of_a_block(views: int) -> int:
    """Tools of so many views whose vectors fill a large product."""
    return LARGE // views


class Folding:
    """Makes the rows that `folded_rows` makes, to the bit, block after block in room of its own.

    Here the views of a tool lie together, and are folded while they are in the processor's cache.
    One for a thread.

    Args:
        weights: Weights of the views of a tool, v of them, `SMALL` at most.
        head: Projects embeddings.
        turn: See `toolheads.heads.room.Room`; vectors are read in turn, too.
    """

    def __init__(
        self,
        weights: Sequence[float],
        head: Head,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        self._weights, self._head = list(weights), head
        self._vectors = np.empty((0, head.width), np.float32)
        self._room = Room(head.architecture, 0, turn)

    def fold(self, read: Callable[[Floats], object], out: Floats) -> None:
        """Make the rows of some tools.

        Args:
            read: Fills (n * v, d) float32, C-contiguous, with embeddings: the views of the first
                tool, and so on.
            out: (n, e) float32; n is `tools_of_a_block` at most.

        Raises:
            ShapeError: If an embedding is not finite, or the projection overflows.
        """
        views = len(self._weights)
        count = len(out) * views
        size = _size(count, self._head)
        used = size - size % views  # whole tools; it is no matter what else a product holds
        starts = range(0, count, used)
        vectors = self._grown(starts[-1] + size if count else 0, size)
        with self._room.turn:
            read(vectors[:count])
            vectors[count:] = 0
        is_finite = np.empty(count, np.bool_)
        for start in starts:
            block, end = vectors[start : start + size], min(used, count - start)
            for piece, unit, good in self._head.in_pieces(block, self._room, multiple=views):
                n = max(0, min(piece.stop, end) - piece.start)  # rows that are of tools
                first = start + piece.start
                is_finite[first : first + n] = good[:n]
                by_view = [unit[view:n:views] for view in range(views)]
                _fold(by_view, self._weights, out[first // views :][: n // views])
        _check(is_finite, vectors)

    def _grown(self, rows: int, at_once: int) -> Floats:
        """(rows, d) to read to. Fresh memory costs as much as some steps over it, so it is kept."""
        if len(self._vectors) < rows:
            self._vectors = np.empty((rows, self._head.width), np.float32)
        if len(self._room.learned) < at_once:
            self._room = Room(self._head.architecture, at_once, self._room.turn)
        return self._vectors[:rows]


def fold_rows(projected: Floats, places: Ids, weights: Sequence[float], out: Floats) -> None:
    """Make the rows that `folded_rows` makes, to the bit, of projections at hand.

    Args:
        projected: (p, e) float32.
        places: (n, v) where the projections of the views of each tool are.
        weights: Weights of the views.
        out: (n, e) float32.
    """
    for piece in pieces(*out.shape):
        _fold([projected.take(of_view, axis=0) for of_view in places[piece].T], weights, out[piece])


def _fold(by_view: Sequence[Floats] | Floats, weights: Sequence[float], out: Floats) -> None:
    """Write the weighted sum of (n, e) projections of each view, which are written over."""
    first = by_view[0]
    if weights[0] != 1:
        first *= np.float32(weights[0])
    np.add(first, np.float32(0), out=out)  # the sum begins at zero, which has no minus
    for view, weight in zip(by_view[1:], weights[1:], strict=True):
        view *= np.float32(weight)
        out += view


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
    # Most rows are like no other, and a few of their entries say so; these lie together.
    middle = max(0, rows.shape[1] - _SAMPLED) // 2
    sample = np.ascontiguousarray(rows[:, middle : middle + _SAMPLED]).view(np.uint32)
    odd = np.random.default_rng(0).integers(1 << 63, size=sample.shape[1], dtype=np.uint64) | 1
    sums = (sample * odd).sum(axis=1, dtype=np.uint64)  # (n,) modulo 2^64
    in_order = np.sort(sums)
    if not (in_order[1:] == in_order[:-1]).any():
        return first
    order = np.argsort(sums, kind="stable")
    is_next_equal = np.diff(sums[order]) == 0
    in_doubt = np.append(is_next_equal, False) | np.append(False, is_next_equal)
    seen: dict[bytes, int] = {}
    for row in np.sort(order[in_doubt[: len(order)]]).tolist():
        first[row] = seen.setdefault(rows[row].tobytes(), row)
    return first


def rows_at_once(head: Head) -> int:
    """How many rows a product with a head may have: `LARGE` if no bit depends on it, or `SMALL`.

    Found by projecting `LARGE` made rows both ways, once for each head in a process, every row in
    another place of a large product than of a small one. What a BLAS does depends on shapes and on
    the processor, not on the numbers, so these rows speak for all.
    """
    with _lock:
        if head not in _at_once:
            rng = np.random.default_rng(0)
            made = normalized(rng.standard_normal((LARGE, head.width), dtype=np.float32))
            try:
                large = np.roll(_in_blocks(np.roll(made, 1, axis=0), head, LARGE), -1, axis=0)
                small = _in_blocks(made, head, SMALL)
                is_same = np.array_equal(large.view(np.uint32), small.view(np.uint32))
            except ShapeError:  # made rows are too much for these weights; those at hand may do
                is_same = False
            _at_once[head] = LARGE if is_same else SMALL
        return _at_once[head]


def _size(rows: int, head: Head) -> int:
    """Rows of the products that project so many rows, or as many of them as fill one."""
    # A large product takes half the time for a row, so it pays from half a block on.
    return LARGE if rows > LARGE // 2 and rows_at_once(head) == LARGE else SMALL


def _projected(rows: Floats, head: Head) -> Floats:
    """(n, e) projections of (n, d) rows."""
    whole = len(rows) if len(rows) % LARGE > LARGE // 2 else len(rows) - len(rows) % LARGE
    if not whole or _size(whole, head) == SMALL:
        return _in_blocks(rows, head, SMALL)
    parts = [_in_blocks(rows[:whole], head, LARGE), _in_blocks(rows[whole:], head, SMALL)]
    return parts[0] if whole == len(rows) else np.concatenate(parts)


def _in_blocks(rows: Floats, head: Head, size: int) -> Floats:
    """(n, e) projections in products of one shape."""
    projected = np.empty((len(rows), head.projection_width), np.float32)
    is_finite = np.empty(len(rows), np.bool_)
    room = Room(head.architecture, size)
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        count = len(block)
        if count < size:
            block = np.concatenate([block, np.zeros((size - count, head.width), np.float32)])
        into, good_of_block = projected[start : start + count], is_finite[start : start + count]
        for piece, unit, good in head.in_pieces(block, room):
            n = len(into[piece])
            into[piece], good_of_block[piece] = unit[:n], good[:n]
    _check(is_finite, rows)
    return projected


def _check(is_finite: Bools, rows: Floats) -> None:
    """Refuse projections that are not finite, or the rows that they are of."""
    if not is_finite.all():
        check_finite(are_finite(rows[: len(is_finite)]), name="x")
        check_finite(is_finite, name=OUTPUT)
