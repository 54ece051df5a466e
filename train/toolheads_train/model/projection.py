"""The projection of S heads at once: products with gradients made by hand, in blocks for the cache.

Steps over large tables are taken in blocks that stay in the cache of a core, and nothing is kept in
more than the precision it is computed in; so one head (S = 1) profits on a CPU, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor

from toolheads.heads.architecture import Architecture

_EPS = 1e-5
"""Of every LayerNorm, as in the single head."""

_SHORTEST = 1e-12
"""Length below which a row is not divided by its length, as in `torch.nn.functional.normalize`."""

BLOCK_BYTES = 1 << 18
"""Size of one float32 block on a CPU: a few of them fit the second-level cache of a core (measured:
half or four times of it is slower)."""


def compute_dtype(x: Tensor) -> torch.dtype:
    """What products are computed in: the precision of autocast where that is on, else float32."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32


def project(
    x: Tensor,
    architecture: Architecture,
    weights: dict[str, Tensor],
    alphas: Tensor,
    *,
    centre: Tensor | None = None,
    factors: Tensor | None = None,
    kept: int | None = None,
) -> Tensor:
    """Project rows by S heads.

    Args:
        x: (n, d) float, rows of length 1; without a gradient.
        architecture: Of every head.
        weights: Name in the heads file → (S, ...) float32.
        alphas: (S,) share of the network in each projection; without a gradient.
        centre: (d,) mean embedding of this side; None is zero.
        factors: (S, n, d) what each head multiplies the entries of rows with; None is one.
        kept: Leading entries of a projection that are made; None makes all d.

    Returns:
        (S, n, kept), rows of length 1, in `compute_dtype`.
    """
    dtype = compute_dtype(x)
    with torch.autocast(x.device.type, enabled=False):
        inner = x if centre is None else x - centre
        inner = inner[None] if factors is None else inner * factors  # (1 or S, n, d)
        h = _scaled(inner, architecture).to(dtype)
        if architecture.hidden:
            h = _activated(_linear(h, weights, "in", dtype), architecture)
            for number in range(len(architecture.hidden) - 1):
                h = _linear(h, weights, f"hidden.{number}", dtype)
                if architecture.hidden_norm:
                    scale = weights[f"hidden.{number}.norm.weight"][:, None]  # (S, 1, h)
                    shift = weights[f"hidden.{number}.norm.bias"][:, None]
                    h = F.layer_norm(h.float(), h.shape[-1:], eps=_EPS) * scale + shift
                    h = h.to(dtype)
                h = _activated(h, architecture)
        if kept is not None:
            leading = {name: weights[name][:, :kept] for name in ("out.weight", "out.bias")}
            weights, x = weights | leading, x[..., :kept]
            centre = None if centre is None else centre[:kept]
            factors = None if factors is None else factors[..., :kept]
        h = _linear(h, weights, "out", dtype)  # (S, n, kept)
        unit: Tensor = _Unit.apply(x, h, alphas, centre, factors)  # type: ignore[no-untyped-call]
        return unit


