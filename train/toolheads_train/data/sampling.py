"""Which rows a batch has: drawn on the device, balanced over data sets, exactly resumable.

A batch is two tensors of row numbers. Everything random comes from one generator whose state is
part of the checkpoint; drawing waits for nothing on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from toolheads.errors import ConfigError
from toolheads_train.data.corpus import TrainingCorpus


@dataclass(frozen=True)
class Batch:
    """Row numbers of one optimiser step."""

    queries: Tensor
    """(b,) int64 rows of `TrainingCorpus.queries`."""
    tools: Tensor
    """(b,) int64 rows of `TrainingCorpus.tools`: one positive of each query."""
    negatives: Tensor
    """(b, m) int64 rows of hard negatives, -1 where a query has none."""


@dataclass(frozen=True)
class SamplingSettings:
    """How batches are drawn."""

    batch_size: int = 512
    """Queries of one optimiser step, over all devices."""
    steps_per_epoch: int | None = None
    """Optimiser steps between two validations. Unset: one pass over the labelled queries."""
    power: float = 0.5
    """A data set of n queries is drawn with weight n ** power: 1 is proportional, 0 makes all
    data sets equal, 0.5 lies between."""
    replacement: bool | None = None
    """Draw with replacement. Unset: only where a pass without it is not possible, which needs
    power 1 and no steps_per_epoch."""
    label_free_share: float = 0.0
    """Share of each batch that label-free pairs get, in [0, 1]."""
    hard_negatives: int = 0
    """Hard negatives drawn for each query that has some."""

    def __post_init__(self) -> None:
        rules = (
            ("batch_size", self.batch_size, self.batch_size >= 2, ">= 2"),
            (
                "steps_per_epoch",
                self.steps_per_epoch,
                self.steps_per_epoch is None or self.steps_per_epoch >= 1,
                ">= 1",
            ),
            ("power", self.power, 0 <= self.power <= 1, "in [0, 1]"),
            (
                "label_free_share",
                self.label_free_share,
                0 <= self.label_free_share <= 1,
                "in [0, 1]",
            ),
            ("hard_negatives", self.hard_negatives, self.hard_negatives >= 0, ">= 0"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"data.sampling.{name} must be {rule}, got {value}"
                raise ConfigError(msg)
        if self.replacement is False and (self.power != 1 or self.steps_per_epoch is not None):
            msg = (
                "data.sampling.replacement must be unset or true unless power is 1 and "
                f"steps_per_epoch is unset, got power {self.power}, "
                f"steps_per_epoch {self.steps_per_epoch}"
            )
            raise ConfigError(msg)

    @property
    def without_replacement(self) -> bool:
        """Whether an epoch shows each labelled query at most once."""
        return self.replacement is not True and self.power == 1 and self.steps_per_epoch is None


class BatchSampler:
    """Endless batches, the same for the same seed on every rank."""

    def __init__(self, corpus: TrainingCorpus, settings: SamplingSettings, *, seed: int) -> None:
        """Take a corpus on the device that batches are wanted on.

        Raises:
            ConfigError: If the label-free share asks for pairs or queries that are not there.
        """
        self._corpus, self._settings = corpus, settings
        self._generator = torch.Generator(corpus.device).manual_seed(seed)
        free = round(settings.label_free_share * settings.batch_size)
        self._labelled = _Part(corpus, settings.power, label_free=False)
        self._free = _Part(corpus, settings.power, label_free=True)
        self._sizes = settings.batch_size - free, free
        for part, size, what in (
            (self._labelled, self._sizes[0], "labelled queries"),
            (self._free, self._sizes[1], "label-free pairs"),
        ):
            if size and not part.count:
                msg = (
                    f"data.sampling.label_free_share must leave out {what} when there are none, "
                    f"got {settings.label_free_share}"
                )
                raise ConfigError(msg)
        self._order: Tensor | None = None
        self._step = 0

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of an epoch."""
        return steps_of_epoch(self._corpus, self._settings)

    @property
    def step_in_epoch(self) -> int:
        """Steps drawn since the epoch began, in [0, steps_per_epoch)."""
        return self._step

    def draw(self) -> Batch:
        """The next batch."""
        device, b = self._corpus.device, self._settings.batch_size
        # One call for everything random: which source, which query, which positive.
        u = torch.rand((3, b), generator=self._generator, device=device)
        labelled, free = self._sizes
        parts = [self._free.draw(u[0, labelled:], u[1, labelled:])] if free else []
        if labelled:
            parts.insert(0, self._draw_labelled(u[:, :labelled]))
        queries = torch.cat(parts)  # (b,)
        m = self._settings.hard_negatives
        v = torch.rand((b, m), generator=self._generator, device=device) if m else u[0, :0, None]
        self._step = (self._step + 1) % self.steps_per_epoch
        return Batch(
            queries=queries,
            tools=self._corpus.positives.drawn(queries, u[2]),
            negatives=self._corpus.negatives.drawn(queries, v) if m else _none(queries),
        )

    def state_dict(self) -> dict[str, Any]:
        """All that the batches to come depend on."""
        return {
            "generator": self._generator.get_state(),
            "step": self._step,
            "order": None if self._order is None else self._order.cpu(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called.

        Raises:
            ConfigError: If the checkpoint was written for another amount of data.
        """
        order = state["order"]
        if order is not None and len(order) != self._labelled.count:
            msg = (
                f"a checkpoint must be resumed with its own data, got {self._labelled.count} "
                f"labelled queries, it has {len(order)}"
            )
            raise ConfigError(msg)
        self._generator.set_state(state["generator"].cpu())
        self._step = state["step"]
        self._order = None if order is None else order.to(self._corpus.device)

    def _draw_labelled(self, u: Tensor) -> Tensor:
        """(3, b) uniform numbers → (b,) rows."""
        if not self._settings.without_replacement:
            return self._labelled.draw(u[0], u[1])
        size, count = u.shape[1], self._labelled.count
        if size > count:  # fewer queries than a batch has room for: no pass is possible
            return self._labelled.draw(u[0], u[1])
        if self._step == 0 or self._order is None:
            self._order = torch.randperm(
                count, generator=self._generator, device=self._corpus.device
            )
        at = self._step * size
        return self._labelled.rows[self._order[at : at + size]]


def steps_of_epoch(corpus: TrainingCorpus, settings: SamplingSettings) -> int:
    """Optimiser steps of an epoch: as set, or one pass over the labelled queries, at least 1.

    The last, incomplete batch is left out. Where all of a batch is label-free, the pass is over
    those pairs.
    """
    if settings.steps_per_epoch is not None:
        return settings.steps_per_epoch
    free = round(settings.label_free_share * settings.batch_size)
    is_free = free == settings.batch_size
    spans = zip(corpus.source_offsets, corpus.source_offsets[1:], corpus.label_free, strict=False)
    count = sum(end - start for start, end, label_free in spans if label_free == is_free)
    return max(1, count // (free if is_free else settings.batch_size - free))


class _Part:
    """The labelled or the label-free sources, with the chance of each."""

    def __init__(self, corpus: TrainingCorpus, power: float, *, label_free: bool) -> None:
        spans = [
            (start, end)
            for start, end, free in zip(
                corpus.source_offsets, corpus.source_offsets[1:], corpus.label_free, strict=False
            )
            if free == label_free
        ]
        device = corpus.device
        self.count = sum(end - start for start, end in spans)
        """Queries in all."""
        self.rows = torch.cat(
            [torch.arange(a, b, device=device) for a, b in spans]
            or [torch.empty(0, dtype=torch.int64, device=device)]
        )
        """(count,) int64 query rows."""
        lengths = torch.tensor([b - a for a, b in spans], dtype=torch.float64)
        weights = lengths**power
        # float64 until the end, so that the last bound is 1 and no source is unreachable.
        self._bounds = (weights.cumsum(0) / weights.sum())[:-1].float().to(device)
        self._starts = torch.tensor([a for a, _ in spans], dtype=torch.int64, device=device)
        self._lengths = lengths.long().to(device)

    def draw(self, which_source: Tensor, which_query: Tensor) -> Tensor:
        """(b,) uniform numbers each → (b,) query rows, with replacement."""
        source = torch.searchsorted(self._bounds, which_source.contiguous(), right=True)
        length = self._lengths[source]
        step = torch.minimum((which_query.double() * length).long(), length - 1)
        return self._starts[source] + step


def _none(queries: Tensor) -> Tensor:
    return queries.new_empty((len(queries), 0))
