"""The three forms that rows are stored in, and the way there and back.

| dtype | bytes of an entry | worst error of an entry of a row whose largest entry is m |
|---|---|---|
| float32 | 4 | none |
| float16 | 2 | m / 2048, for entries above 6e-5 |
| int8 | 1, and 4 for each row | m / 254 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats, from_half
from toolheads.errors import ShapeError

DTYPES = ("float32", "float16", "int8")
"""What `dtype` may be."""

_NUMPY: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": np.dtype("i1"),
}
_LARGEST_INT8 = 127


@dataclass(frozen=True, eq=False)
class StoredRows:
    """n rows as they are stored.

    Attributes:
        values: (n, d) float32, float16 or int8.
        scales: (n,) float32, what int8 values are multiplied by; None for the float dtypes.
    """

    values: npt.NDArray[Any]
    scales: Floats | None = None

    def __len__(self) -> int:
        return len(self.values)

    def floats(self, rows: Any) -> Floats:
        """(m, d) float32 of a slice or of (m,) row numbers; a view where nothing is converted."""
        values = widened(self.values[rows])
        if self.scales is not None:
            values *= self.scales[rows][:, None]
        return values


def widened(values: npt.NDArray[Any]) -> Floats:
    """Stored values, (n, d) of any of the dtypes, as float32 without their scales; exact."""
    if values.dtype == np.float16:
        return from_half(values)
    return values.astype(np.float32, copy=False)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of stored values."""
    return _NUMPY[dtype]


def to_stored(rows: Floats, dtype: str) -> StoredRows:
    """Round rows to the nearest that a dtype can store, ties to even.

    Args:
        rows: (n, d) float32, finite. As float32 they are not copied.
        dtype: One of `DTYPES`.

    Raises:
        ShapeError: If a row has entries beyond the range of float16.
    """
    if dtype == "int8":
        return _to_int8(rows)
    with np.errstate(over="ignore"):
        values = rows.astype(_NUMPY[dtype], copy=False)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        msg = (
            f"rows must be within {np.finfo(np.float16).max:.0f} as float16, got {bad.size} "
            f"beyond it, first row {bad[0]}"
        )
        raise ShapeError(msg)
    return StoredRows(values)


def _to_int8(rows: Floats) -> StoredRows:
    """Each row as whole numbers of -127 to 127 times a scale of its own."""
    peak = np.abs(rows).max(axis=1, initial=0.0)  # (n,)
    scales = (peak / np.float32(_LARGEST_INT8)).astype(np.float32)
    # A subnormal peak can have the scale 0; in float64 no quotient overflows.
    wide = np.divide(
        rows, scales[:, None], out=np.zeros(rows.shape), where=scales[:, None] > 0, dtype=np.float64
    )
    values = np.clip(np.rint(wide), -_LARGEST_INT8, _LARGEST_INT8).astype(np.int8)
    return StoredRows(values, scales)
