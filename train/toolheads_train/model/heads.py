"""The two heads as torch modules. Knows no loss, data or Trainer.

`HeadModule` computes what `toolheads.heads.Head` computes, with the same names for the same
weights, so that an export is a copy of arrays.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor, nn

from toolheads.arrays import Floats
from toolheads.errors import ConfigError
from toolheads.heads.architecture import Architecture

_EPS = 1e-5
"""Of every LayerNorm, as in the numpy head."""


class HiddenLayer(nn.Linear):
    """Second or later hidden layer: linear, LayerNorm if asked for. Activation is the head's."""

    def __init__(self, inputs: int, outputs: int, *, norm: bool) -> None:
        super().__init__(inputs, outputs)
        self.norm = nn.LayerNorm(outputs, eps=_EPS) if norm else None

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs) → (n, outputs)."""
        x = super().forward(x)
        return x if self.norm is None else self.norm(x)


class HeadModule(nn.Module):
    """`normalize(x + alpha * MLP(scale(x)))`, the identity until it is trained.

    The last layer starts at zero, all others as torch initialises them. Weight decay therefore
    pulls towards the identity, not towards nothing.
    """

    alpha: Tensor

    def __init__(self, architecture: Architecture, alpha: float = 1.0) -> None:
        super().__init__()
        self.architecture = architecture
        self.register_buffer("alpha", torch.tensor(float(alpha)))
        d, widths = architecture.width, architecture.hidden
        if widths:
            self.add_module("in", nn.Linear(d, widths[0]))  # "in" is the name in the heads file
        self.hidden = nn.ModuleList(
            HiddenLayer(a, b, norm=architecture.hidden_norm) for a, b in pairwise(widths)
        )
        self.out = nn.Linear(widths[-1] if widths else d, d)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Project embeddings.

        Args:
            x: (..., d) float, rows of length 1.

        Returns:
            (..., d) float32, rows of length 1.
        """
        h = self._scaled(x)
        if self.architecture.hidden:
            h = self._activated(self.get_submodule("in")(h))  # (..., h)
            for layer in self.hidden:
                h = self._activated(layer(h))
        # The sum and the length stay in float32 under autocast: bf16 has 8 bits, and the
        # correction is small against x at first.
        return F.normalize(x.float() + self.alpha * self.out(h).float(), dim=-1)

    def weights(self) -> dict[str, Floats]:
        """Float32 arrays under the names of the numpy head; alpha is not among them."""
        return {
            name: tensor.detach().float().cpu().numpy()
            for name, tensor in self.state_dict().items()
            if name != "alpha"
        }

    def _scaled(self, x: Tensor) -> Tensor:
        if self.architecture.input_scaling == "sqrt":
            return x * math.sqrt(self.architecture.width)
        if self.architecture.input_scaling == "layernorm":
            return F.layer_norm(x, (self.architecture.width,), eps=_EPS)
        return x

    def _activated(self, x: Tensor) -> Tensor:
        return F.gelu(x) if self.architecture.activation == "gelu" else x


class TwoHeads(nn.Module):
    """State head for queries, action head for tools, and the temperature between them."""

    def __init__(
        self,
        architecture: Architecture,
        *,
        alpha: float = 1.0,
        logit_scale: float = 20.0,
        max_logit_scale: float = 100.0,
        freeze_action: bool = False,
        shared: bool = False,
    ) -> None:
        """Build both heads.

        Args:
            architecture: Of each head.
            alpha: Share of the MLP in the projection.
            logit_scale: 1 / temperature at the start.
            max_logit_scale: Upper bound of 1 / temperature; the lower one is 1.
            freeze_action: Leave the action head at the identity, so that an index of frozen
                tool vectors stays valid.
            shared: One head for both sides.

        Raises:
            ConfigError: If the scales do not fit each other, or both options are set.
        """
        super().__init__()
        if not 1.0 <= logit_scale <= max_logit_scale:
            bound = f"[1, max_logit_scale = {max_logit_scale}]"
            msg = f"logit_scale must be in {bound}, got {logit_scale}"
            raise ConfigError(msg)
        if freeze_action and shared:
            msg = "shared must be false when freeze_action is true, got true"
            raise ConfigError(msg)
        self.state = HeadModule(architecture, alpha)
        self.action = self.state if shared else HeadModule(architecture, alpha)
        if freeze_action:
            self.action.requires_grad_(requires_grad=False)
        self.log_logit_scale = nn.Parameter(torch.tensor(math.log(logit_scale)))
        self.max_log_logit_scale = math.log(max_logit_scale)

    @torch.no_grad()
    def clamp_logit_scale(self) -> None:
        """Bring the *parameter* back into its range; call after each optimiser step.

        A clamp in the forward pass would have no gradient beyond the bound: the parameter could
        drift away and never come back.
        """
        self.log_logit_scale.clamp_(0.0, self.max_log_logit_scale)


def fold_views(projections: Tensor, weights: Tensor) -> Tensor:
    """(n, v, d) projections of views and (v,) weights → (n, d), as an index stores them."""
    return torch.einsum("nvd,v->nd", projections.float(), weights)
