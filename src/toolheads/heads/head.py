"""One head: the small network that training exports and this package runs with numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from toolheads.arrays import (
    Bools,
    Floats,
    are_finite,
    as_unchecked_rows,
    check_finite,
    largest,
    normalize,
    pieces,
)
from toolheads.errors import ShapeError
from toolheads.heads.architecture import Architecture
from toolheads.heads.gelu import double_gelu
from toolheads.heads.room import PIECE, Room

LAYER_NORM_EPS = np.float32(1e-5)

BLOCK = 1024
"""Rows that go through the matrix products together; bounds the memory of hidden layers."""
OUTPUT = "the head's output"
"""What a projection that is not finite is called in an error."""


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
        return self._project(x, 1 if self.alpha else BLOCK)  # without products nothing to pick

    def in_pieces(
        self, block: Floats, room: Room, *, multiple: int = 1
    ) -> Iterator[tuple[slice, Floats, Bools]]:
        """Project one block, and hand its rows out while they are in the processor's cache.

        Args:
            block: (b, d) float32, C-contiguous. All of it goes through the products at once.
            room: For this architecture, and b rows at least.
            multiple: What the rows of a piece are a multiple of, all but the last.

        Yields:
            Which rows of the block; (m, e) float32, their projections, good until the next piece;
            and (m,) which of them are finite. Others must not be used. The turn of the room is held
            meanwhile.
        """
        learned = room.learned[: len(block)]
        scale, shift = np.float32(self.alpha), self._shift()
        if self.alpha:
            scale *= self._mlp(block, learned, room)
        # The rest goes entry by entry: piece by piece, or it takes as long as the products.
        with room.turn:
            for piece in pieces(*block.shape, entries=PIECE, multiple=multiple):
                moved = learned[piece]
                with np.errstate(over="ignore", invalid="ignore"):  # told by what is yielded last
                    if self.alpha:
                        moved *= scale
                        moved += shift
                        moved += block[piece]
                    else:
                        moved[:] = block[piece]
                kept = moved[:, : self.kept]
                # The entries that are left out must be finite all the same.
                is_whole = self.kept is None or np.isfinite(largest(moved)[:, 0])
                yield piece, kept, normalize(kept, out=kept, room=room.shared) & is_whole

    def _project(self, x: npt.ArrayLike, rows_at_once: int) -> Floats:
        rows = as_unchecked_rows(x, width=self.width, name="x")  # (n, d)
        projected = np.empty((len(rows), self.projection_width), np.float32)
        is_finite = np.empty(len(rows), np.bool_)
        room = Room(self.architecture, min(len(rows), rows_at_once))
        for start in range(0, len(rows), rows_at_once):
            of_block = slice(start, start + rows_at_once)
            into, good_of_block = projected[of_block], is_finite[of_block]
            for piece, unit, good in self.in_pieces(rows[of_block], room):
                into[piece], good_of_block[piece] = unit, good
        if not is_finite.all():  # as nothing is that comes of a row that is not
            check_finite(are_finite(rows), name="x")
            check_finite(is_finite, name=OUTPUT)
        return projected

    def _shift(self) -> Floats:
        """(d,) what is added to each product: alpha * (the last bias - the centre)."""
        bias = self.weights["out.bias"]
        with np.errstate(over="ignore"):
            shift: Floats = bias if self.centre is None else bias - self.centre
            return shift * np.float32(self.alpha)

    def _mlp(self, rows: Floats, out: Floats, room: Room) -> np.float32:
        """Write the MLP of (b, d), without the last bias, to `out`; what that is to be times."""
        w, architecture = self.weights, self.architecture
        layers = ["in", *(f"hidden.{i}" for i in range(len(architecture.hidden) - 1))]
        is_gelu, scale = architecture.activation == "gelu", np.float32(1)
        with np.errstate(over="ignore", invalid="ignore"):
            h = self._scaled(rows if self.centre is None else rows - self.centre)
            # One name for each hidden width; a head without hidden layers uses none of them.
            for layer, hidden in zip(layers, room.hidden, strict=False):
                h = np.matmul(h, w[f"{layer}.weight"].T, out=hidden[: len(h)])  # (b, h)
                with room.turn:
                    for piece in pieces(*h.shape, entries=PIECE):
                        self._activate(h[piece], layer, scale, room)
                scale = np.float32(0.5 if is_gelu else 1)
            np.matmul(h, w["out.weight"].T, out=out)
        return scale

    def _activate(self, h: Floats, layer: str, scale: np.float32, room: Room) -> None:
        """Products (m, h) → what the next layer takes, in place, twice that after GELU."""
        w = self.weights
        if scale != 1:
            h *= scale
        h += w[f"{layer}.bias"]
        if f"{layer}.norm.weight" in w:
            h[:] = _standardized(h)
            h *= w[f"{layer}.norm.weight"]
            h += w[f"{layer}.norm.bias"]
        if self.architecture.activation == "gelu":
            double_gelu(h, room.two)

    def _scaled(self, rows: Floats) -> Floats:
        if self.architecture.input_scaling == "sqrt":
            return rows * np.float32(self.width**0.5)
        if self.architecture.input_scaling == "layernorm":
            return _standardized(rows)
        return rows


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
        # A BLAS takes small products in a quarter less of time from a matrix by columns.
        owned = np.array(raw, dtype=np.float32, order="F")
    if not np.isfinite(owned).all():
        bad = int(np.count_nonzero(~np.isfinite(owned)))
        msg = f"{name} must be finite, got NaN or inf in {bad} entries"
        raise ShapeError(msg)
    owned.flags.writeable = False
    return owned
