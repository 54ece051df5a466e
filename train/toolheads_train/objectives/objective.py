"""From row numbers to one loss for each query of the batch: what every objective keeps to.

An objective is any callable of the heads, the corpus, a batch and the gather between devices; the
training loop knows no more of it. `InBatch` is contrastive over the batch; other objectives take
its place or are added to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads


class Gather(Protocol):
    """Rows of all devices in rank order, with gradients to where they came from."""

    rank: int
    world_size: int

    def __call__(self, rows: Tensor) -> Tensor:
        """(b, ...) of this device → (world_size * b, ...)."""
        ...


class OneDevice:
    """A gather where there is nothing to gather."""

    rank = 0
    world_size = 1

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows themselves."""
        return rows


class Objective(Protocol):
    """Losses of the part of a batch that this device has."""

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Compute losses of the device's own share of a batch that all devices know."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that the losses to come depend on beside the heads; goes into a checkpoint."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        ...


class Stateless:
    """An objective whose losses depend on the heads and the batch alone."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to load."""


@dataclass(frozen=True)
class Losses:
    """What an objective says about its share of the batch."""

    rows: Tensor
    """(b,) float32, nats; their mean over all devices is minimised."""
    negatives: Tensor
    """Scalar: negatives of a query that were left after masking, on average."""
