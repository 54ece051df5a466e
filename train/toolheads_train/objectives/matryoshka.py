"""Any objective at several widths of the projections, so that one heads file serves all of them.

Matryoshka representation learning, Kusupati et al. (2022), https://arxiv.org/abs/2205.13147: the
mean of the loss over nested prefixes, each brought to length 1. Here all prefixes weigh the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads, narrowed
from toolheads_train.objectives.objective import Gather, Losses, Objective


class Matryoshka:
    """The mean of an objective's losses at the full width and at each of some leading widths."""

    def __init__(self, make: Callable[[], Objective], widths: Sequence[int]) -> None:
        """Make the objective once for each width, as it may keep projections between steps.

        Args:
            make: Makes the objective.
            widths: Leading entries of a projection, each below its width.
        """
        self._parts: list[tuple[int | None, Objective]] = [(None, make())]
        self._parts += [(width, make()) for width in widths]

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Compute the mean of the losses; the negatives are those at the full width."""
        found = []
        for width, objective in self._parts:
            with narrowed(heads, width):
                found.append(objective(heads, corpus, batch, gather))
        return Losses(torch.stack([one.rows for one in found]).mean(0), found[0].negatives)

    def state_dict(self) -> dict[str, Any]:
        """The states of the objective at all widths."""
        return {str(width): objective.state_dict() for width, objective in self._parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        for width, objective in self._parts:
            objective.load_state_dict(state[str(width)])
