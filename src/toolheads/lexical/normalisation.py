"""Scores of one query on a scale that does not depend on how long and how rare its words are."""

from __future__ import annotations

from typing import get_args

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.lexical.settings import Normalise, check_choice

Doubles = npt.NDArray[np.float64]


def mass_of(repeats: Doubles, most: Doubles | Floats) -> Doubles:
    """Add up what a tool would get at most that has all terms of a query the corpus knows.

    Args:
        repeats: (t,) how often the query says each of its terms.
        most: (t, ...) what one mention of each can add.

    Returns:
        (...) float64, >= 0.
    """
    mass: Doubles = (repeats.reshape(-1, *[1] * (most.ndim - 1)) * most).sum(axis=0)
    return mass


def normalised(scores: Doubles, *, mass: Doubles, by: Normalise) -> Doubles:
    """Divide the scores of one query.

    Args:
        scores: (n, ...) >= 0.
        mass: (...) what a tool would get at most, see `mass_of`.
        by: `best` divides by the best score in the corpus, so that the best is 1; `mass` by
            `mass`, so that a weak match stays weak even if none is stronger; `none` by nothing.

    Returns:
        (n, ...) float64; in [0, 1] as float32 unless `by` is `none`. 0 stays 0, also where all are.

    Raises:
        ConfigError: If `by` is none of these.
    """
    check_choice(by, get_args(Normalise), "normalise")
    if by == "none":
        return scores
    divisor = mass if by == "mass" else scores.max(axis=0, initial=0.0)
    return np.divide(scores, divisor, out=np.zeros_like(scores), where=divisor > 0)
