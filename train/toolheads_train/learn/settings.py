"""Settings of `toolheads learn`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from toolheads.errors import ConfigError
from toolheads.heads.files import WeightDtype
from toolheads.usage import PartSettings
from toolheads_train.settings import LossSettings, OptimizerSettings


def _loss() -> LossSettings:
    # A call is evidence about the very tools that the frozen vectors rank too high: they must
    # not be left out for being ranked high. Negatives are tools that were called for something
    # else: with the whole catalogue, tools that nobody called would sink in every step.
    return LossSettings(mask_margin=None, negatives="in_batch")


def _optimizer() -> OptimizerSettings:
    # Decay would pull to the frozen vectors, not to the given heads.
    return OptimizerSettings(lr=3e-4, weight_decay=0.0)


@dataclass(frozen=True)
class LearnSettings:
    """How heads are trained on from a log, and what they have to prove."""

    parts: PartSettings = field(default_factory=PartSettings)
    """How the log is split by time."""
    loss: LossSettings = field(default_factory=_loss)
    """Positives, negatives, temperature."""
    optimizer: OptimizerSettings = field(default_factory=_optimizer)
    """AdamW and its schedule."""
    batch_size: int = 128
    """Requests of one optimiser step, replay included."""
    epochs: int = 30
    """Passes over the requests of the training part."""
    patience: int = 10
    """Epochs without a better validation after which training ends."""
    soft_negatives: int = 2
    """Passed-over tools that are drawn for each request which has some; 0 leaves them out."""
    soft_negative_weight: float = 0.3
    """Weight of "the called tool stands above a passed-over one" beside the contrastive loss."""
    replay_share: float = 0.25
    """Share of each batch that is no request of the log: label-free pairs of the tools, and the
    training data of --data if there is one."""
    replay_queries: int = 5000
    """Most training queries of one data set of --data."""
    alpha: float = 0.05
    """Largest p value of the paired test on held-out requests with which heads are written."""
    max_whole_loss: float = 0.05
    """Largest loss in nDCG@10 among all tools, where what was not shown counts as wrong. Better
    heads can lose a little there; heads that push tools up which nobody asked for lose much."""
    min_requests: int = 100
    """Fewest different requests; each part must have its share of them."""
    min_agreement: float = 0.2
    """Least share of the shown tools that the given heads show too, chance taken off; below it
    the log is of another catalogue or of other texts."""
    max_bad_share: float = 0.05
    """Largest share of damaged lines."""
    resamples: int = 10_000
    """Random signs of the test, and draws of the intervals."""
    seed: int = 0
    """Of batches, the test and the intervals."""
    dtype: WeightDtype = "float16"
    """Precision of the weights in the file."""

    def __post_init__(self) -> None:
        rules = (
            ("batch_size", self.batch_size, self.batch_size >= 2, ">= 2"),
            ("epochs", self.epochs, self.epochs >= 1, ">= 1"),
            ("patience", self.patience, self.patience >= 1, ">= 1"),
            ("soft_negatives", self.soft_negatives, self.soft_negatives >= 0, ">= 0"),
            (
                "soft_negative_weight",
                self.soft_negative_weight,
                self.soft_negative_weight >= 0 and math.isfinite(self.soft_negative_weight),
                ">= 0 and finite",
            ),
            ("replay_share", self.replay_share, 0 <= self.replay_share < 1, "in [0, 1)"),
            ("replay_queries", self.replay_queries, self.replay_queries >= 1, ">= 1"),
            ("alpha", self.alpha, 0 < self.alpha < 1, "in (0, 1)"),
            (
                "max_whole_loss",
                self.max_whole_loss,
                0 <= self.max_whole_loss <= 1,
                "in [0, 1]",
            ),
            ("min_requests", self.min_requests, self.min_requests >= 3, ">= 3"),
            ("min_agreement", self.min_agreement, -1 <= self.min_agreement <= 1, "in [-1, 1]"),
            ("max_bad_share", self.max_bad_share, 0 <= self.max_bad_share <= 1, "in [0, 1]"),
            ("resamples", self.resamples, self.resamples >= 1, ">= 1"),
            ("seed", self.seed, self.seed >= 0, ">= 0"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"{name} must be {rule}, got {value}"
                raise ConfigError(msg)

    def least(self, part: str) -> int:
        """Fewest requests of a part (`train`, `validation` or `held_out`)."""
        shares = {"validation": self.parts.validation, "held_out": self.parts.held_out}
        share = shares.get(part, 1 - sum(shares.values()))
        return max(1, math.ceil(share * self.min_requests - 1e-9))
