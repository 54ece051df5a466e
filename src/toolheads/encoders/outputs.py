"""The one check of vectors on their way out of an encoder."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, as_rows, normalized
from toolheads.errors import EncoderError, ShapeError


def unit_rows(vectors: npt.ArrayLike, *, count: int, width: int | None, encoder: str) -> Floats:
    """Refuse what is no good vector for each text, and name it.

    Args:
        vectors: (count, d), any real dtype, any length above 0.
        count: How many texts there were.
        width: The d that is expected; None takes any.
        encoder: The encoder as the caller knows it, to start the error with; empty where the
            caller puts it there.

    Returns:
        (count, d) float32, rows of length 1.

    Raises:
        EncoderError: If the shape differs, an entry is not finite, or a row is zero.
    """
    try:
        rows = as_rows(vectors, width=width, name="vectors")
    except ShapeError as e:
        raise _error(encoder, f"gave an answer that cannot be used: {e}") from e
    if len(rows) != count:
        raise _error(encoder, f"must give {count} vectors, got {len(rows)}")
    zeros = int(np.count_nonzero(~rows.any(axis=1)))
    if zeros:
        raise _error(encoder, f"must not give zero vectors, got {zeros} of {count}")
    return normalized(rows)


def _error(encoder: str, reason: str) -> EncoderError:
    return EncoderError(f"{encoder} {reason}" if encoder else reason)
