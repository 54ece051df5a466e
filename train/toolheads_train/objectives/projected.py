"""A batch after the heads: projections, frozen embeddings and known answers, each made once.

What every part of an objective looks at. Parts that nobody asks for cost nothing.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.sampling import Batch
from toolheads_train.model.heads import TwoHeads, fold_views
from toolheads_train.objectives.masks import known_positives
from toolheads_train.objectives.objective import Gather


class Projected:
    """One batch, of which this device has the rows `mine` and knows the rest.

    Attributes:
        heads: What projects.
        corpus: What the rows of the batch are rows of.
        batch: Row numbers, of all devices.
        gather: Brings the rows of all devices together.
        mine: The rows of this device, b of c.
        own: (b,) int64 columns: which of the batch's c tools each of these rows drew.
        queries: (b, d) float32 projections.
        tool_views: (b, v, d) float32 projections of the drawn tools, before they are folded.
        tools: (b, d) float32, folded.
        scale: Scalar, 1 / temperature.
    """

    def __init__(
        self,
        heads: TwoHeads,
        corpus: TrainingCorpus,
        batch: Batch,
        gather: Gather,
        view_weights: Tensor,
    ) -> None:
        b = len(batch.queries) // gather.world_size
        self.heads, self.corpus, self.batch, self.gather = heads, corpus, batch, gather
        self._view_weights = view_weights
        self.mine = slice(gather.rank * b, (gather.rank + 1) * b)
        self.own = torch.arange(self.mine.start, self.mine.stop, device=corpus.device)  # (b,)
        self.queries = heads.state(corpus.queries[batch.queries[self.mine]].float())  # (b, d)
        self.tool_views = heads.action(corpus.tools[batch.tools[self.mine]].float())  # (b, v, d)
        self.tools = fold_views(self.tool_views, view_weights)  # (b, d)
        self.scale = heads.log_logit_scale.exp()

    def project_tools(self, rows: Tensor) -> Tensor:
        """(...,) tool rows → (..., d) projections with their views folded."""
        flat = self.heads.action(self.corpus.tools[rows.flatten()].float())
        return fold_views(flat, self._view_weights).view(*rows.shape, -1)

    def embedded_tools(self, rows: Tensor) -> Tensor:
        """(n,) tool rows → (n, d) frozen embeddings with their views folded."""
        return fold_views(self.corpus.tools[rows].float(), self._view_weights)

    @cached_property
    def all_tools(self) -> Tensor:
        """(c, d) projections of the tools of all devices."""
        return self.gather(self.tools)

    @cached_property
    def all_queries(self) -> Tensor:
        """(c, d) projections of the queries of all devices."""
        return self.gather(self.queries)

    @cached_property
    def known_rows(self) -> Tensor:
        """(c, p) int64 text groups of the tools known to be right, padded with -1."""
        return self.corpus.known.padded(self.batch.queries)

    @cached_property
    def groups(self) -> Tensor:
        """(c,) int64 text groups of the drawn tools."""
        return self.corpus.groups[self.batch.tools]

    @cached_property
    def known(self) -> Tensor:
        """(c, c) bool: the tool of the column is right for the query of the row."""
        return known_positives(self.known_rows, self.groups, groups=self.corpus.group_count)

    @cached_property
    def embedded(self) -> tuple[Tensor, Tensor]:
        """(c, d) frozen embeddings of the queries, and of the tools."""
        with torch.no_grad():
            queries = self.corpus.queries[self.batch.queries].float()
            return queries, self.embedded_tools(self.batch.tools)

    @cached_property
    def cosines(self) -> Tensor:
        """(c, c) float32 frozen cosines of queries (rows) and tools (columns)."""
        with torch.no_grad():
            queries, tools = self.embedded
            return (queries @ tools.T).float()

    @cached_property
    def tool_cosines(self) -> Tensor:
        """(c, c) float32 frozen cosines between the tools."""
        with torch.no_grad():
            tools = self.embedded[1]
            return (tools @ tools.T).float()
