"""Rows of tools: the same to the bit alone, in company, and in products of any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made_heads import made_head

from toolheads.heads import Architecture, Head
from toolheads.scorers.folding import (
    LARGE,
    SMALL,
    first_of_equal,
    folded_rows,
    projected_once,
    rows_at_once,
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

    def __call__(self, x):
        self.sizes.append(len(x))
        return super().__call__(x)


class OtherWithMore(Seen):
    """As a BLAS that sums otherwise when there are more rows."""

    def __call__(self, x):
        return super().__call__(x) * np.float32(1 + len(x) / 1000)


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
    head, other = Seen.of(8), OtherWithMore.of(8)
    assert (rows_at_once(head), rows_at_once(other)) == (LARGE, SMALL)
    rows = made_rows(LARGE + SMALL + 1, 8)
    for one, sizes in ((head, {LARGE, SMALL}), (other, {SMALL})):
        one.sizes.clear()
        projected_once(rows, one)
        assert set(one.sizes) == sizes


def test_few_rows_are_projected_without_trying_what_is_the_same():
    head = Seen.of(8)
    projected_once(made_rows(LARGE - 1, 8), head)
    assert head.sizes == [SMALL] * (LARGE // SMALL)


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
