"""Which rows a batch has: drawn on the device, balanced over data sets, exactly resumable.

A batch is two tensors of row numbers. Everything random comes from one generator whose state is
part of the checkpoint; drawing waits for nothing on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    chances: Tensor | None = None
    """(b,) float64: how likely one draw is to give the tool in `tools`, or one of equal text."""


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
    tool_power: float = 1.0
    """Within a data set, a tool of n queries is drawn with weight n ** tool_power: 1 draws all
    queries alike, 0 all tools that have some."""
    by_source: Literal["mixed", "single"] = "mixed"
    """Whether a batch is of several data sets, or of one, so that its tools are of one catalogue;
    label-free pairs then are of one catalogue too."""
    label_free_share: float = 0.0
    """Share of each batch that label-free pairs get, in [0, 1]."""
    label_free_to: float | None = None
    """Their share at the end of training; it goes there from `label_free_share` in equal steps.
    Unset keeps it."""
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
            ("tool_power", self.tool_power, 0 <= self.tool_power <= 1, "in [0, 1]"),
            (
                "label_free_to",
                self.label_free_to,
                self.label_free_to is None or 0 <= self.label_free_to <= 1,
                "in [0, 1] or unset",
            ),
            ("hard_negatives", self.hard_negatives, self.hard_negatives >= 0, ">= 0"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"data.sampling.{name} must be {rule}, got {value}"
                raise ConfigError(msg)
        if self.replacement is False and not self._allows_a_pass:
            msg = (
                "data.sampling.replacement must be unset or true unless power and tool_power are "
                "1, by_source is mixed, and steps_per_epoch and label_free_to are unset, got power "
                f"{self.power}, tool_power {self.tool_power}, by_source {self.by_source}, "
                f"steps_per_epoch {self.steps_per_epoch}, label_free_to {self.label_free_to}"
            )
            raise ConfigError(msg)

    @property
    def without_replacement(self) -> bool:
        """Whether an epoch shows each labelled query at most once."""
        return self.replacement is not True and self._allows_a_pass

    @property
    def needs_label_free(self) -> bool:
        """Whether a batch ever has label-free pairs."""
        return max(self.label_free_share, self.label_free_to or 0.0) > 0

    def label_free_at(self, step: int, total: int) -> int:
        """Label-free pairs of one batch.

        Args:
            step: Optimiser steps before it.
            total: Steps of the whole training.
        """
        share = self.label_free_share
        if self.label_free_to is not None:
            done = min(step / max(total - 1, 1), 1.0)
            share += (self.label_free_to - share) * done
        return round(share * self.batch_size)

    @property
    def _allows_a_pass(self) -> bool:
        is_plain = self.power == 1 and self.tool_power == 1 and self.by_source == "mixed"
        return is_plain and self.steps_per_epoch is None and self.label_free_to is None


class BatchSampler:
    """Endless batches, the same for the same seed on every rank."""

    def __init__(
        self,
        corpus: TrainingCorpus,
        settings: SamplingSettings,
        *,
        seed: int,
        total_steps: int | None = None,
    ) -> None:
        """Take a corpus on the device that batches are wanted on.

        Args:
            corpus: What rows are drawn of.
            settings: How.
            seed: Of everything random.
            total_steps: Optimiser steps of the whole training; only `label_free_to` needs them.

        Raises:
            ConfigError: If a label-free share asks for pairs or queries that are not there, or
                changes over a training of unknown length.
        """
        self._corpus, self._settings = corpus, settings
        self._generator = torch.Generator(corpus.device).manual_seed(seed)
        self._labelled = _Part(corpus, settings, label_free=False)
        self._free = _Part(corpus, settings, label_free=True)
        if settings.label_free_to is not None and total_steps is None:
            msg = (
                "data.sampling.label_free_to must be unset where the steps of the whole training "
                f"are unknown, got {settings.label_free_to}"
            )
            raise ConfigError(msg)
        self._total = total_steps or 1
        shares = {"label_free_share": settings.label_free_share}
        if settings.label_free_to is not None:
            shares["label_free_to"] = settings.label_free_to
        for name, share in shares.items():
            free = round(share * settings.batch_size)
            for part, size, what in (
                (self._labelled, settings.batch_size - free, "labelled queries"),
                (self._free, free, "label-free pairs"),
            ):
                if size and not part.count:
                    msg = (
                        f"data.sampling.{name} must leave out {what} when there are none, "
                        f"got {share}"
                    )
                    raise ConfigError(msg)
        self._order: Tensor | None = None
        self._step = 0
        self._drawn = 0

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
        free = self._settings.label_free_at(self._drawn, self._total)
        labelled = b - free
        parts = [self._free.draw(u[0, labelled:], u[1, labelled:])] if free else []
        if labelled:
            parts.insert(0, self._draw_labelled(u[:, :labelled]))
        queries = torch.cat(parts)  # (b,)
        m = self._settings.hard_negatives
        v = torch.rand((b, m), generator=self._generator, device=device) if m else u[0, :0, None]
        self._step = (self._step + 1) % self.steps_per_epoch
        self._drawn += 1
        tools = self._corpus.positives.drawn(queries, u[2])
        return Batch(
            queries=queries,
            tools=tools,
            negatives=self._corpus.negatives.drawn(queries, v) if m else _none(queries),
            chances=self._chances(tools, free / b),
        )

    def state_dict(self) -> dict[str, Any]:
        """All that the batches to come depend on."""
        return {
            "generator": self._generator.get_state(),
            "step": self._step,
            "drawn": self._drawn,
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
        self._step, self._drawn = state["step"], state["drawn"]
        self._order = None if order is None else order.to(self._corpus.device)

    def _chances(self, tools: Tensor, free: float) -> Tensor:
        """(b,) tool rows and the label-free share → (b,) float64 chances in one draw."""
        groups = self._corpus.groups[tools]
        return (1 - free) * self._labelled.chances[groups] + free * self._free.chances[groups]

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

    def __init__(
        self, corpus: TrainingCorpus, settings: SamplingSettings, *, label_free: bool
    ) -> None:
        spans = [
            (start, end)
            for start, end, free in zip(
                corpus.source_offsets, corpus.source_offsets[1:], corpus.label_free, strict=False
            )
            if free == label_free
        ]
        device = corpus.device
        self._is_single = settings.by_source == "single"
        self.count = sum(end - start for start, end in spans)
        """Queries in all."""
        self.rows = torch.cat(
            [torch.arange(a, b, device=device) for a, b in spans]
            or [torch.empty(0, dtype=torch.int64, device=device)]
        )
        """(count,) int64 query rows."""
        lengths = torch.tensor([b - a for a, b in spans], dtype=torch.float64)
        weights = lengths**settings.power
        # float64 until the end, so that the last bound is 1 and no source is unreachable.
        self._bounds = (weights.cumsum(0) / weights.sum())[:-1].float().to(device)
        self._starts = torch.tensor([a for a, _ in spans], dtype=torch.int64, device=device)
        self._lengths = lengths.long().to(device)
        shares = _shares_of_queries(corpus, spans, settings.tool_power)  # (count,) or None
        self._ends = None if shares is None else _ends(shares, spans).to(device)
        sources = (weights / weights.sum()).repeat_interleave(lengths.long())  # (count,)
        of_query = sources / lengths.repeat_interleave(lengths.long())
        self.chances = _chances_of_groups(
            corpus, self.rows, (of_query if shares is None else sources * shares).to(device)
        )
        """(group count,) float64: the chance of a tool of each text group in one draw."""

    def draw(self, which_source: Tensor, which_query: Tensor) -> Tensor:
        """(b,) uniform numbers each → (b,) query rows, with replacement."""
        if self._is_single:
            which_source = which_source[:1].expand_as(which_source)
        source = torch.searchsorted(self._bounds, which_source.contiguous(), right=True)
        length = self._lengths[source]
        if self._ends is None:
            step = torch.minimum((which_query.double() * length).long(), length - 1)
            return self._starts[source] + step
        # Source i has the numbers i to i + 1, each of its queries a piece as long as its share.
        place = torch.searchsorted(self._ends, source + which_query.double(), right=True)
        first = (self._lengths.cumsum(0) - self._lengths)[source]
        return self.rows[torch.minimum(torch.maximum(place, first), first + length - 1)]


def _shares_of_queries(
    corpus: TrainingCorpus, spans: list[tuple[int, int]], tool_power: float
) -> Tensor | None:
    """(count,) float64 on the CPU, summing to 1 in each source; None where all are alike.

    A query of several tools has the mean of what its tools would give it.
    """
    if tool_power == 1:
        return None
    offsets, tools = corpus.positives.offsets.cpu(), corpus.positives.values.cpu()
    groups = corpus.groups.cpu()
    parts = []
    for start, end in spans:
        lengths = (offsets[start + 1 : end + 1] - offsets[start:end]).double()  # (q,)
        query = torch.arange(end - start).repeat_interleave(lengths.long())
        group = groups[tools[offsets[start] : offsets[end]]]
        # A tool's queries, where one of k tools counts as the k-th part of a query.
        counts = torch.zeros(corpus.group_count, dtype=torch.float64)
        counts.index_add_(0, group, 1 / lengths[query])
        weights = torch.zeros(end - start, dtype=torch.float64)
        weights.index_add_(0, query, counts[group] ** (tool_power - 1) / lengths[query])
        parts.append(weights / weights.sum())
    return torch.cat(parts) if parts else None


def _ends(shares: Tensor, spans: list[tuple[int, int]]) -> Tensor:
    """(count,) float64: where the piece of each query ends, source i between i and i + 1."""
    parts = torch.split(shares, [end - start for start, end in spans])
    return torch.cat([part.cumsum(0) + number for number, part in enumerate(parts)])


def _chances_of_groups(corpus: TrainingCorpus, rows: Tensor, of_query: Tensor) -> Tensor:
    """(group count,) float64 from the (count,) chances of queries."""
    chances = torch.zeros(corpus.group_count, dtype=torch.float64, device=corpus.device)
    if not len(rows):
        return chances
    listed = corpus.positives.padded(rows)  # (count, p)
    is_there = listed >= 0
    each = of_query / is_there.sum(1)
    place, _ = is_there.nonzero(as_tuple=True)
    return chances.index_add_(0, corpus.groups[listed[is_there]], each[place])


def _none(queries: Tensor) -> Tensor:
    return queries.new_empty((len(queries), 0))
