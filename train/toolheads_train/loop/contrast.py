"""InfoNCE over a batch for S pairs of heads at once, with its gradient made in the forward pass.

What `InBatch` computes with `other_positives: mask`, for the common case of one device and no mined
negatives: no table of logits is kept in float32, masks are made in blocks where they are used and
shared between the pairs, and both directions share one table of products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor

from toolheads.errors import ConfigError
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch, SamplingSettings
from toolheads_train.model.heads import HeadModule, TwoHeads
from toolheads_train.model.projection import Scratch, blocks, compute_dtype, project, transposed
from toolheads_train.model.stacked import StackedHeads, is_frozen
from toolheads_train.objectives.masks import known_positives, representatives
from toolheads_train.objectives.objective import Gather, Losses, Stateless
from toolheads_train.settings import HeadSettings, LossSettings

_FEW = 4
"""Positives of a query up to which they are compared one by one."""

_BAR = 1e4
"""Far above every cosine, and what is taken from the logits of what does not count: far more than
they can differ by. A number and not infinity: a CPU's exp of -inf takes 30 times as long."""

_SMALLEST = -87.0
"""Logarithm below which a share is taken for this one: the smallest that float32 has in full.
Below it the exponential of a CPU takes 30 times as long (measured)."""


@dataclass(frozen=True)
class Rows:
    """The embeddings of a batch, gathered once, in the precision of the products."""

    queries: Tensor
    """(b, d)."""
    tools: Tensor
    """(b * v, d), the v views of a tool in a row."""
    weights: tuple[float, ...]
    """v weights of the views."""

    @classmethod
    def of(cls, corpus: TrainingCorpus, batch: Batch, weights: tuple[float, ...]) -> Rows:
        """Gather."""
        dtype = compute_dtype(corpus.queries)
        queries = corpus.queries.index_select(0, batch.queries).to(dtype)
        tools = corpus.tools.index_select(0, batch.tools).flatten(0, 1).to(dtype)
        return cls(queries, tools, weights)

    def folded(self, tools: Tensor) -> Tensor:
        """(S, b * v, d) → (S, b, d)."""
        if self.weights == (1.0,):
            return tools
        each = tools.view(len(tools), -1, len(self.weights), tools.shape[-1]).unbind(
            2
        )  # v of (S, b, d)
        total = sum(w * one.float() for w, one in zip(self.weights, each, strict=True))
        return torch.as_tensor(total).to(tools.dtype)

    @property
    def embedded(self) -> tuple[Tensor, Tensor]:
        """(b, d) frozen embeddings of queries, and of tools with their views folded."""
        return self.queries, self.folded(self.tools[None])[0]


@dataclass(frozen=True)
class LeftOut:
    """Which of a batch's tools are neither a query's positive nor its negatives."""

    bars: tuple[Tensor, ...]
    """One or two (b, b) tables; row: query, column: tool, and then the other way round where tools
    rank queries, too. An entry above the threshold of its row does not count. It is the frozen
    cosine, or far above all of them where a text or a label says so; far below for the positive."""
    own: Tensor
    """(b,) float32 frozen cosines of the positives."""
    margins: tuple[float | None, ...]
    """S margins: tools whose cosine exceeds that of the positive by more are left out, too."""

    @classmethod
    def of(
        cls,
        corpus: TrainingCorpus,
        batch: Batch,
        settings: LossSettings,
        margins: Sequence[float | None],
        rows: Rows,
    ) -> LeftOut:
        """Look a batch up.

        Args:
            corpus: What rows of the batch are rows of.
            batch: Row numbers.
            settings: Which of the masks are wanted.
            margins: Of each pair of heads.
            rows: The embeddings of the batch.
        """
        count, dtype = corpus.group_count, rows.queries.dtype
        groups = corpus.groups[batch.tools]  # (b,)
        known = _known(corpus.known.padded(batch.queries), groups, groups=count)
        with torch.no_grad():
            if any(margin is not None for margin in margins):
                queries, tools = rows.embedded
                table = queries @ tools.T
            else:
                table = torch.zeros(known.shape, dtype=dtype, device=known.device)
            own = table.diagonal().float().clone()
            table.masked_fill_(known, _BAR)
            bars = [table, table.T.contiguous()] if settings.both_directions else [table]
            if settings.collapse_duplicates:
                table.masked_fill_(~representatives(groups, groups=count), _BAR)
            for one in bars:
                one.fill_diagonal_(-_BAR)
        return cls(tuple(bars), own, tuple(margins))

    def rows(self, rows: slice, direction: int, scratch: Scratch) -> dict[float | None, Tensor]:
        """(r, b) float32, 1 for what does not count and else 0, for each margin that is there."""
        found: dict[float | None, Tensor] = {}
        for number, margin in enumerate(dict.fromkeys(self.margins)):
            block = scratch.float(2 + number, self.bars[direction][rows])
            threshold = _BAR / 2 if margin is None else self.own[rows, None] + margin
            found[margin] = block.gt_(threshold)
        return found


