"""Whether new heads are better, and how many requests it takes to know."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from toolheads.domain import Hit, Tool
from toolheads.usage import JudgedRequest
from toolheads_train.learn.decision import (
    SHOWN,
    WHOLE,
    agreement,
    compare,
    measured,
    needed_requests,
)

pytestmark = pytest.mark.train


def values(rows):
    return dict.fromkeys((SHOWN, WHOLE), np.array(rows, dtype=np.float64))


def test_equal_systems_have_a_p_of_one_and_need_no_number_of_requests():
    found = compare(
        values([0.1, 0.9, 0.5]), values([0.1, 0.9, 0.5]), alpha=0.05, resamples=50, seed=0
    )
    assert (found.p[SHOWN], found.gain, found.needed) == (1.0, 0.0, None)


def test_eight_gains_out_of_eight_are_significant():
    """All signs are tried: 2 of 256 give as large a mean."""
    found = compare(values([0.2] * 8), values([0.4] * 8), alpha=0.05, resamples=50, seed=0)
    assert found.p[SHOWN] == pytest.approx(2 / 256)
    assert found.gain == pytest.approx(0.2)
    assert found.change[WHOLE].low == pytest.approx(0.2)


def test_the_number_of_requests_is_that_of_the_normal_approximation():
    """(1.9600 + 0.8416)**2 * 0.25**2 / 0.05**2 = 196.2."""
    change = np.array([0.3, -0.2])
    assert needed_requests(change, alpha=0.05) == 197


def test_it_is_never_fewer_than_an_exact_test_can_decide_on():
    """2 / 2**6 is below 0.05, 2 / 2**5 is not."""
    assert needed_requests(np.array([0.3, 0.3]), alpha=0.05) == 6


def test_a_loss_needs_no_number_of_requests():
    assert needed_requests(np.array([-0.1, 0.05]), alpha=0.05) is None


@given(st.integers(1, 8), st.integers(9, 30), st.integers(0, 1000))
def test_equal_lists_agree_and_lists_without_a_common_tool_agree_less_than_chance(k, tools, seed):
    order = np.random.default_rng(seed).permutation(tools).astype(str).tolist()
    assert agreement([order[:k]], [order], tools) == pytest.approx(1.0)
    if 2 * k <= tools:
        assert agreement([order[:k]], [order[k:]], tools) < 0


def test_random_lists_agree_by_about_nothing():
    rng = np.random.default_rng(0)
    drawn = [[rng.permutation(50).astype(str).tolist() for _ in range(400)] for _ in range(2)]
    assert agreement([one[:10] for one in drawn[0]], drawn[1], 50) == pytest.approx(0, abs=0.03)


def test_a_catalogue_that_is_shown_whole_says_nothing():
    assert agreement([["a", "b"]], [["b", "a"]], 2) == 1.0
    assert agreement([[]], [[]], 2) == 1.0


class Fixed:
    """A scorer with one ranking for every request."""

    def __init__(self, ranking):
        self._hits = [Hit(Tool(one, one), -float(at)) for at, one in enumerate(ranking)]

    def rank(self, queries, k):
        return [self._hits[:k] for _ in queries]


def asked(called, shown):
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return JudgedRequest("text", dict.fromkeys(called, 1), {}, tuple(shown), 1, now, now)


def test_tools_that_were_not_shown_stand_in_nobodys_way():
    """c is the third of all tools, 1 / log2(4), and the first of those that were shown."""
    found = measured(Fixed("xyca"), [asked("c", "ac")])  # type: ignore[arg-type]
    assert found[SHOWN].tolist() == [1.0]
    assert found[WHOLE].tolist() == [0.5]


def test_shown_tools_that_a_scorer_does_not_find_come_last_in_their_order():
    """The called tool is the second of what is left: rank 3, 1 / log2(4)."""
    found = measured(Fixed("a"), [asked("c", "bca")])  # type: ignore[arg-type]
    assert found[SHOWN].tolist() == [0.5]
    assert found[WHOLE].tolist() == [0.0]


def test_requests_keep_their_order_over_blocks():
    requests = [asked("a", "ab") if n % 3 else asked("b", "ab") for n in range(150)]
    found = measured(Fixed("ab"), requests)[SHOWN]  # type: ignore[arg-type]
    assert (found == 1).tolist() == [bool(n % 3) for n in range(150)]