def blocks(rows: int, width: int, device: torch.device) -> Iterator[slice]:
    """Rows of a table in blocks of at most `BLOCK_BYTES` as float32; all at once on a GPU."""
    step = rows if device.type != "cpu" else max(BLOCK_BYTES // (4 * width), 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _linear(h: Tensor, weights: dict[str, Tensor], name: str, dtype: torch.dtype) -> Tensor:
    """(1 or S, n, i) by (S, o, i) → (S, n, o)."""
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    if len(weight) == 1:
        one: Tensor = _Linear.apply(h.squeeze(0), weight.squeeze(0), bias.squeeze(0), dtype)  # type: ignore[no-untyped-call]
        return one[None]
    weight, bias = weight.to(dtype), bias.to(dtype)
    return torch.baddbmm(bias[:, None], h.expand(len(weight), -1, -1), weight.transpose(1, 2))


def transposed(table: Tensor) -> Tensor:
    """(n, m) or (S, n, m) with the last two axes exchanged, in memory too.

    On a CPU a product whose first factor is transposed only in name takes twice as long (measured
    in bf16: 44 ms against 19 ms and 2 ms for the copy); a GPU reads either way.
    """
    turned = table.transpose(-1, -2)
    if table.device.type != "cpu":
        return turned
    if table.dim() == 2:
        return turned.contiguous()
    return torch.stack([one.contiguous() for one in turned])  # fast for two axes alone


def _scaled(x: Tensor, architecture: Architecture) -> Tensor:
    if architecture.input_scaling == "sqrt":
        return x.float() * math.sqrt(architecture.width)
    if architecture.input_scaling == "layernorm":
        return F.layer_norm(x.float(), (architecture.width,), eps=_EPS)
    return x


def _activated(h: Tensor, architecture: Architecture) -> Tensor:
    return F.gelu(h) if architecture.activation == "gelu" else h


class _Linear(torch.autograd.Function):
    """`x @ weight.T + bias` in a precision; gradients of the float32 weights in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        low = weight.to(dtype)
        ctx.save_for_backward(x, low)
        return F.linear(x, low, bias.to(dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        to_x = gradient @ weight if ctx.needs_input_grad[0] else None
        turned = transposed(gradient)
        # Summed in float32 inside, as asked for by name it would be copied there first.
        return to_x, (turned @ x).float(), turned.sum(1).float(), None


class _Unit(torch.autograd.Function):
    """`normalize((x - alpha * centre) * factors + alpha * h)` in float32, stored as h is.

    Its gradient: with y the result and l the length of the sum, `alpha / l * (g - y * <g, y>)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        alphas: Tensor,
        centre: Tensor | None,
        factors: Tensor | None,
    ) -> Tensor:
        y = torch.empty_like(h)
        lengths = torch.empty((*h.shape[:2], 1), device=h.device)
        scratch = Scratch(h.device)
        for pairs, rows in _blocks_of_pairs(h):
            strength = alphas[pairs, None, None]
            total = scratch.float(0, h[pairs, rows]).mul_(strength)
            if factors is None:
                total.add_(scratch.float(1, x[rows]))
                if centre is not None:
                    total.sub_(strength * centre)
            else:
                base = x[rows] if centre is None else x[rows] - strength * centre
                total.addcmul_(factors[pairs, rows], base.float())
            length = torch.linalg.vector_norm(total, dim=-1, keepdim=True).clamp_(min=_SHORTEST)
            lengths[pairs, rows] = length
            y[pairs, rows] = total.div_(length)
        ctx.save_for_backward(y, lengths, alphas)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None, None, None]:
        y, lengths, alphas = ctx.saved_tensors
        to_h = torch.empty_like(y)
        scratch = Scratch(y.device)
        for pairs, rows in _blocks_of_pairs(y):
            g, unit = scratch.float(0, gradient[pairs, rows]), scratch.float(1, y[pairs, rows])
            along = torch.linalg.vecdot(g, unit).unsqueeze(-1)
            g.addcmul_(unit, along, value=-1).mul_(alphas[pairs, None, None] / lengths[pairs, rows])
            to_h[pairs, rows] = g
        return None, to_h, None, None, None


class Scratch:
    """Float32 copies of blocks in places that are used again: new memory costs more than a pass."""

    def __init__(self, device: torch.device) -> None:
        self._keeps = device.type == "cpu"
        self._places: dict[int, Tensor] = {}

    def float(self, number: int, block: Tensor) -> Tensor:
        """A float32 copy that is valid until the next one of this number."""
        if not self._keeps:
            return block.to(torch.float32, copy=True)
        return self.empty(number, block.shape, torch.float32).copy_(block)

    def empty(self, number: int, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """A place of a shape with anything in it."""
        place = self._places.get(number)
        if place is None or place.numel() < shape.numel():
            place = torch.empty(shape.numel(), dtype=dtype)
            self._places[number] = place
        return place[: shape.numel()].view(shape)


def _blocks_of_pairs(table: Tensor) -> Iterator[tuple[slice, slice]]:
    """Blocks of a (S, n, d) table: all at once on a GPU, within one pair on a CPU."""
    if table.device.type != "cpu":
        yield slice(None), slice(None)
        return
    for pair in range(len(table)):
        for rows in blocks(table.shape[1], table.shape[2], table.device):
            yield slice(pair, pair + 1), rows
