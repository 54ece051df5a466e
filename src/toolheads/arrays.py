"""Array aliases and the one place where arrays from outside are checked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolheads.errors import ShapeError

Floats = npt.NDArray[np.float32]
"""Any float32 array; the docstring of each function names its shape."""

Ids = npt.NDArray[np.int64]
"""Row numbers into a corpus."""

Bools = npt.NDArray[np.bool_]
"""Masks."""


def as_rows(x: npt.ArrayLike, *, width: int | None, name: str) -> Floats:
    """Check and convert rows that come from a caller, a file or the network.

    Args:
        x: (n, d) or (d,), any real dtype.
        width: The d that is expected; None takes any.
        name: What the caller calls the array; used in the error.

    Returns:
        (n, d) float32, C-contiguous, finite. A (d,) input becomes (1, d).

    Raises:
        ShapeError: If the last axis is not `width`, a value is not real, or one is not finite.
    """
    raw = np.asarray(x)
    if raw.dtype.kind not in "fiub":
        msg = f"{name} must hold real numbers, got dtype {raw.dtype}"
        raise ShapeError(msg)
    if raw.ndim not in (1, 2) or (width is not None and raw.shape[-1] != width):
        want = "n, d" if width is None else f"n, {width}"
        msg = f"{name} must have shape ({want}), got {raw.shape}"
        raise ShapeError(msg)
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf and is refused below
        rows = np.ascontiguousarray(np.atleast_2d(raw), dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        msg = f"{name} must be finite, got NaN or inf in {bad.size} rows, first row {bad[0]}"
        raise ShapeError(msg)
    return rows


def normalized(rows: Floats) -> Floats:
    """Scale rows to length 1.

    Args:
        rows: (n, d) float32, finite.

    Returns:
        (n, d) float32. A zero row stays zero. Rows whose square sum would overflow or vanish
        are scaled by their largest entry first, so that every other row has length 1.
    """
    # The largest absolute value without an array of absolute values.
    peak = np.maximum(
        rows.max(axis=-1, keepdims=True, initial=0.0),
        -rows.min(axis=-1, keepdims=True, initial=0.0),
    )  # (n, 1)
    # A subnormal peak has no finite reciprocal, so divide rather than multiply.
    scaled = _divided(rows, peak)  # (n, d)
    length = np.sqrt(np.add.reduce(scaled * scaled, axis=-1, keepdims=True))  # (n, 1)
    return _divided(scaled, length)


def _divided(rows: Floats, by: Floats) -> Floats:
    """(n, d) rows over (n, 1) numbers >= 0; a row over 0 is zero."""
    if (by > 0).all():  # a division under a mask takes twice the time
        whole: Floats = rows / by
        return whole
    some: Floats = np.divide(rows, by, out=np.zeros_like(rows), where=by > 0)
    return some
