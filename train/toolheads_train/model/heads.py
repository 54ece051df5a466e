"""The two heads as torch modules. Knows no loss, data or Trainer.

`HeadModule` computes what `toolheads.heads.Head` computes, with the same names for the same
weights, so that an export is a copy of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor, nn

from toolheads.arrays import Floats
from toolheads.errors import ConfigError
from toolheads.heads import Head
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


class FeatureDropout(nn.Module):
    """Sets entries to zero in training, and scales the others up so that sums stay as they were.

    It draws from a generator of its own, whose state is part of `state_dict`: a resumed run draws
    what the run that was not stopped drew, whatever else draws numbers.
    """

    def __init__(self, share: float, seed: int) -> None:
        super().__init__()
        self.share = share
        self._seed = seed
        self._generator: torch.Generator | None = None
        self._state: Tensor | None = None  # of a checkpoint, until the device is known

    def factors(self, x: Tensor) -> Tensor | None:
        """0 or 1 / (1 - share) for each entry of x; None where nothing is dropped."""
        if not self.training or not self.share:
            return None
        drawn = torch.rand(x.shape, generator=self.generator_on(x.device), device=x.device)
        return (drawn >= self.share) / (1 - self.share)

    def copied(self) -> FeatureDropout:
        """One that draws next what this one draws next."""
        copied = FeatureDropout(self.share, self._seed)
        copied.set_extra_state(self.get_extra_state())
        return copied

    def generator_on(self, device: torch.device) -> torch.Generator:
        """The generator, made where it is first asked for."""
        if self._generator is None:
            self._generator = torch.Generator(device).manual_seed(self._seed)
            if self._state is not None:
                self._generator.set_state(self._state)
        return self._generator

    def get_extra_state(self) -> Tensor:
        """(n,) uint8, state of the generator; empty before the first draw."""
        if self._generator is not None:
            return self._generator.get_state()
        return torch.empty(0, dtype=torch.uint8) if self._state is None else self._state

    def set_extra_state(self, state: Tensor) -> None:
        """Go on where `get_extra_state` was called."""
        self._generator, self._state = None, state.cpu() if len(state) else None


class HeadModule(nn.Module):
    """`normalize(x + alpha * (MLP(scale(x - c)) - c))`, the identity until it is trained.

    The last layer starts at zero, all others as torch initialises them. Weight decay therefore
    pulls towards the identity, not towards nothing. With a centre c it starts as the centred
    embedding.
    """

    alpha: Tensor
    centre: Tensor | None

    def __init__(
        self,
        architecture: Architecture,
        alpha: float = 1.0,
        centre: Tensor | None = None,
        dropout: FeatureDropout | None = None,
    ) -> None:
        """Build a head.

        Args:
            architecture: Its shape.
            alpha: Share of what it learns in the projection.
            centre: (d,) mean embedding of its side; None is zero.
            dropout: Of the entries of embeddings in training.
        """
        super().__init__()
        self.architecture = architecture
        self.kept: int | None = None
        self.register_buffer("alpha", torch.tensor(float(alpha)))
        self.register_buffer("centre", None if centre is None else centre.detach().float().clone())
        self.dropout = dropout
        d, widths = architecture.width, architecture.hidden
        if widths:
            self.add_module("in", nn.Linear(d, widths[0]))  # "in" is the name in the heads file
        self.hidden = nn.ModuleList(
            HiddenLayer(a, b, norm=architecture.hidden_norm) for a, b in pairwise(widths)
        )
        self.out = nn.Linear(widths[-1] if widths else d, d)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    @classmethod
    def of(cls, head: Head) -> HeadModule:
        """The torch head that projects as a numpy head does; a copy."""
        centre = None if head.centre is None else torch.from_numpy(head.centre.copy())
        module = cls(head.architecture, head.alpha, centre)
        weights = {name: torch.from_numpy(weight.copy()) for name, weight in head.weights.items()}
        module.load_state_dict({**module.state_dict(), **weights})
        return module

    def forward(self, x: Tensor) -> Tensor:
        """Project embeddings.

        Args:
            x: (..., d) float, rows of length 1.

        Returns:
            (..., d) float32, rows of length 1; zero behind the leading entries inside `narrowed`.
        """
        base = x.float()
        inner = x
        if self.centre is not None:
            base, inner = base - self.alpha * self.centre, base - self.centre
        if self.dropout is not None and (factors := self.dropout.factors(x)) is not None:
            base, inner = base * factors, inner * factors
        h = self._scaled(inner)
        if self.architecture.hidden:
            h = self._activated(self.get_submodule("in")(h))  # (..., h)
            for layer in self.hidden:
                h = self._activated(layer(h))
        # The sum and the length stay in float32 under autocast: bf16 has 8 bits, and the
        # correction is small against x at first.
        y = base + self.alpha * self.out(h).float()
        if self.kept is None:
            return F.normalize(y, dim=-1)
        return F.pad(F.normalize(y[..., : self.kept], dim=-1), (0, y.shape[-1] - self.kept))

    def weights(self) -> dict[str, Floats]:
        """Float32 arrays under the names of the numpy head; alpha and centre are not among them."""
        state = self.state_dict()
        names = self.architecture.shapes
        return {name: state[name].detach().float().cpu().numpy() for name in names}

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
        widths: tuple[int, ...] = (),
        centres: tuple[Tensor | None, Tensor | None] = (None, None),
        feature_dropout: float = 0.0,
        dropout_seed: int = 0,
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
            widths: Leading entries of a projection that are trained to be served alone.
            centres: (d,) mean embeddings of queries and of tools, or None.
            feature_dropout: Share of the entries of an embedding that training sets to zero.
            dropout_seed: Of what is set to zero.

        Raises:
            ConfigError: If the scales do not fit each other, or options exclude each other.
        """
        super().__init__()
        if not 1.0 <= logit_scale <= max_logit_scale:
            bound = f"[1, max_logit_scale = {max_logit_scale}]"
            msg = f"logit_scale must be in {bound}, got {logit_scale}"
            raise ConfigError(msg)
        if freeze_action and shared:
            msg = "shared must be false when freeze_action is true, got true"
            raise ConfigError(msg)
        if shared and any(centre is not None for centre in centres):
            msg = "shared must be false where embeddings are centred for each side, got true"
            raise ConfigError(msg)
        if freeze_action:
            centres = (centres[0], None)  # what is taken out would move the tools, too
        dropout = FeatureDropout(feature_dropout, dropout_seed) if feature_dropout else None
        self.widths = tuple(widths)
        self.state = HeadModule(architecture, alpha, centres[0], dropout)
        self.action = self.state if shared else HeadModule(architecture, alpha, centres[1], dropout)
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


@contextmanager
def narrowed(heads: TwoHeads, kept: int | None) -> Iterator[None]:
    """Both heads with the leading entries of their projections alone, at length 1 again.

    The other entries are zero and not left out, so that products are those of short projections
    and shapes stay as they were. None keeps all.
    """
    before = [(head, head.kept) for head in (heads.state, heads.action)]
    try:
        for head, _ in before:
            head.kept = kept
        yield
    finally:
        for head, was in before:
            head.kept = was


def fold_views(projections: Tensor, weights: Tensor) -> Tensor:
    """(n, v, d) projections of views and (v,) weights → (n, d), as an index stores them."""
    return torch.einsum("nvd,v->nd", projections.float(), weights)
