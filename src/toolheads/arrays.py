"""Array aliases and the one place where arrays from outside are checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from toolheads.errors import ShapeError

Floats = npt.NDArray[np.float32]
"""Any float32 array; the docstring of each function names its shape."""

Ids = npt.NDArray[np.int64]
"""Row numbers into a corpus."""

Bools = npt.NDArray[np.bool_]
"""Masks."""

_CACHED_ENTRIES = 1 << 17
"""512 KB of float32: a few such arrays fit the second level of a processor's cache."""


_HALF_TO_FLOAT = np.float32(2.0**112)
"""The exponent of float32 counts from -127, that of float16 from -15."""

_SIGN_AND_NUMBER = np.uint32(0x8FFFE000).view(np.int32)
"""The bits of a float32 that a float16 can set; the three in between are copies of the sign."""

_SUBNORMAL = np.float32(1e-40)

_BEYOND_HALF = np.float32(2.0**16)


def from_half(values: npt.NDArray[np.float16]) -> Floats:
    """float16 values as float32 of the same shape; exact, NaN and infinite ones too.

    Several times as fast as `astype`: the bits of a float16, moved to where float32 has them, are
    the number times 2^-112.
    """
    # A process in which subnormals count as zero would lose the smallest numbers on the way.
    if not _SUBNORMAL * _HALF_TO_FLOAT > 0:
        return values.astype(np.float32)
    bits = values.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= _SIGN_AND_NUMBER
    wide: Floats = bits.view(np.float32)
    wide *= _HALF_TO_FLOAT
    # NaN and infinity have become numbers beyond all of float16. A damaged file may hold them, and
    # they must be seen by whoever checks.
    if wide.size and (wide.max() >= _BEYOND_HALF or wide.min() <= -_BEYOND_HALF):
        return values.astype(np.float32)
    return wide


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
    is_finite: Bools = np.logical_and.reduce(np.isfinite(rows), axis=1)
    check_finite(is_finite, name=name)
    return rows


def check_finite(is_finite: Bools, *, name: str) -> None:
    """Refuse rows that are not finite.

    Args:
        is_finite: (n,) which rows are.
        name: What the caller calls the array.

    Raises:
        ShapeError: If one is not.
    """
    bad = np.flatnonzero(~is_finite)
    if bad.size:
        msg = f"{name} must be finite, got NaN or inf in {bad.size} rows, first row {bad[0]}"
        raise ShapeError(msg)


def pieces(rows: int, width: int) -> Iterator[slice]:
    """Runs of rows of which an array stays in a processor's cache, for many steps over each."""
    step = max(1, _CACHED_ENTRIES // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def normalized(rows: Floats) -> Floats:
    """Scale rows to length 1.

    Args:
        rows: (n, d) or (d,) float32, finite.

    Returns:
        Same shape, float32. A zero row stays zero. Rows whose square sum would overflow or vanish
        are scaled by their largest entry first, so that every other row has length 1.
    """
    unit = np.empty(rows.shape, np.float32)
    by_row, results = np.atleast_2d(rows), np.atleast_2d(unit)
    for piece in pieces(*by_row.shape):
        normalize(by_row[piece], largest(by_row[piece]), out=results[piece])
    return unit


def largest(rows: Floats) -> Floats:
    """(n, 1) the largest absolute value of each row; not finite where one of its entries is not."""
    # Without an array of absolute values.
    high = rows.max(axis=-1, keepdims=True, initial=0.0)
    peak: Floats = np.maximum(high, -rows.min(axis=-1, keepdims=True, initial=0.0))
    return peak


def normalize(rows: Floats, peak: Floats, *, out: Floats) -> None:
    """Write rows at length 1 to `out`, which may be `rows`. See `normalized`.

    Args:
        rows: (n, d) float32, finite.
        peak: What `largest` gives.
        out: (n, d) float32.
    """
    # A subnormal peak has no finite reciprocal, so divide rather than multiply.
    _divide(rows, peak, out)
    length = np.sqrt(np.add.reduce(out * out, axis=-1, keepdims=True))  # (n, 1)
    _divide(out, length, out)


def _divide(rows: Floats, by: Floats, out: Floats) -> None:
    """(n, d) rows over (n, 1) numbers >= 0; a row over 0 becomes zero."""
    if (by > 0).all():  # a division under a mask takes twice the time
        np.divide(rows, by, out=out)
    else:
        np.divide(rows, by, out=out, where=by > 0)
        out[by[:, 0] <= 0] = 0
