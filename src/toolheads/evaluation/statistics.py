"""How sure a mean or a difference is: bootstrap intervals, paired permutation test, Holm.

Everything works on per-query values of one or more data sets (strata, by name). A figure over
several data sets is the mean of their means, and both methods draw within data sets only. Each
data set has its own random stream from (seed, name), so what is said about one does not change
with the company it is reported in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from toolheads.errors import ConfigError, ShapeError
from toolheads.evaluation.metrics import Values

EXACT_QUERIES = 12
"""Up to this many queries that differ, all 2**n signs are tried instead of random ones."""

_BLOCK = 1 << 20
"""Most entries of a block of random draws; keeps memory near 32 MB whatever the size."""

_TIE = 1e-9
"""Statistics this close, relative to the largest that is possible, are equal: sums of the same
differences in another order."""


def bootstrap_means(
    strata: Mapping[str, npt.ArrayLike], *, resamples: int, seed: int
) -> dict[str, Values]:
    """Means of queries drawn with replacement (Efron 1979), within each data set.

    Args:
        strata: Data set → (n,) or (n, m) values, n queries by m metrics, finite, n >= 1. All m
            metrics of a query are drawn together.
        resamples: Draws, >= 1.
        seed: Seed of the draws.

    Returns:
        Data set → (resamples, m) float64.
    """
    _check_count("resamples", resamples)
    means = {}
    for name, given in strata.items():
        values = _checked(name, given)  # (n, m)
        n = len(values)
        rng = _generator(seed, name)
        out = np.empty((resamples, values.shape[1]))
        block = max(1, _BLOCK // n)
        for start in range(0, resamples, block):
            b = min(block, resamples - start)
            drawn = rng.integers(0, n, size=(b, n)) + np.arange(b)[:, None] * n
            counts = np.bincount(drawn.ravel(), minlength=b * n).reshape(b, n)  # (b, n)
            out[start : start + b] = counts.astype(np.float64) @ values / n
        means[name] = out
    return means


def interval(means: Values, *, confidence: float) -> tuple[float, float]:
    """Percentile interval of resampled means.

    Args:
        means: (resamples,) float64.
        confidence: Coverage that is aimed at, in (0, 1).

    Returns:
        Lower and upper end.
    """
    if not 0 < confidence < 1:
        msg = f"confidence must be in (0, 1), got {confidence}"
        raise ConfigError(msg)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def permutation_p(
    strata: Mapping[str, npt.ArrayLike], *, resamples: int = 10_000, seed: int = 0
) -> float:
    """Two-sided p of paired differences under random signs (Fisher's randomization test).

    The null hypothesis: for each query, which of the two systems got which value is chance. The
    statistic is the mean over data sets of the mean difference. All signs are tried when at most
    `EXACT_QUERIES` queries differ; else `resamples` random ones, and the observed signs count as
    one of them (Phipson and Smyth 2010, https://doi.org/10.2202/1544-6115.1585), so that p is
    never 0.

    Args:
        strata: Data set → (n,) differences, one for each query, finite, n >= 1.
        resamples: Random sign vectors, >= 1.
        seed: Seed of the signs.

    Returns:
        In (0, 1]; 1 when nothing differs.
    """
    _check_count("resamples", resamples)
    if not strata:
        msg = "strata must hold at least one data set, got none"
        raise ShapeError(msg)
    parts = []
    for name, given in strata.items():
        values = _checked(name, given)
        if values.shape[1] != 1:
            msg = f"differences of {name} must have shape (n,), got {values.shape}"
            raise ShapeError(msg)
        weighted = values[:, 0] / (len(values) * len(strata))
        parts.append((name, weighted[weighted != 0]))  # a difference of 0 has no sign to flip
    every = np.concatenate([weighted for _, weighted in parts])
    if not every.size:
        return 1.0
    least = abs(every.sum()) - _TIE * np.abs(every).sum()
    if every.size <= EXACT_QUERIES:
        signs = np.arange(1 << every.size)[:, None] >> np.arange(every.size) & 1
        return float((np.abs(_flipped(signs, every)) >= least).mean())
    statistic = sum(
        _random_flips(weighted, resamples, _generator(seed, name)) for name, weighted in parts
    )
    return float((1 + (np.abs(statistic) >= least).sum()) / (1 + resamples))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for their number (Holm 1979): the familywise error stays below alpha.

    Args:
        p_values: Each in [0, 1].

    Returns:
        Corrected values, in the order given; each at least the one it came from, at most 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        msg = f"p_values must be in [0, 1], got {list(p_values)}"
        raise ShapeError(msg)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(x) for x in corrected]


def _random_flips(weighted: Values, resamples: int, rng: np.random.Generator) -> Values:
    """(resamples,) float64. Sums under random signs, in blocks."""
    n = weighted.size
    out = np.empty(resamples)
    block = max(1, _BLOCK // max(n, 1))
    for start in range(0, resamples, block):
        b = min(block, resamples - start)
        raw = rng.integers(0, 256, size=(b, (n + 7) // 8), dtype=np.uint8)
        out[start : start + b] = _flipped(np.unpackbits(raw, axis=1, count=n), weighted)
    return out


def _flipped(bits: npt.NDArray[np.integer], weighted: Values) -> Values:
    """(b,) float64. Sums in which entries with bit 0 are negative; bits (b, n), weighted (n,)."""
    flipped: Values = 2 * (bits.astype(np.float64) @ weighted) - weighted.sum()
    return flipped


def _generator(seed: int, name: str) -> np.random.Generator:
    """Random stream of one data set."""
    if seed < 0:
        msg = f"seed must be >= 0, got {seed}"
        raise ConfigError(msg)
    return np.random.default_rng([seed, *name.encode()])


def _checked(name: str, given: npt.ArrayLike) -> Values:
    """(n, m) float64, finite, n >= 1; (n,) becomes (n, 1)."""
    values = np.asarray(given, dtype=np.float64)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        msg = f"values of {name} must be finite, at least one query, got shape {values.shape}"
        raise ShapeError(msg)
    return values


def _check_count(name: str, value: int) -> None:
    if value < 1:
        msg = f"{name} must be >= 1, got {value}"
        raise ConfigError(msg)
