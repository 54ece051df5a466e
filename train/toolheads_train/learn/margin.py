"""The cut-off of new heads: as many tools are shown as before."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from toolheads.cutoff import CutoffSettings

_MARGIN_STEP = 0.005


def same_length(
    cutoff: CutoffSettings, scores: Sequence[Sequence[float]], length: float
) -> CutoffSettings:
    """The smallest margin with which lists are on average as long as asked for.

    Args:
        cutoff: Everything but the margin.
        scores: For each request the scores of its `max_k` best tools, best first.
        length: Mean number of tools that are to be shown.
    """
    widest = max((one[0] - one[-1] for one in scores if one), default=0.0)
    for step in range(math.ceil(widest / _MARGIN_STEP) + 1):
        tried = dataclasses.replace(cutoff, margin=round(step * _MARGIN_STEP, 3))
        if np.mean([tried.count(one) for one in scores]) >= length - 1e-9:
            return tried
    return dataclasses.replace(cutoff, margin=round(widest + _MARGIN_STEP, 3))