def contrast(
    queries: Tensor, tools: Tensor, scales: Tensor, left_out: LeftOut
) -> tuple[Tensor, Tensor, Tensor]:
    """InfoNCE of each query among the batch's tools, and of each tool if that is wanted.

    van den Oord et al. (2018), https://arxiv.org/abs/1807.03748, eq. 4, as `losses.info_nce`.

    Args:
        queries: (S, b, d) projections.
        tools: (S, b, d) projections of the tool that each query drew, of the same dtype.
        scales: (S,) float32, 1 / temperature.
        left_out: What does not count.

    Returns:
        (S,) float32 means over the batch, with gradients, in nats; (S, b) float32 the single
        losses, without; (S,) float32 negatives of a query on average.
    """
    found: tuple[Tensor, Tensor, Tensor] = _Contrast.apply(  # type: ignore[no-untyped-call]
        queries, tools, scales, left_out
    )
    return found


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, tools: Tensor, scales: Tensor, left_out: LeftOut
    ) -> tuple[Tensor, Tensor, Tensor]:
        pairs, b, _ = queries.shape
        with torch.autocast(queries.device.type, enabled=False):
            products = torch.bmm(queries, tools.transpose(1, 2))  # (S, b, b)
        losses = torch.zeros((pairs, b), device=queries.device)
        negatives = torch.zeros(pairs, device=queries.device)
        factors = scales / (len(left_out.bars) * b)
        scratch = Scratch(queries.device)
        pulls = None  # gradients of the mean losses to products
        for direction in range(len(left_out.bars)):
            logits_of = products if direction == 0 else transposed(products)
            made = torch.empty_like(logits_of, memory_format=torch.contiguous_format)
            for rows in blocks(b, b, queries.device):
                skipped = left_out.rows(rows, direction, scratch)
                if direction == 0:
                    sums = {margin: table.sum() for margin, table in skipped.items()}
                    negatives -= torch.stack([sums[margin] for margin in left_out.margins])
                for pair, margin in enumerate(left_out.margins):
                    logits = scratch.float(0, logits_of[pair, rows]).mul_(scales[pair])  # (r, b)
                    logits.add_(skipped[margin], alpha=-_BAR)
                    shares = torch.log_softmax(logits, dim=1)
                    losses[pair, rows] -= _own(shares, rows) / len(left_out.bars)
                    shares.clamp_(min=_SMALLEST).exp_()
                    _own(shares, rows).sub_(1)
                    made[pair, rows] = shares.mul_(factors[pair])
            pulls = made if pulls is None else pulls.add_(transposed(made))
        negatives = negatives / b + (b - 1)  # the positive is none
        ctx.save_for_backward(queries, tools, scales, pulls)
        ctx.mark_non_differentiable(losses, negatives)
        return losses.mean(1), losses, negatives

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        queries, tools, scales, pulls = ctx.saved_tensors
        # Looking at a value is free on a CPU, and waits on a GPU.
        if pulls.device.type != "cpu" or not bool((gradient == 1).all()):
            pulls = pulls * gradient.to(pulls.dtype)[:, None, None]
        to_queries = torch.bmm(pulls, tools)
        to_tools = torch.bmm(transposed(pulls), queries) if ctx.needs_input_grad[1] else None
        to_scales = None
        if ctx.needs_input_grad[2]:
            # A product's gradient times the product, summed, is that of a query times the query.
            to_scales = torch.stack(
                [_dot(one, two) for one, two in zip(to_queries, queries, strict=True)]
            )
            to_scales = to_scales / scales
        return to_queries, to_tools, to_scales, None


def _known(known: Tensor, candidates: Tensor, *, groups: int) -> Tensor:
    """As `known_positives`; where queries have few positives, faster by comparing each."""
    if known.shape[1] > _FEW:
        return known_positives(known, candidates, groups=groups)
    short, columns = known.int(), candidates.int()
    found = short[:, :1] == columns
    for number in range(1, known.shape[1]):
        found |= short[:, number : number + 1] == columns
    return found


