"""Exact GELU in numpy. Knows arrays only."""

from __future__ import annotations

import numpy as np

from toolheads.arrays import Floats

_P = 0.3275911
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, Handbook of Mathematical Functions (1964), formula 7.1.26:
erf(x) = 1 - (a1 t + a2 t^2 + … + a5 t^5) exp(-x^2) with t = 1 / (1 + p x), x >= 0; the absolute
error is at most 1.5e-7, which is the resolution of float32 near 1."""

_BEYOND = np.float32(10.0)
"""erf is 1 in float32 from 4 on; clipping keeps x^2 finite."""


def gelu(x: Floats) -> Floats:
    """The Gaussian error linear unit, x * (1 + erf(x / sqrt 2)) / 2.

    Args:
        x: Any shape, float32.

    Returns:
        Same shape, float32; within 3e-7 * max(1, |x|) of the exact value.
    """
    z = np.abs(x)
    z *= np.float32(0.5**0.5)
    np.minimum(z, _BEYOND, out=z)
    t = z * np.float32(_P)
    t += np.float32(1)
    np.reciprocal(t, out=t)
    tail = t * np.float32(_A[4])
    for a in _A[3::-1]:
        tail += np.float32(a)
        tail *= t
    z *= z
    np.negative(z, out=z)
    np.exp(z, out=z)
    tail *= z  # 1 - erf(|x| / sqrt 2), (…)
    # x Phi(x) is x (1 - tail / 2) on the right and x tail / 2 on the left: no difference of
    # two numbers near 1 is taken, so large negative x keep their small values.
    tail *= np.float32(0.5)
    np.subtract(np.float32(1), tail, out=tail, where=x > 0)
    tail *= x
    return tail
