"""What is made of several trained heads, as modules that are measured like one pair."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from toolheads.heads.bundle import Heads
from toolheads_train.model.heads import HeadModule, TwoHeads


class Ensemble(nn.Module):
    """Heads whose score is the mean of the scores of several: their projections side by side."""

    def __init__(self, heads: Sequence[TwoHeads]) -> None:
        super().__init__()
        self.all = list(heads)

    def state(self, x: Tensor) -> Tensor:
        """(n, d) → (n, S * d)."""
        return self._joined([one.state(x) for one in self.all])

    def action(self, x: Tensor) -> Tensor:
        """(n, v, d) → (n, v, S * d)."""
        return self._joined([one.action(x) for one in self.all])

    def _joined(self, rows: list[Tensor]) -> Tensor:
        return torch.cat(rows, dim=-1) / math.sqrt(len(rows))

    def to(self, device: torch.device) -> Ensemble:  # type: ignore[override]
        """All of them on a device."""
        return Ensemble([one.to(device) for one in self.all])


def torch_heads(heads: Heads) -> TwoHeads:
    """Heads of a file as modules, for validation on the device."""
    made = TwoHeads(heads.state.architecture)
    made.state, made.action = HeadModule.of(heads.state), HeadModule.of(heads.action)
    return made
