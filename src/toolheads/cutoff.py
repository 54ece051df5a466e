"""Adaptive cut-off: how many of the ranked hits of one query are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.errors import ConfigError, ShapeError

EDGE = 1e-6
"""Absolute slack of every comparison. A score is a float32 product of unit rows, whose last bits
(about 1e-7) depend on the machine; a hit on the edge is kept on every machine: with a best score
of 0.9 and a margin of 0.2, a score of 0.7 is kept."""


@dataclass(frozen=True)
class CutoffSettings:
    """Keep the hits within `margin` of the best one, at least `min_k` and at most `max_k`.

    The threshold is the stronger word: a hit below it is dropped even if fewer than `min_k`
    remain, so that "no tool fits" can be an answer. All edges are inclusive.
    """

    margin: float = 0.2
    """Largest absolute difference to the best score, finite and >= 0."""
    max_k: int = 10
    """Most hits, >= 1."""
    min_k: int = 1
    """Fewest hits as long as the corpus and the threshold allow, in [0, max_k]."""
    threshold: float | None = None
    """Least score of a hit; None keeps hits whatever their score."""

    def __post_init__(self) -> None:
        if not _is_number(self.margin) or self.margin < 0:
            msg = f"margin must be a finite number >= 0, got {self.margin!r}"
            raise ConfigError(msg)
        if type(self.max_k) is not int or self.max_k < 1:
            msg = f"max_k must be a whole number >= 1, got {self.max_k!r}"
            raise ConfigError(msg)
        if type(self.min_k) is not int or not 0 <= self.min_k <= self.max_k:
            msg = f"min_k must be a whole number in [0, {self.max_k}] (max_k), got {self.min_k!r}"
            raise ConfigError(msg)
        if self.threshold is not None and not _is_number(self.threshold):
            msg = f"threshold must be None or a finite number, got {self.threshold!r}"
            raise ConfigError(msg)

    def count(self, scores: npt.ArrayLike) -> int:
        """Count the hits to keep of one ranked list.

        Args:
            scores: (n,), best first, finite. Hits beyond `max_k` may be left out.

        Returns:
            Number of hits to keep from the front, in [0, min(n, max_k)].

        Raises:
            ShapeError: If a score is NaN or infinite, or a later one is higher.
        """
        s = np.asarray(scores, dtype=np.float64)
        if s.ndim != 1 or not np.isfinite(s).all():
            msg = f"scores must be finite and of shape (n,), got {s.shape} with NaN or inf"
            raise ShapeError(msg if s.ndim == 1 else msg.removesuffix(" with NaN or inf"))
        if (np.diff(s) > 0).any():
            msg = f"scores must fall, got a rise after rank {int(np.argmax(np.diff(s) > 0)) + 1}"
            raise ShapeError(msg)
        if not s.size:
            return 0
        near = int(np.count_nonzero(s >= s[0] - self.margin - EDGE))
        kept = min(max(near, self.min_k), self.max_k, s.size)
        if self.threshold is None:
            return kept
        return min(kept, int(np.count_nonzero(s >= self.threshold - EDGE)))

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> CutoffSettings:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a field is missing, unknown, or breaks its rule.
        """
        names = {f.name for f in fields(cls)}
        if not isinstance(data, Mapping) or set(data) != names:
            msg = f"cutoff must have the fields {', '.join(sorted(names))}, got {data!r:.200}"
            raise ConfigError(msg)
        return cls(**data)


def _is_number(value: object) -> bool:
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]  # a number, as checked
