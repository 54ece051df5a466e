"""The one place that joins a contrastive objective and what is added to it, from settings."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads
from toolheads_train.objectives.catalogue import Catalogue
from toolheads_train.objectives.in_batch import InBatch
from toolheads_train.objectives.objective import Gather, Losses, Objective
from toolheads_train.objectives.projected import Projected
from toolheads_train.objectives.terms import distance, distillation, same_side
from toolheads_train.settings import LossSettings


def make_objective(settings: LossSettings, view_weights: Tensor) -> Objective:
    """What a training minimises.

    Args:
        settings: Which negatives, and what is added with which weight.
        view_weights: (v,) weights that fold a tool's views into one vector.
    """
    contrast: InBatch | Catalogue = (
        Catalogue(settings, view_weights)
        if settings.negatives == "catalogue"
        else InBatch(settings, view_weights)
    )
    has_terms = settings.same_side or settings.distance_penalty or settings.distil != "none"
    return WithTerms(contrast, settings, view_weights) if has_terms else contrast


class WithTerms:
    """A contrastive objective plus the weighted terms that the settings ask for."""

    def __init__(
        self, contrast: InBatch | Catalogue, settings: LossSettings, view_weights: Tensor
    ) -> None:
        """Take the objective, and the settings of the terms."""
        self._contrast, self._settings = contrast, settings
        self._view_weights = view_weights

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Losses of both; negatives are those of the contrastive part."""
        settings = self._settings
        p = Projected(heads, corpus, batch, gather, self._view_weights)
        losses = self._contrast.of(p)
        rows = losses.rows
        if settings.same_side:
            rows = rows + settings.same_side * same_side(p, settings)
        if settings.distance_penalty:
            rows = rows + settings.distance_penalty * distance(p)
        if settings.distil != "none":
            rows = rows + settings.distil_weight * distillation(p, settings)
        return Losses(rows, losses.negatives)

    def state_dict(self) -> dict[str, Any]:
        """That of the contrastive part."""
        return self._contrast.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        self._contrast.load_state_dict(state)
