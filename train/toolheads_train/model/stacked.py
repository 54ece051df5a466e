"""Many pairs of heads as one module: each parameter has a leading axis of pairs.

S pairs that see the same batch share its rows, and one batched product takes the place of S small
ones. The arithmetic of each pair is that of `TwoHeads`. Steps over large tables are taken in
blocks that stay in the cache of a core, and nothing is kept in more than the precision it is
computed in; so one pair (S = 1) profits on a CPU, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor, nn

from toolheads.errors import ConfigError
from toolheads.heads.architecture import Architecture
from toolheads_train.model.heads import HeadModule, TwoHeads

_EPS = 1e-5
"""Of every LayerNorm, as in the single head."""

_SHORTEST = 1e-12
"""Length below which a row is not divided by its length, as in `torch.nn.functional.normalize`."""

BLOCK_BYTES = 1 << 18
"""Size of one float32 block on a CPU: a few of them fit the second-level cache of a core (measured:
half or four times of it is slower)."""


class StackedHead(nn.Module):
    """One side of all pairs: `HeadModule` S times."""

    alphas: Tensor

    def __init__(self, heads: Sequence[HeadModule]) -> None:
        """Copy the weights of heads of one architecture.

        Raises:
            ConfigError: If there is none, if they differ in shape, or have a centre or dropout.
        """
        super().__init__()
        shapes = {head.architecture for head in heads}
        if len(shapes) != 1:
            msg = f"stacked heads must have one architecture, got {len(shapes)}"
            raise ConfigError(msg)
        if any(head.centre is not None or head.dropout is not None for head in heads):
            msg = "stacked heads must have neither centre nor feature dropout, got some that do"
            raise ConfigError(msg)
        (self.architecture,) = shapes
        self.names = tuple(name for name, _ in heads[0].named_parameters())
        self.weights = nn.ParameterList(
            torch.stack([dict(head.named_parameters())[name].detach() for head in heads])
            for name in self.names
        )
        self.register_buffer("alphas", torch.stack([head.alpha.detach() for head in heads]))

    def forward(self, x: Tensor) -> Tensor:
        """Project rows that all heads share.

        Args:
            x: (n, d) float, rows of length 1.

        Returns:
            (S, n, d), rows of length 1; in the precision of autocast if that is on, else float32.
        """
        return project(x, self.architecture, dict(zip(self.names, self.weights, strict=True)),
                       self.alphas)  # fmt: skip

    @torch.no_grad()
    def copy_to(self, number: int, head: HeadModule) -> None:
        """Give a single head the weights and the alpha of one of these."""
        own = dict(head.named_parameters())
        for name, weight in zip(self.names, self.weights, strict=True):
            own[name].copy_(weight[number])
        head.alpha.copy_(self.alphas[number])


class StackedHeads(nn.Module):
    """S `TwoHeads`: state heads, action heads and temperatures, each with a leading axis.

    Attributes:
        state: All state heads.
        action: All action heads; the same module where both sides share one.
        frozen: Whether the action heads stay the identity.
        log_logit_scale: (S,) logarithm of 1 / temperature.
    """

    _largest: Tensor

    def __init__(self, heads: Sequence[TwoHeads]) -> None:
        """Stack pairs; their weights are copied.

        Raises:
            ConfigError: If they do not fit each other.
        """
        super().__init__()
        if not heads:
            msg = "stacked heads must be at least one pair, got none"
            raise ConfigError(msg)
        kinds = {(is_shared(one), is_frozen(one), learns_temperature(one)) for one in heads}
        if len(kinds) != 1 or any(one.widths for one in heads):
            msg = (
                "stacked heads must agree in shared, freeze_action and learn_temperature and have "
                "no widths, got several kinds or some that do"
            )
            raise ConfigError(msg)
        ((self.shared, self.frozen, learns),) = kinds
        self.state = StackedHead([one.state for one in heads])
        self.action = self.state if self.shared else StackedHead([one.action for one in heads])
        if self.frozen:
            self.action.requires_grad_(requires_grad=False)
        scales = torch.stack([one.log_logit_scale.detach() for one in heads])
        self.log_logit_scale = nn.Parameter(scales, requires_grad=learns)
        self._most = [one.max_log_logit_scale for one in heads]
        self.register_buffer("_largest", torch.tensor(self._most))

    def __len__(self) -> int:
        """S, the number of pairs."""
        return len(self.log_logit_scale)

    @property
    def architecture(self) -> Architecture:
        """Of every head."""
        return self.state.architecture

    def tools(self, x: Tensor) -> Tensor:
        """(n, d) embeddings of tools → (S, n, d) projections; as `StackedHead.forward`."""
        if not self.frozen:
            projected: Tensor = self.action(x)
            return projected
        row = F.normalize(x.float(), dim=-1).to(compute_dtype(x))
        return row.expand(len(self), *row.shape)

    def slices(self, number: int) -> list[nn.Parameter]:
        """The parameters of one pair as leaves of their own that share the stacked storage.

        An optimiser takes them: each pair then has its own rate and decay. `hand_out_gradients`
        gives them their gradients.
        """
        return [nn.Parameter(p.detach()[number]) for p in self._trained()]

    @torch.no_grad()
    def hand_out_gradients(self, slices: Sequence[Sequence[nn.Parameter]]) -> None:
        """Point the gradients of all slices into those of the stacked parameters."""
        for number, parameter in enumerate(self._trained()):
            gradient = parameter.grad
            for pair, own in enumerate(slices):
                own[number].grad = None if gradient is None else gradient[pair]

    @torch.no_grad()
    def clamp_logit_scale(self) -> None:
        """Bring all temperatures back into their ranges; as `TwoHeads.clamp_logit_scale`."""
        self.log_logit_scale.clamp_(min=0.0)
        torch.minimum(self.log_logit_scale, self._largest, out=self.log_logit_scale)

    @torch.no_grad()
    def draw(self, number: int) -> TwoHeads:
        """One pair as heads of its own, on the same device; a copy."""
        heads = TwoHeads(
            self.architecture,
            logit_scale=1.0,
            max_logit_scale=max(math.exp(self._most[number]), 1.0),
            freeze_action=self.frozen,
            shared=self.shared,
        ).to(self.log_logit_scale.device)
        heads.max_log_logit_scale = self._most[number]
        heads.log_logit_scale.requires_grad_(self.log_logit_scale.requires_grad)
        self.state.copy_to(number, heads.state)
        if not self.shared:
            self.action.copy_to(number, heads.action)
        heads.log_logit_scale.copy_(self.log_logit_scale[number])
        return heads

    def _trained(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.requires_grad]


def is_shared(heads: TwoHeads) -> bool:
    """Whether both sides have one head."""
    return heads.action is heads.state


def is_frozen(heads: TwoHeads) -> bool:
    """Whether the action head stays the identity."""
    return not any(p.requires_grad for p in heads.action.parameters())


def learns_temperature(heads: TwoHeads) -> bool:
    """Whether the temperature is trained."""
    return heads.log_logit_scale.requires_grad


def compute_dtype(x: Tensor) -> torch.dtype:
    """What products are computed in: the precision of autocast where that is on, else float32."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32


