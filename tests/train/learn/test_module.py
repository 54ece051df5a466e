"""Validation on the tools that were shown."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.train.synthetic import pairs, validation_of  # noqa: E402

from toolheads.evaluation.ranked import NO_ROW  # noqa: E402
from toolheads.heads import Architecture  # noqa: E402
from toolheads_train.errors import NotFiniteError  # noqa: E402
from toolheads_train.learn.module import ranked_rows  # noqa: E402
from toolheads_train.model.heads import TwoHeads  # noqa: E402

pytestmark = pytest.mark.train

ONE_VIEW = torch.ones(1)


def ranked(shown, source=None, heads=None):
    source = source or pairs(len(shown))
    heads = heads or TwoHeads(Architecture(16, hidden=(8,)))
    return ranked_rows(heads, validation_of(source), torch.tensor(shown), ONE_VIEW).tolist()


def test_shown_tools_are_ordered_by_score_and_the_end_of_short_lists_stays_empty():
    source = pairs(4)
    shown = [[0, 1, 2, 3], [3, 2, NO_ROW, NO_ROW], [1, NO_ROW, NO_ROW, NO_ROW], [2, 0, 1, NO_ROW]]
    scores = source.queries @ source.tools.T
    expected = [
        [*sorted((r for r in rows if r >= 0), key=lambda r: -scores[query, r]), *[NO_ROW] * 4][:4]
        for query, rows in enumerate(shown)
    ]
    assert ranked(shown, source) == expected


def test_equal_tools_stay_in_the_order_they_were_shown():
    source = pairs(3)
    same = type(source)(**{**vars(source), "tools": np.repeat(source.tools[:1], 3, axis=0)})
    assert ranked([[2, 0, 1], [1, 2, 0], [0, 1, 2]], same) == [[2, 0, 1], [1, 2, 0], [0, 1, 2]]


def test_scores_that_are_not_finite_stop_the_training():
    heads = TwoHeads(Architecture(16, hidden=(8,)))
    with torch.no_grad():
        heads.state.out.weight[:] = torch.nan
    with pytest.raises(NotFiniteError, match="scores in validation must be finite"):
        ranked([[0, 1], [1, 0]], heads=heads)
