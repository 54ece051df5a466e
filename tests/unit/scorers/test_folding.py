"""Rows of tools: the same to the bit alone, in company, and in products of any size."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made_heads import made_head

from toolheads.errors import ShapeError
from toolheads.heads import Architecture, Head
from toolheads.scorers.folding import (
    LARGE,
    SMALL,
    Folding,
    first_of_equal,
    folded_rows,
    projected_once,
    rows_at_once,
    tools_of_a_block,
)

ODD = Architecture(100, hidden=(33,))
"""Of a product that OpenBLAS sums in another way for 32 rows than for more."""


def made_rows(n, width, seed=0):
    return np.random.default_rng(seed).standard_normal((n, width), np.float32)


class Seen(Head):
    """Changes nothing, and keeps how many rows it was given."""

    sizes: list[int]

    @classmethod
    def of(cls, width):
        plain = Head.identity(width)
        head = cls(plain.architecture, 0.0, plain.weights)
        object.__setattr__(head, "sizes", [])
        return head

    def in_pieces(self, block, room, *, multiple=1):
        self.sizes.append(len(block))
        return super().in_pieces(block, room, multiple=multiple)


class OtherWithMore(Seen):
    """As a BLAS that sums otherwise when there are more rows."""

    def in_pieces(self, block, room, *, multiple=1):
        for piece, unit, good in super().in_pieces(block, room, multiple=multiple):
            yield piece, unit * np.float32(1 + len(block) / 1000), good


class OtherWithPlace(Seen):
    """As a BLAS that sums the first rows of a large product in another way."""

    def in_pieces(self, block, room, *, multiple=1):
        for piece, unit, good in super().in_pieces(block, room, multiple=multiple):
            if piece.start == 0 and len(block) > SMALL:
                unit[0] *= np.float32(1.5)
            yield piece, unit, good


@pytest.mark.parametrize(
    "architecture", [Architecture(96, hidden=(192,)), Architecture(384, hidden=(384,)), ODD]
)
def test_a_row_is_the_same_alone_and_among_thousands(architecture):
    head, rows = made_head(architecture), made_rows(2 * LARGE + 70, architecture.width)
    whole = projected_once(rows, head)
    for at in (0, 1, 31, 32, LARGE - 1, LARGE, 2 * LARGE, len(rows) - 1):
        np.testing.assert_array_equal(projected_once(rows[at : at + 1], head)[0], whole[at])
    order = np.random.default_rng(1).permutation(len(rows))
    np.testing.assert_array_equal(projected_once(rows[order], head), whole[order])


def test_products_are_large_only_where_no_bit_depends_on_it():
    head = Seen.of(8)
    others = OtherWithMore.of(8), OtherWithPlace.of(8)
    assert [rows_at_once(one) for one in (head, *others)] == [LARGE, SMALL, SMALL]
    rows = made_rows(LARGE + SMALL + 1, 8)
    for one, sizes in ((head, {LARGE, SMALL}), *((other, {SMALL}) for other in others)):
        one.sizes.clear()
        projected_once(rows, one)
        assert set(one.sizes) == sizes


def test_few_rows_are_projected_without_trying_what_is_the_same():
    head = Seen.of(8)
    projected_once(made_rows(LARGE // 2, 8), head)
    out = np.empty((LARGE // 2, 8), np.float32)
    Folding([1.0], head).fold(partial(copied, made_rows(LARGE // 2, 8)), out)
    assert head.sizes == [SMALL] * (LARGE // SMALL)


def copied(rows, vectors):
    vectors[:] = rows


WEIGHTS = {"text": 0.7, "name": 0.2, "summary": 0.1}


@pytest.mark.parametrize("kept", [None, 20])
@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize(
    "architecture", [Architecture(96, hidden=(192,)), ODD, Architecture(4000, hidden=(8,))]
)
def test_tools_of_a_block_have_the_rows_that_they_have_view_by_view(architecture, views, kept):
    head = replace(made_head(architecture), kept=kept)
    weights = {view: WEIGHTS[view] for view in list(WEIGHTS)[:views]}
    folding = Folding(list(weights.values()), head)
    most = tools_of_a_block(views)
    rows = made_rows(most * views, architecture.width).reshape(most, views, -1)
    rows[5] = rows[4, 0]  # all views of two tools are equal
    whole = folded_rows({view: rows[:, at] for at, view in enumerate(weights)}, weights, head)
    for start, count in ((0, most), (0, 1), (3, 50), (4, 11), (1, most - 1), (0, 0)):
        out = np.empty((count, head.projection_width), np.float32)
        part = rows[start : start + count].reshape(count * views, architecture.width)
        folding.fold(partial(copied, part), out)
        np.testing.assert_array_equal(out, whole[start : start + count])


def test_a_vector_that_is_not_finite_is_refused_and_the_turn_is_given_back():
    turn = threading.Semaphore(1)
    for head in (made_head(Architecture(96, hidden=(64,))), Head.identity(96)):
        folding, out = Folding([0.5, 0.5], head, turn), np.empty((40, 96), np.float32)
        rows = made_rows(80, 96)
        rows[70, 3] = np.nan
        with pytest.raises(ShapeError, match="x must be finite, got NaN or inf in 1 rows, first"):
            folding.fold(partial(copied, rows), out)
        rows[70, 3] = 0
        folding.fold(partial(copied, rows), out)
        assert np.isfinite(out).all()
    assert turn.acquire(blocking=False)


def test_a_head_that_overflows_on_other_rows_is_used_all_the_same():
    architecture = Architecture(4, hidden=(4,), activation="identity")
    large = {name: np.full(s, 3e37, np.float32) for name, s in architecture.shapes.items()}
    head = Head(architecture, 1.0, large)
    assert rows_at_once(head) == SMALL


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 40))
def test_the_first_of_equal_rows_is_found_whatever_entry_differs(numbers, width):
    rows = np.zeros((len(numbers), width), np.float32)
    rows[:, -1] = numbers  # an entry that is not among those looked at first
    expected = [numbers.index(number) for number in numbers]
    assert first_of_equal(rows).tolist() == expected


def test_a_row_is_the_weighted_sum_of_its_views():
    head = made_head(Architecture(96, hidden=(64,)))
    views = {"text": made_rows(5, 96), "name": made_rows(5, 96, seed=1)}
    both = folded_rows(views, {"text": 0.75, "name": 0.25}, head)
    expected = 0.75 * head(views["text"]) + 0.25 * head(views["name"])
    np.testing.assert_allclose(both, expected, atol=1e-6)
    alone = folded_rows({"text": views["text"][:1]}, {"text": 0.5}, head)
    np.testing.assert_array_equal(alone[0], 0.5 * projected_once(views["text"], head)[0])