def project(
    x: Tensor, architecture: Architecture, weights: dict[str, Tensor], alphas: Tensor
) -> Tensor:
    """Project rows by S heads.

    Args:
        x: (n, d) float, rows of length 1; without a gradient.
        architecture: Of every head.
        weights: Name in the heads file → (S, ...) float32.
        alphas: (S,) share of the network in each projection; without a gradient.

    Returns:
        (S, n, d), rows of length 1, in `compute_dtype`.
    """
    dtype = compute_dtype(x)
    with torch.autocast(x.device.type, enabled=False):
        h = _scaled(x, architecture).to(dtype)[None]  # (1, n, d)
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
        h = _linear(h, weights, "out", dtype)  # (S, n, d)
        unit: Tensor = _Unit.apply(x, h, alphas)  # type: ignore[no-untyped-call]
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
    """`normalize(x + alpha * h)` in float32, stored in the precision of h.

    Its gradient: with y the result and l the length of the sum, `alpha / l * (g - y * <g, y>)`.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, alphas: Tensor) -> Tensor:
        y = torch.empty_like(h)
        lengths = torch.empty((*h.shape[:2], 1), device=h.device)
        scratch = Scratch(h.device)
        for pairs, rows in _blocks_of_pairs(h):
            total = scratch.float(0, h[pairs, rows]).mul_(alphas[pairs, None, None])
            total.add_(scratch.float(1, x[rows]))
            length = torch.linalg.vector_norm(total, dim=-1, keepdim=True).clamp_(min=_SHORTEST)
            lengths[pairs, rows] = length
            y[pairs, rows] = total.div_(length)
        ctx.save_for_backward(y, lengths, alphas)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        y, lengths, alphas = ctx.saved_tensors
        to_h = torch.empty_like(y)
        scratch = Scratch(y.device)
        for pairs, rows in _blocks_of_pairs(y):
            g, unit = scratch.float(0, gradient[pairs, rows]), scratch.float(1, y[pairs, rows])
            along = torch.linalg.vecdot(g, unit).unsqueeze(-1)
            g.addcmul_(unit, along, value=-1).mul_(alphas[pairs, None, None] / lengths[pairs, rows])
            to_h[pairs, rows] = g
        return None, to_h, None


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
