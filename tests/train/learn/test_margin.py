"""The cut-off of new heads shows as many tools as that of the given ones did."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from toolheads.cutoff import CutoffSettings
from toolheads_train.learn.margin import same_length

pytestmark = pytest.mark.train


def test_the_margin_is_the_smallest_that_shows_as_many_tools():
    """Gaps to the best: 0.1 and 0.2; 0.3 and 0.4. Two hits each on average need 0.3."""
    scores = [[0.9, 0.8, 0.7], [0.9, 0.6, 0.5]]
    found = same_length(CutoffSettings(margin=0.01), scores, 2.5)
    assert found.margin == pytest.approx(0.3)
    assert np.mean([found.count(one) for one in scores]) == 2.5


def test_a_margin_never_has_to_show_more_than_there_is():
    found = same_length(CutoffSettings(), [[0.5, 0.4]], 5.0)
    assert found.count([0.5, 0.4]) == 2
