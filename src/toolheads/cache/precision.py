"""The three number formats vectors are stored in, and the way there and back.

numpy has no bfloat16: its values are handled as the upper 16 bits of a float32, in uint16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Floats
from toolheads.errors import ConfigError

Stored = npt.NDArray[Any]
"""Values as the file has them: float16, float32, or uint16 for bfloat16."""

SAFETENSORS_NAMES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
"""dtype → its name in a safetensors header."""

DTYPES = tuple(SAFETENSORS_NAMES)
"""What `dtype` may be."""

_NUMPY: dict[str, np.dtype[Any]] = {
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
    "float32": np.dtype("<f4"),
}


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype that holds stored values.

    Raises:
        ConfigError: If `dtype` is not one of `DTYPES`.
    """
    if dtype not in _NUMPY:
        msg = f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}"
        raise ConfigError(msg)
    return _NUMPY[dtype]


def to_stored(rows: Floats, dtype: str) -> Stored:
    """Round to the nearest value of a format, ties to even.

    Args:
        rows: (n, d) float32, finite.
        dtype: One of `DTYPES`.

    Returns:
        (n, d) of `numpy_dtype(dtype)`. A value beyond the format's range becomes infinite.
    """
    kind = numpy_dtype(dtype)
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
        last_kept = (bits >> np.uint32(16)) & np.uint32(1)
        return ((bits + np.uint32(0x7FFF) + last_kept) >> np.uint32(16)).astype(kind)
    with np.errstate(over="ignore"):  # the caller looks for the infinite values
        return np.ascontiguousarray(rows, dtype=kind)


def to_floats(stored: Stored, dtype: str) -> Floats:
    """Read stored values, (…) of `numpy_dtype(dtype)`, as float32 of the same shape; exact."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float32)
