"""Contrastive over whole catalogues: every tool that a query competes with is a negative.

In-batch negatives are the tools that happen to be drawn, common ones more often than rare ones.
With frozen embeddings nothing forces that: all tools are at hand, and the sum over them is exact.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own convention
from torch import Tensor
from torch.func import functional_call

from toolheads.errors import ConfigError
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads, fold_views
from toolheads_train.objectives.candidates import TILE, Columns, ToolTable, fresh_columns
from toolheads_train.objectives.in_batch import queries_of_tools
from toolheads_train.objectives.losses import log_sum_exp_of_products
from toolheads_train.objectives.masks import known_positives, representatives
from toolheads_train.objectives.objective import Gather, Losses
from toolheads_train.objectives.projected import Projected
from toolheads_train.settings import LossSettings

_NOTHING = -1e30
"""Log of a sum of nothing: finite, so that a softmax over parts has a gradient of 0, not NaN."""


class Catalogue:
    """InfoNCE of a query's tool among all tools of its own data set, or of all data sets.

    `-log(exp(s_own) / (exp(s_own) + sum over negatives exp(s)))`, as `losses.info_nce`, where the
    negatives are all tools of the catalogue but the known and the doubtful ones; equal tools
    count once. The tools that the batch drew, and its hard negatives, are always projected with
    the weights of the step and have exact gradients. The others are projected

    - with the weights of the step and exact gradients, if `refresh_steps` is 0; or
    - every `refresh_steps` steps, without gradients, as in a memory bank (Wang et al. (2020),
      https://arxiv.org/abs/1912.06798), whose values are at most that many steps old.

    With `catalogue_sample` as many tools are drawn alike from each catalogue in each step, and
    their part of the sum is multiplied by what was left out, so that the sum is right on average.
    As each tool is drawn with one chance, nothing has to be corrected for popularity.

    Which tools are sampled and when they are projected depends on the number of steps alone, and
    a checkpoint has the weights that the bank was made with: a resumed run has the same losses.
    """

    def __init__(
        self,
        settings: LossSettings,
        view_weights: Tensor,
        *,
        by_source: bool | None = None,
        tile: int = TILE,
    ) -> None:
        """Take settings and how the work is cut; the latter changes no result.

        Args:
            settings: Of the loss.
            view_weights: (v,) weights that fold a tool's views into one vector.
            by_source: Multiply queries with the tools of their own data set only, which takes a
                look at the device; None does so on a CPU, where it costs nothing.
            tile: Columns at once.
        """
        self._settings, self._view_weights = settings, view_weights
        self._by_source, self._tile = by_source, tile
        self._table: ToolTable | None = None
        self._bank: Tensor | None = None
        self._bank_weights: dict[str, Tensor] | None = None
        self._steps = 0

    def __call__(
        self, heads: TwoHeads, corpus: TrainingCorpus, batch: Batch, gather: Gather
    ) -> Losses:
        """Compute the loss of each query, plus that of its tool if both directions are wanted."""
        return self.of(Projected(heads, corpus, batch, gather, self._view_weights))

    def of(self, p: Projected) -> Losses:
        """The same, of a batch that is projected already."""
        if self._table is None or self._table.corpus is not p.corpus:
            needs_embedded = (
                self._settings.mask_margin is not None
                or self._settings.same_tool_cosine is not None
            )
            own = self._settings.catalogue == "own"
            self._table = ToolTable.of(p, own=own, needs_embedded=needs_embedded)
        table = self._table
        bank = self._columns(p, table)
        fresh = fresh_columns(p, table)
        is_fresh = torch.zeros(table.key_count, dtype=torch.bool, device=p.corpus.device)
        is_fresh[fresh.keys] = True
        bank = bank.without(is_fresh[bank.keys])
        # (b,) logs of sums over all negatives: the batch's own tools, then everything else.
        sums, counts = self._sums(p, table, fresh, None)
        more_sums, more_counts = self._over_bank(p, table, bank)
        negatives = torch.stack([sums, more_sums]).clamp(min=_NOTHING).logsumexp(0)
        positive = p.scale * (p.queries * p.tools).sum(1)  # (b,)
        if self._settings.other_positives == "count":
            c = len(p.batch.tools)
            logits = p.scale * (p.queries @ p.all_tools.T).float()  # (b, c)
            counted = p.known[p.mine] & representatives(p.groups, groups=p.corpus.group_count)
            each = F.softplus(negatives[:, None] - logits) * counted[:, :c]
            rows = each.sum(1) / counted.sum(1)
        else:
            rows = F.softplus(negatives - positive)
        if self._settings.both_directions:
            rows = (rows + queries_of_tools(p, self._settings)) / 2
        self._steps += 1
        return Losses(rows, (counts + more_counts).float().mean().detach())

    def state_dict(self) -> dict[str, Any]:
        """Steps done, and the weights of the tool head that the bank was made with."""
        return {"steps": self._steps, "bank_weights": self._bank_weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called.

        Raises:
            ConfigError: If the state is that of another objective.
        """
        if "bank_weights" not in state:
            msg = "a checkpoint must be of this config's model.loss.negatives, got one of in_batch"
            raise ConfigError(msg)
        self._steps, self._bank_weights = state["steps"], state["bank_weights"]
        self._bank = None

    # -- the columns ----------------------------------------------------------------------------

    def _columns(self, p: Projected, table: ToolTable) -> Columns:
        """The catalogue's tools of this step, projected."""
        every = self._settings.refresh_steps
        if every:
            self._refresh(p, table, every)
        picked, shift = self._sampled(table)
        rows = table.rows if picked is None else table.rows[picked]
        if every and self._bank is not None:
            projected = self._bank if picked is None else self._bank[picked]
        else:
            projected = p.project_tools(rows)
        embedded = table.embedded
        if picked is not None and embedded is not None:
            embedded = embedded[picked]
        return Columns.of(table, rows, projected, embedded, shift)

    def _refresh(self, p: Projected, table: ToolTable, every: int) -> None:
        """Project all tools anew if it is time, or again if a run goes on."""
        head, device = p.heads.action, p.corpus.device
        if self._steps % every == 0 or self._bank_weights is None:
            named = {**dict(head.named_parameters()), **dict(head.named_buffers())}
            self._bank_weights = {name: value.detach().clone() for name, value in named.items()}
        elif self._bank is not None:
            return
        stored = {name: value.to(device) for name, value in self._bank_weights.items()}
        was_training = head.training
        head.eval()  # no dropout: a run that goes on makes the bank again and must draw nothing
        try:
            with torch.no_grad():
                parts = [
                    fold_views(
                        functional_call(head, stored, (p.corpus.tools[rows].float(),)),
                        self._view_weights,
                    )
                    for rows in torch.split(table.rows, TILE)
                ]
            self._bank = torch.cat(parts)
        finally:
            head.train(was_training)

    def _sampled(self, table: ToolTable) -> tuple[Tensor | None, Tensor | None]:
        """Places of the sampled tools in order, and (m,) log of how many tools one stands for."""
        most = self._settings.catalogue_sample
        if most is None:
            return None, None
        device = table.rows.device
        generator = torch.Generator(device).manual_seed(self._steps)
        count = len(table.rows)
        drawn = torch.rand(count, generator=generator, device=device, dtype=torch.float64)
        # Catalogue by catalogue in random order; the first `most` of each are the sample.
        order = torch.argsort(table.sources.double() + drawn)
        place = torch.arange(count, device=device) - table.starts[table.sources[order]]
        is_picked = torch.zeros(count, dtype=torch.bool, device=device)
        is_picked[order] = place < most
        picked = torch.nonzero(is_picked).squeeze(1)
        sizes = table.sizes[table.sources[picked]].float()
        return picked, (sizes / sizes.clamp(max=most)).log()

    # -- the sums -------------------------------------------------------------------------------

    def _over_bank(self, p: Projected, table: ToolTable, bank: Columns) -> tuple[Tensor, Tensor]:
        """As `_sums` over all columns, tile by tile, and source by source where that is better."""
        by_source = self._by_source
        if by_source is None:
            by_source = p.corpus.device.type == "cpu"
        queries = table.source_of(p.batch.queries[p.mine])  # (b,)
        if not (by_source and table.own):
            return self._tiled(p, table, bank, None)
        places, sums, counts = [], [], []
        for source in torch.unique(queries).tolist():
            at = torch.nonzero(queries == source).squeeze(1)
            of_source = bank.part(*bank.span(source))
            one, count = self._tiled(p, table, of_source, at)
            places.append(at)
            sums.append(one)
            counts.append(count)
        order = torch.argsort(torch.cat(places))
        return torch.cat(sums)[order], torch.cat(counts)[order]

    def _tiled(
        self, p: Projected, table: ToolTable, columns: Columns, at: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As `_sums`, in tiles."""
        parts = [self._sums(p, table, tile, at) for tile in columns.tiles(self._tile)]
        if not parts:
            b = len(p.queries) if at is None else len(at)
            return p.queries.new_full((b,), _NOTHING), p.own.new_zeros(b)
        sums = torch.stack([one for one, _ in parts]).clamp(min=_NOTHING)
        return sums.logsumexp(0), torch.stack([count for _, count in parts]).sum(0)

    def _sums(
        self, p: Projected, table: ToolTable, columns: Columns, at: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(b,) log of the sum over a tile's negatives, and their number.

        Args:
            p: The batch.
            table: What is known of all tools.
            columns: m tools.
            at: (b',) int64, some of the batch's queries; None takes all.
        """
        negatives = self._negatives(p, table, columns, at)  # (b, m)
        queries = p.queries if at is None else p.queries[at]
        dtype, device = torch.float32, queries.device.type
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        sums = log_sum_exp_of_products(
            (p.scale * queries).to(dtype), columns.projected.to(dtype), negatives, columns.shift
        )
        return sums, negatives.sum(1)

    @torch.no_grad()
    def _negatives(
        self, p: Projected, table: ToolTable, columns: Columns, at: Tensor | None
    ) -> Tensor:
        """(b, m) bool: which columns are negatives of which query."""
        mine = p.own if at is None else p.own[at]  # (b,) rows of the whole batch
        negatives = ~known_positives(
            p.known_rows[mine], columns.groups, groups=p.corpus.group_count
        )
        negatives &= ~columns.is_off
        if table.own:
            queries = table.source_of(p.batch.queries[mine])
            negatives &= queries[:, None] == columns.sources
        margin, same = self._settings.mask_margin, self._settings.same_tool_cosine
        if columns.embedded is not None:
            embedded = columns.embedded.float()
            if margin is not None:
                base = p.embedded[0][mine] @ embedded.T
                negatives &= base <= p.cosines.diagonal()[mine, None] + margin
            if same is not None:
                negatives &= p.embedded[1][mine] @ embedded.T < same
        return negatives
