"""Writes heads anew in another precision, and says how much that changes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats, normalized
from toolheads.errors import HeadsFormatError
from toolheads.heads.bundle import Heads
from toolheads.heads.files import WeightDtype, heads_from_bytes, heads_to_bytes, save_heads

LEAST_COSINE = 0.999999
"""Between projections before and after. float16 weights stay far above it."""

_ROWS = 256


@dataclass(frozen=True)
class Conversion:
    """What was written, and how near it is to the original."""

    path: Path
    sha256: str
    state_cosine: float
    """Smallest cosine between projections of 256 random rows by both state heads."""
    action_cosine: float


def convert_heads(
    heads: Heads, path: str | os.PathLike[str], *, dtype: WeightDtype = "float16"
) -> Conversion:
    """Write heads to a path, once it is certain that they project as before.

    Raises:
        HeadsFormatError: If a cosine is below `LEAST_COSINE`; nothing is written then.
    """
    rng = np.random.default_rng(0)
    rows = normalized(rng.standard_normal((_ROWS, heads.state.width)).astype(np.float32))
    after = heads_from_bytes(heads_to_bytes(heads, dtype=dtype), str(path))
    state = least_cosine(heads.state(rows), after.state(rows))
    action = least_cosine(heads.action(rows), after.action(rows))
    if min(state, action) < LEAST_COSINE:
        msg = (
            f"heads in {dtype} must project as before, cosine >= {LEAST_COSINE}, got "
            f"{min(state, action):.7f}; use dtype float32"
        )
        raise HeadsFormatError(msg)
    return Conversion(Path(path), save_heads(path, heads, dtype=dtype), state, action)


def least_cosine(one: Floats, two: Floats) -> float:
    """Smallest cosine between rows of the same number.

    Args:
        one: (n, d) float32, n >= 1.
        two: (n, d) float32.

    Returns:
        In [-1, 1]; in float64, since float32 cannot tell 0.9999999 from 1.
    """
    a, b = one.astype(np.float64), two.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)  # (n,)
    products = (a * b).sum(axis=1)
    cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return float(cosines.min())
