"""What callers of an index give with a query: weights of fields, rows of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Ids
from toolheads.errors import ConfigError, ShapeError
from toolheads.lexical.normalisation import Doubles

FieldWeights = Mapping[str, float] | npt.ArrayLike
"""field → weight, where a field that is not named weighs nothing; or (f,) numbers in the order of
`FieldedIndex.fields`. Finite and >= 0."""


def checked_weights(weights: FieldWeights, fields: Sequence[str]) -> Doubles:
    """(f,) the weight of each field.

    Raises:
        ConfigError: If a weight is of no field, negative, or not finite.
    """
    if isinstance(weights, Mapping):
        unknown = [name for name in weights if name not in fields]
        if unknown:
            msg = f"weights must be of the fields {', '.join(fields)}, got {unknown[0]!r:.80}"
            raise ConfigError(msg)
        weights = [weights.get(field, 0.0) for field in fields]
    checked = np.asarray(weights, np.float64)
    if checked.shape != (len(fields),):
        msg = f"weights must have shape ({len(fields)},), got {checked.shape}"
        raise ConfigError(msg)
    if not (np.isfinite(checked) & (checked >= 0)).all():
        msg = f"weights must be finite and >= 0, got {checked.tolist()}"
        raise ConfigError(msg)
    return checked


def checked_rows(rows: npt.ArrayLike, size: int) -> Ids:
    """Rows of a corpus as an array.

    Args:
        rows: (r,) whole numbers.
        size: Number of tools.

    Raises:
        ShapeError: If they are no whole numbers, or one is not of the corpus.
    """
    checked = np.asarray(rows)
    if checked.size == 0:
        checked = checked.astype(np.int64)
    if checked.ndim != 1 or checked.dtype.kind not in "iu":
        msg = f"rows must be whole numbers of shape (r,), got {checked.dtype} {checked.shape}"
        raise ShapeError(msg)
    if ((checked < 0) | (checked >= size)).any():
        msg = f"rows must be in [0, {size}), got {checked.min()} to {checked.max()}"
        raise ShapeError(msg)
    return checked.astype(np.int64)
