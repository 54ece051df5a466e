"""One head: the small network that training exports and this package runs with numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from toolheads.arrays import (
    Bools,
    Floats,
    as_rows,
    check_finite,
    largest,
    normalize,
    normalized,
    pieces,
)
from toolheads.errors import ShapeError
from toolheads.heads.architecture import Architecture
from toolheads.heads.gelu import gelu

LAYER_NORM_EPS = np.float32(1e-5)

BLOCK = 512
"""Rows that go through the matrix products together; bounds the memory of hidden layers."""


@dataclass(frozen=True, eq=False)
class Head:
    """y = normalize(x + alpha * (MLP(scale(x - c)) - c)), see `Architecture`.

    With alpha = 1 that is the head of a centred embedding, and with alpha = 0 the embedding itself:
    taking the mean out is part of what was learned, and fades with it.

    Attributes:
        architecture: Which weights there are.
        alpha: Strength of the trained part; 0 leaves embeddings as they are.
        weights: Name → float32 array, read-only, of the shapes in `architecture.shapes`.
        centre: (d,) float32, read-only: c, the mean embedding of this side; None is zero.
        kept: Leading entries of y that a projection keeps, brought to length 1 again; None keeps
            all d of them.
    """

    architecture: Architecture
    alpha: float
    weights: Mapping[str, Floats]
    centre: Floats | None = None
    kept: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", float(self.alpha))
        if not abs(self.alpha) <= float(np.finfo(np.float32).max):
            msg = f"alpha must be finite in float32, got {self.alpha}"
            raise ShapeError(msg)
        shapes = self.architecture.shapes
        missing, extra = (
            sorted(set(shapes) - set(self.weights)),
            sorted(set(self.weights) - set(shapes)),
        )
        if missing or extra:
            msg = (
                f"weights must be those of the architecture, got missing: "
                f"{', '.join(missing) or 'none'}, extra: {', '.join(extra) or 'none'}"
            )
            raise ShapeError(msg)
        owned = {name: _owned(self.weights[name], name, shapes[name]) for name in shapes}
        object.__setattr__(self, "weights", MappingProxyType(owned))
        if self.centre is not None:
            object.__setattr__(self, "centre", _owned(self.centre, "centre", (self.width,)))
        if self.kept is not None and not 1 <= self.kept <= self.width:
            msg = f"kept must be in [1, {self.width}], got {self.kept}"
            raise ShapeError(msg)

    @classmethod
    def identity(cls, width: int) -> Head:
        """A head that changes nothing but the length of its input, to 1."""
        architecture = Architecture(width, hidden=(1,), activation="identity")
        shapes = architecture.shapes.items()
        return cls(architecture, 0.0, {name: np.zeros(s, np.float32) for name, s in shapes})

    @property
    def width(self) -> int:
        """d, entries of an embedding."""
        return self.architecture.width

    @property
    def projection_width(self) -> int:
        """e, entries of a projection: d unless fewer are kept."""
        return self.width if self.kept is None else self.kept

    def narrowed(self, kept: int) -> Head:
        """The same head with the leading entries of its projections alone.

        Raises:
            ShapeError: If `kept` is not in [1, d].
        """
        return replace(self, kept=kept)

    def __call__(self, x: npt.ArrayLike) -> Floats:
        """Project embeddings.

        Args:
            x: (n, d) or (d,), finite.

        Returns:
            (n, e) float32, rows of length 1; a row that comes out as zero stays zero. e is
            `projection_width`.

        Raises:
            ShapeError: If the width differs, an entry is not finite, or the weights are so large
                that the projection overflows.
        """
        return self._project(x, BLOCK)

    def each(self, x: npt.ArrayLike) -> Floats:
        """Project embeddings one at a time: each row to the bit the same alone and in company.

        A BLAS picks its way of summing by the shape of the product, so the last bits of what
        `head(x)` gives depend on the number of rows. This costs about twice the time.
        Arguments, result and errors are those of `head(x)`.
        """
        return self._project(x, 1)

    def _project(self, x: npt.ArrayLike, rows_at_once: int) -> Floats:
        rows = as_rows(x, width=self.width, name="x")  # (n, d)
        if self.alpha == 0:
            return normalized(rows[:, : self.kept])
        projected = np.empty((len(rows), self.projection_width), np.float32)
        is_finite = np.empty(len(rows), np.bool_)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below, with the row's number
            for start in range(0, len(rows), rows_at_once):
                of_block = slice(start, start + rows_at_once)
                self._project_block(rows[of_block], projected[of_block], is_finite[of_block])
        check_finite(is_finite, name="the head's output")
        return projected

    def _project_block(self, block: Floats, projected: Floats, is_finite: Bools) -> None:
        """(b, d) embeddings → their projections, and whether those are finite, in place."""
        learned = self._mlp(self._scaled(block if self.centre is None else block - self.centre))
        # The rest goes entry by entry: piece by piece, or it takes as long as the products.
        for piece in pieces(*block.shape):
            moved = learned[piece]
            moved += self.weights["out.bias"]
            if self.centre is not None:
                moved -= self.centre
            moved *= np.float32(self.alpha)
            moved += block[piece]
            peak = largest(moved)
            is_finite[piece] = np.isfinite(peak[:, 0])
            kept = moved[:, : self.kept]
            peak = peak if self.kept is None else largest(kept)
            normalize(kept, peak, out=projected[piece])

    def _scaled(self, rows: Floats) -> Floats:
        if self.architecture.input_scaling == "sqrt":
            return rows * np.float32(self.width**0.5)
        if self.architecture.input_scaling == "layernorm":
            return _standardized(rows)
        return rows

    def _mlp(self, h: Floats) -> Floats:
        """(b, d) → (b, d) without the last bias; an array of its own."""
        w = self.weights
        layers = ["in", *(f"hidden.{i}" for i in range(len(self.architecture.hidden) - 1))]
        for layer in layers[: len(self.architecture.hidden)]:
            h = h @ w[f"{layer}.weight"].T  # (b, h)
            h += w[f"{layer}.bias"]
            if f"{layer}.norm.weight" in w:
                h = _standardized(h)
                h *= w[f"{layer}.norm.weight"]
                h += w[f"{layer}.norm.bias"]
            if self.architecture.activation == "gelu":
                h = gelu(h)
        out: Floats = h @ w["out.weight"].T  # (b, d)
        return out


def _standardized(rows: Floats) -> Floats:
    """LayerNorm without its weights, as torch: variance over n, eps inside the root."""
    centered: Floats = rows - rows.mean(axis=1, keepdims=True)
    variance = np.square(centered).mean(axis=1, keepdims=True)
    centered /= np.sqrt(variance + LAYER_NORM_EPS)
    return centered


def _owned(weight: npt.ArrayLike, name: str, shape: tuple[int, ...]) -> Floats:
    """A read-only float32 copy, checked."""
    raw = np.asarray(weight)
    if raw.dtype.kind != "f" or raw.shape != shape:
        msg = f"{name} must be floats of shape {shape}, got {raw.dtype} of shape {raw.shape}"
        raise ShapeError(msg)
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf and is refused below
        owned = np.array(raw, dtype=np.float32, order="C")
    if not np.isfinite(owned).all():
        bad = int(np.count_nonzero(~np.isfinite(owned)))
        msg = f"{name} must be finite, got NaN or inf in {bad} entries"
        raise ShapeError(msg)
    owned.flags.writeable = False
    return owned