def _dot(one: Tensor, two: Tensor) -> Tensor:
    """Sum of the products of two (n, d) tables, in float32."""
    scratch = Scratch(one.device)
    parts = [
        torch.dot(scratch.float(0, one[rows]).flatten(), scratch.float(1, two[rows]).flatten())
        for rows in blocks(len(one), one.shape[1], one.device)
    ]
    return torch.stack(parts).sum()


def _own(table: Tensor, rows: slice) -> Tensor:
    """(r,) view of the entries of the positives in rows of a (b, b) table."""
    return table.diagonal(rows.start)


class FastInBatch(Stateless):
    """`InBatch` by `contrast`: an objective for one pair of heads.

    Results differ from those of `InBatch` by rounding.
    """

    def __init__(self, settings: LossSettings, view_weights: Sequence[float]) -> None:
        """Take settings, and the v weights that fold a tool's views into one vector."""
        self._settings, self._view_weights = settings, tuple(view_weights)

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Compute losses; their mean has the gradient, and no single one a gradient of its own.

        Raises:
            ConfigError: If there are several devices.
        """
        if gather.world_size != 1:
            msg = f"the fast objective must have one device, got {gather.world_size}"
            raise ConfigError(msg)
        rows = Rows.of(corpus, batch, self._view_weights)
        queries = _project_one(heads.state, rows.queries)
        if is_frozen(heads):
            tools = F.normalize(rows.tools.float(), dim=-1).to(queries.dtype)[None]
        else:
            tools = _project_one(heads.action, rows.tools)
        left_out = LeftOut.of(corpus, batch, self._settings, [self._settings.mask_margin], rows)
        mean, losses, negatives = contrast(
            queries, rows.folded(tools), heads.log_logit_scale.exp()[None], left_out
        )
        return Losses(losses[0] + (mean - mean.detach()), negatives[0])


class StackedInBatch:
    """The mean losses of S pairs of heads on one batch."""

    def __init__(
        self,
        settings: LossSettings,
        margins: Sequence[float | None],
        view_weights: Sequence[float],
    ) -> None:
        """Take settings.

        Args:
            settings: Of all pairs.
            margins: `mask_margin` of each pair, in place of that of the settings.
            view_weights: v weights that fold a tool's views into one vector.
        """
        self._settings, self._margins = settings, tuple(margins)
        self._view_weights = tuple(view_weights)

    def __call__(
        self, heads: StackedHeads, corpus: TrainingCorpus, batch: Batch
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(S,) means with gradients, (S, b) losses and (S,) negatives; see `contrast`.

        Heads of several widths have the mean over the widths, as by `Matryoshka`, and the
        negatives of the full one.
        """
        rows = Rows.of(corpus, batch, self._view_weights)
        left_out = LeftOut.of(corpus, batch, self._settings, self._margins, rows)
        scales = heads.log_logit_scale.exp()
        found = []
        for kept in (None, *heads.widths):  # in the order in which a dropout draws
            queries = heads.state(rows.queries, kept)
            tools = rows.folded(heads.tools(rows.tools, kept))
            found.append(contrast(queries, tools, scales, left_out))
        means, losses = (torch.stack([one[part] for one in found]).mean(0) for part in (0, 1))
        return means, losses, found[0][2]


def why_not_fast(head: HeadSettings, loss: LossSettings, sampling: SamplingSettings) -> str | None:
    """The first setting that `FastInBatch` has nothing for; None if it can be used."""
    rules = (
        ("model.head.widths", not head.widths),
        ("model.head.feature_dropout", not head.feature_dropout),
        ("model.head.centre", head.centre == "none"),
    )
    named = (name for name, holds in rules if not holds)
    return next(named, None) or why_not_stacked(loss, sampling)


def why_not_stacked(loss: LossSettings, sampling: SamplingSettings) -> str | None:
    """The first setting that `StackedInBatch` has nothing for; None if it can be used."""
    rules = (
        ("model.loss.other_positives", loss.other_positives == "mask"),
        ("model.loss.negatives", loss.negatives == "in_batch"),
        ("model.loss.same_tool_cosine", loss.same_tool_cosine is None),
        ("model.loss.popularity_correction", not loss.popularity_correction),
        ("model.loss.same_side", not loss.same_side),
        ("model.loss.distance_penalty", not loss.distance_penalty),
        ("model.loss.distil", loss.distil == "none"),
        ("data.sampling.hard_negatives", not sampling.hard_negatives),
    )
    return next((name for name, holds in rules if not holds), None)


def _project_one(head: HeadModule, x: Tensor) -> Tensor:
    """(n, d) → (1, n, d), with gradients to the head's own parameters."""
    weights = {name: weight[None] for name, weight in head.named_parameters()}
    return project(x, head.architecture, weights, head.alpha[None])
