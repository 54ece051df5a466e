"""Many pairs of heads as one module: each parameter has a leading axis of pairs.

S pairs that see the same batch share its rows, and one batched product takes the place of S small
ones (see `projection`). The arithmetic of each pair is that of `TwoHeads`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor, nn

from toolheads.errors import ConfigError
from toolheads.heads.architecture import Architecture
from toolheads_train.model.heads import FeatureDropout, HeadModule, TwoHeads
from toolheads_train.model.projection import compute_dtype, project


class StackedDropout(nn.Module):
    """The dropout of S pairs: each draws from its own generator what it would draw alone."""

    def __init__(self, parts: Sequence[FeatureDropout]) -> None:
        """Go on where each of S dropouts is; they stay as they are.

        Raises:
            ConfigError: If their shares differ.
        """
        super().__init__()
        shares = sorted({one.share for one in parts})
        if len(shares) != 1:
            msg = f"stacked heads must have one share of feature dropout, got {shares}"
            raise ConfigError(msg)
        self.parts = nn.ModuleList(one.copied() for one in parts)

    def __getitem__(self, number: int) -> FeatureDropout:
        """That of one pair."""
        part = self.parts[number]
        if not isinstance(part, FeatureDropout):
            msg = f"a part must be a FeatureDropout, got {type(part).__name__}"
            raise TypeError(msg)
        return part

    def factors(self, x: Tensor) -> Tensor | None:
        """(n, d) rows → (S, n, d) float32, as `FeatureDropout.factors`; None outside training."""
        drawn = [self[number].factors(x) for number in range(len(self.parts))]
        found = [one for one in drawn if one is not None]
        return torch.stack(found) if found else None


class StackedHead(nn.Module):
    """One side of all pairs: `HeadModule` S times."""

    alphas: Tensor
    centre: Tensor | None

    def __init__(self, heads: Sequence[HeadModule], dropout: StackedDropout | None = None) -> None:
        """Copy the weights of heads of one architecture.

        Args:
            heads: S heads.
            dropout: Of the entries of embeddings in training, in place of their own.

        Raises:
            ConfigError: If there is none, or if they differ in shape or centre.
        """
        super().__init__()
        shapes = {head.architecture for head in heads}
        if len(shapes) != 1:
            msg = f"stacked heads must have one architecture, got {len(shapes)}"
            raise ConfigError(msg)
        centre = heads[0].centre
        if not all(_equal(centre, head.centre) for head in heads):
            msg = "stacked heads must have one centre or none, got others; train on one corpus"
            raise ConfigError(msg)
        (self.architecture,) = shapes
        self.dropout = dropout
        self.register_buffer("centre", None if centre is None else centre.detach().clone())
        self.names = tuple(name for name, _ in heads[0].named_parameters())
        self.weights = nn.ParameterList(
            torch.stack([dict(head.named_parameters())[name].detach() for head in heads])
            for name in self.names
        )
        self.register_buffer("alphas", torch.stack([head.alpha.detach() for head in heads]))

    def forward(self, x: Tensor, kept: int | None = None) -> Tensor:
        """Project rows that all heads share.

        Args:
            x: (n, d) float, rows of length 1.
            kept: Leading entries of a projection that are made; None makes all d.

        Returns:
            (S, n, kept), rows of length 1; in the precision of autocast if that is on, else
            float32.
        """
        return project(
            x,
            self.architecture,
            dict(zip(self.names, self.weights, strict=True)),
            self.alphas,
            centre=self.centre,
            factors=None if self.dropout is None else self.dropout.factors(x),
            kept=kept,
        )

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
        widths: Leading entries of a projection that are trained to be served alone.
        dropout: Of both sides, or None.
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
        dropouts = [one.state.dropout for one in heads if one.state.dropout is not None]
        kinds = {
            (is_shared(one), is_frozen(one), learns_temperature(one), one.widths) for one in heads
        }
        if len(kinds) != 1 or len(dropouts) not in (0, len(heads)):
            msg = (
                "stacked heads must agree in shared, freeze_action, learn_temperature, widths and "
                "feature_dropout, got several kinds"
            )
            raise ConfigError(msg)
        ((self.shared, self.frozen, learns, self.widths),) = kinds
        self.dropout = StackedDropout(dropouts) if dropouts else None
        self.state = StackedHead([one.state for one in heads], self.dropout)
        self.action = (
            self.state if self.shared else StackedHead([one.action for one in heads], self.dropout)
        )
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

    def tools(self, x: Tensor, kept: int | None = None) -> Tensor:
        """(n, d) embeddings of tools → (S, n, kept) projections; as `StackedHead.forward`."""
        if not self.frozen:
            projected: Tensor = self.action(x, kept)
            return projected
        row = x.float()
        if self.dropout is not None and (factors := self.dropout.factors(x)) is not None:
            row = row * factors
        row = F.normalize(row[..., :kept], dim=-1).to(compute_dtype(x))
        return row.expand(len(self), *row.shape[-2:])

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
            widths=self.widths,
            centres=(self.state.centre, self.action.centre),
        ).to(self.log_logit_scale.device)
        heads.max_log_logit_scale = self._most[number]
        heads.log_logit_scale.requires_grad_(self.log_logit_scale.requires_grad)
        self.state.copy_to(number, heads.state)
        if not self.shared:
            self.action.copy_to(number, heads.action)
        heads.log_logit_scale.copy_(self.log_logit_scale[number])
        if self.dropout is not None:
            heads.state.dropout = heads.action.dropout = self.dropout[number].copied()
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


def _equal(one: Tensor | None, two: Tensor | None) -> bool:
    """Whether two centres are one."""
    if one is None or two is None:
        return one is two
    return torch.equal(one, two)
