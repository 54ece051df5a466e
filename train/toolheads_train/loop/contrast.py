"""InfoNCE over a batch for S pairs of heads at once, with its gradient made in the forward pass.

What `InBatch` computes with `other_positives: mask`, for the common case of one device and no mined
negatives: no table of logits is kept in float32, masks are made in blocks where they are used and
shared between the pairs, and both directions share one table of products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor

from toolheads.errors import ConfigError
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch, SamplingSettings
from toolheads_train.model.heads import HeadModule, TwoHeads
from toolheads_train.model.stacked import StackedHeads, blocks, compute_dtype, is_frozen, project
from toolheads_train.objectives.masks import known_positives, representatives
from toolheads_train.objectives.objective import Gather, Losses, Stateless
from toolheads_train.settings import HeadSettings, LossSettings


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

    forth: Tensor
    """(b, b) bool; row: query, column: tool. False on the diagonal, where the positives are."""
    back: Tensor | None
    """(b, b) bool for the other direction, row: tool, column: query; None where it is not asked
    for."""
    cosines: Tensor | None
    """(b, b) frozen cosines of queries (rows) and tools; None where no pair has a margin."""
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
        count = corpus.group_count
        groups = corpus.groups[batch.tools]  # (b,)
        known = known_positives(corpus.known.padded(batch.queries), groups, groups=count)
        forth = known
        if settings.collapse_duplicates:
            forth = known | ~representatives(groups, groups=count)
        back = known.T.contiguous() if settings.both_directions else None
        forth = forth.clone() if forth is known else forth
        for table in (forth, back):
            if table is not None:
                table.fill_diagonal_(False)
        cosines = None
        if any(margin is not None for margin in margins):
            queries, tools = rows.embedded
            with torch.no_grad():
                cosines = queries @ tools.T
        return cls(forth, back, cosines, tuple(margins))

    def rows(self, rows: slice, *, is_back: bool) -> dict[float | None, Tensor]:
        """(r, b) bool for a block of anchors, once for each margin that some pair has."""
        return {one: self._rows(one, rows, is_back=is_back) for one in dict.fromkeys(self.margins)}

    def _rows(self, margin: float | None, rows: slice, *, is_back: bool) -> Tensor:
        listed = self.back if is_back else self.forth
        if listed is None:
            msg = "masks of the other direction must be made before they are used"
            raise RuntimeError(msg)
        if margin is None or self.cosines is None:
            return listed[rows]
        own = self.cosines.diagonal()[rows, None]
        cosines = self.cosines[:, rows].T if is_back else self.cosines[rows]
        found = listed[rows] | (cosines.float() > own.float() + margin)
        if margin < 0:
            _own(found, rows).fill_(False)
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
        pulls = torch.empty_like(products)  # gradients of the mean loss to products
        losses = torch.zeros((pairs, b), device=queries.device)
        negatives = torch.zeros(pairs, device=queries.device)
        directions = (False,) if left_out.back is None else (False, True)
        share = 1 / (len(directions) * b)
        for is_back, rows in _anchors(directions, b, queries.device):
            skipped = left_out.rows(rows, is_back=is_back)
            if not is_back:
                kept = {margin: (~table).sum() for margin, table in skipped.items()}
                negatives += torch.stack([kept[margin] for margin in left_out.margins])
            for pair, margin in enumerate(left_out.margins):
                one, pull = products[pair], pulls[pair]
                one, pull = (one.T, pull.T) if is_back else (one, pull)
                logits = one[rows].to(torch.float32, copy=True).mul_(scales[pair])  # (r, b)
                logits.masked_fill_(skipped[margin], -torch.inf)
                logs = torch.log_softmax(logits, dim=1)
                losses[pair, rows] -= _own(logs, rows) / len(directions)
                shares = logs.exp_()
                _own(shares, rows).sub_(1)
                shares.mul_(share * scales[pair])
                if is_back:
                    pull[rows] += shares
                else:
                    pull[rows] = shares
        negatives = negatives / b - 1  # the positive is none
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
        to_tools = torch.bmm(pulls.transpose(1, 2), queries) if ctx.needs_input_grad[1] else None
        to_scales = None
        if ctx.needs_input_grad[2]:
            # A product's gradient times the product, summed, is that of a query times the query.
            to_scales = torch.stack(
                [_dot(one, two) for one, two in zip(to_queries, queries, strict=True)]
            )
            to_scales = to_scales / scales
        return to_queries, to_tools, to_scales, None


def _anchors(
    directions: Sequence[bool], b: int, device: torch.device
) -> Iterator[tuple[bool, slice]]:
    """Direction and block of rows, all blocks of the first direction before those of the next."""
    for is_back in directions:
        for rows in blocks(b, b, device):
            yield is_back, rows


def _dot(one: Tensor, two: Tensor) -> Tensor:
    """Sum of the products of two (n, d) tables, in float32."""
    parts = [
        (one[rows].float() * two[rows].float()).sum()
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
        """(S,) means with gradients, (S, b) losses and (S,) negatives; see `contrast`."""
        rows = Rows.of(corpus, batch, self._view_weights)
        queries, tools = heads.state(rows.queries), rows.folded(heads.tools(rows.tools))
        left_out = LeftOut.of(corpus, batch, self._settings, self._margins, rows)
        return contrast(queries, tools, heads.log_logit_scale.exp(), left_out)


def why_not_contrast(
    head: HeadSettings, loss: LossSettings, sampling: SamplingSettings
) -> str | None:
    """The first setting that `contrast` has nothing for; None if it can be used."""
    rules = (
        ("model.head.widths", not head.widths),
        ("model.head.feature_dropout", not head.feature_dropout),
        ("model.head.centre", head.centre == "none"),
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
