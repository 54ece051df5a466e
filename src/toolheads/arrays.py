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

_INFINITE_HALF = 0x7C00
"""Bits of a float16 that is infinite; those of NaN are larger, as integers."""

_HALF_SIGN = 0x8000

_PLAIN_SQUARES = np.float32(1e-20), np.float32(1e20)
"""A square sum of a row between these lost nothing to overflow, and nothing to speak of below."""


def from_half(values: npt.NDArray[np.float16], *, out: Floats | None = None) -> Floats:
    """(…) float16 values as float32 of the same shape; exact, NaN and infinite ones too.

    Several times as fast as `astype`: the bits of a float16, moved to where float32 has them, are
    the number times 2^-112.

    Args:
        values: float16, of any shape.
        out: Where they go, float32 of the same shape; None makes it.
    """
    wide = np.empty(values.shape, np.float32) if out is None else out
    by_row, results = np.atleast_2d(values), np.atleast_2d(wide)
    for piece in pieces(len(by_row), by_row[0].size if len(by_row) else 0):
        _widen(by_row[piece], results[piece])
    return wide


def _widen(values: npt.NDArray[np.float16], wide: Floats) -> None:
    # The bit trick would make large numbers of NaN and infinity. A damaged file may hold them, and
    # they must be seen by whoever checks.
    is_finite = values.size == 0 or (
        values.view(np.int16).max() < _INFINITE_HALF
        and values.view(np.uint16).max() < _HALF_SIGN + _INFINITE_HALF
    )
    # A process in which subnormals count as zero would lose the smallest numbers on the way.
    if not is_finite or not _SUBNORMAL * _HALF_TO_FLOAT > 0:
        np.copyto(wide, values)
        return
    bits = wide.view(np.int32)
    np.copyto(bits, values.view(np.int16))
    bits <<= 13
    bits &= _SIGN_AND_NUMBER
    wide *= _HALF_TO_FLOAT


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
    rows = as_unchecked_rows(x, width=width, name=name)
    check_finite(are_finite(rows), name=name)
    return rows


def as_unchecked_rows(x: npt.ArrayLike, *, width: int | None, name: str) -> Floats:
    """As `as_rows`, for a caller that sees by what it makes of rows whether they are finite.

    Raises:
        ShapeError: If the last axis is not `width`, or a value is not real.
    """
    raw = np.asarray(x)
    if raw.dtype.kind not in "fiub":
        msg = f"{name} must hold real numbers, got dtype {raw.dtype}"
        raise ShapeError(msg)
    if raw.ndim not in (1, 2) or (width is not None and raw.shape[-1] != width):
        want = "n, d" if width is None else f"n, {width}"
        msg = f"{name} must have shape ({want}), got {raw.shape}"
        raise ShapeError(msg)
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf, and is no row
        return np.ascontiguousarray(np.atleast_2d(raw), dtype=np.float32)


def are_finite(rows: Floats) -> Bools:
    """(n,) which rows of (n, d) are finite."""
    finite: Bools = np.logical_and.reduce(np.isfinite(rows), axis=1)
    return finite


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


def pieces(
    rows: int, width: int, *, entries: int = _CACHED_ENTRIES, multiple: int = 1
) -> Iterator[slice]:
    """Runs of rows of which an array stays in a processor's cache, for many steps over each.

    Args:
        rows: How many there are.
        width: Entries of each.
        entries: Most entries of a run; fewer where a step has several arrays. A run has `multiple`
            rows at least.
        multiple: What the rows of a run are a multiple of, all but the last.
    """
    step = multiple * max(1, entries // max(1, width * multiple))
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
        normalize(by_row[piece], out=results[piece])
    return unit


def normalize(rows: Floats, *, out: Floats, room: Floats | None = None) -> Bools:
    """Write rows at length 1 to `out`, which may be `rows`. See `normalized`.

    Args:
        rows: (n, d) float32.
        out: (n, d) float32.
        room: (m,) float32 to work in; one that is too small is not used.

    Returns:
        (n,) which rows are finite; the others are not in `out` in any useful form. A row that
        comes out depends on nothing but itself, to the bit.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squared = None
        if room is not None and room.size >= rows.size:
            squared = room[: rows.size].reshape(rows.shape)
        length = np.add.reduce(np.square(rows, out=squared), axis=-1)  # (n,) square sums
        least, most = _PLAIN_SQUARES
        is_plain: Bools = (length > least) & (length < most)
        np.sqrt(length, out=length)
        if is_plain.all():
            np.divide(rows, length[:, None], out=out)
            return is_plain
        odd = rows[~is_plain]  # a copy: `out` may be `rows`
        np.divide(rows, length[:, None], out=out, where=is_plain[:, None])
        peak = largest(odd)
        out[~is_plain] = _by_steps(odd, peak)
    is_plain[~is_plain] = np.isfinite(peak[:, 0])
    return is_plain


def largest(rows: Floats) -> Floats:
    """(n, 1) the largest absolute value of each row; not finite where one of its entries is not."""
    # Without an array of absolute values.
    high = rows.max(axis=-1, keepdims=True, initial=0.0)
    peak: Floats = np.maximum(high, -rows.min(axis=-1, keepdims=True, initial=0.0))
    return peak


def _by_steps(rows: Floats, peak: Floats) -> Floats:
    """(n, d) rows at length 1, over their largest entries (n, 1) first; 0 over 0 is 0."""
    # A subnormal peak has no finite reciprocal, so divide rather than multiply.
    unit = np.divide(rows, peak, out=np.zeros_like(rows), where=peak > 0)
    length = np.sqrt(np.add.reduce(unit * unit, axis=-1, keepdims=True))  # (n, 1), 0 or >= 1
    np.divide(unit, length, out=unit, where=length > 0)
    return unit
