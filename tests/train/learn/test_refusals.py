"""Why new heads are kept, or not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.train.learn.world import QUICK

from toolheads_train.learn.decision import SHOWN, WHOLE, compare
from toolheads_train.learn.refusals import NotKeptError, verdict
from toolheads_train.learn.report import LearnReport

pytestmark = pytest.mark.train


def judged(shown, whole, settings=QUICK):
    before = {SHOWN: np.zeros(20), WHOLE: np.ones(20)}
    after = {SHOWN: np.full(20, shown), WHOLE: np.full(20, 1 + whole)}
    report = LearnReport({}, {}, {})
    report.comparison = compare(before, after, alpha=0.05, resamples=500, seed=0)
    return verdict(report, settings)


def test_heads_that_bring_up_shown_tools_are_kept_unless_they_lose_them_among_all():
    assert judged(0.2, 0.0).startswith("nDCG@10 of the shown tools +20.0 on 20 held-out requests")
    with pytest.raises(NotKeptError, match=r"must not lose the called tools .*, got -50\.0"):
        judged(0.2, -0.5)


def test_heads_that_are_worse_are_not_kept_however_sure_that_is():
    with pytest.raises(NotKeptError, match=r"got nDCG@10 of the shown tools -20\.0"):
        judged(-0.2, 0.0)
