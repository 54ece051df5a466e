"""The tools of whole catalogues as candidates: what is known of all, and the columns of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.objectives.masks import representatives
from toolheads_train.objectives.projected import Projected

TILE = 8192
"""Columns whose logits are in memory at once."""


@dataclass(frozen=True)
class ToolTable:
    """What is known of a corpus' tools before the first step; equal ones stand here once."""

    corpus: TrainingCorpus
    own: bool
    """Whether a catalogue is a data set; else all of them are one."""
    rows: Tensor
    """(n,) int64 tool rows in their order, the first of each key."""
    keys: Tensor
    """(all tools,) int64 in [0, key_count): tools of one key are one tool of one catalogue."""
    key_count: int
    sources: Tensor
    """(n,) int64, number of the catalogue of each of `rows`."""
    sizes: Tensor
    """(s,) int64, tools of each catalogue."""
    starts: Tensor
    """(s,) int64, where each catalogue starts in `rows`."""
    query_bounds: Tensor
    """(s - 1,) int64, where the queries of each source but the first start."""
    tool_bounds: Tensor
    """(s - 1,) int64, where the tools of each source but the first start."""
    embedded: Tensor | None
    """(n, d) frozen embeddings, folded, in the precision of the corpus; None if unneeded."""

    @classmethod
    def of(cls, p: Projected, *, own: bool, needs_embedded: bool) -> ToolTable:
        """Look at the corpus of a batch; the batch itself does not matter."""
        corpus = p.corpus
        device = corpus.device
        tool_bounds = torch.tensor(corpus.tool_offsets[1:-1], dtype=torch.int64, device=device)
        every = torch.arange(len(corpus.tools), device=device)
        source = torch.bucketize(every, tool_bounds, right=True) if own else torch.zeros_like(every)
        _, keys = torch.unique(source * corpus.group_count + corpus.groups, return_inverse=True)
        count = int(keys.max()) + 1
        rows = every[representatives(keys, groups=count)]
        sizes = torch.bincount(source[rows], minlength=len(corpus.names) if own else 1)
        embedded = None
        if needs_embedded:
            with torch.no_grad():
                parts = [
                    p.embedded_tools(part).to(corpus.tools.dtype)
                    for part in torch.split(rows, TILE)
                ]
            embedded = torch.cat(parts)
        return cls(
            corpus=corpus,
            own=own,
            rows=rows,
            keys=keys,
            key_count=count,
            sources=source[rows],
            sizes=sizes,
            starts=sizes.cumsum(0) - sizes,
            query_bounds=torch.tensor(
                corpus.source_offsets[1:-1], dtype=torch.int64, device=device
            ),
            tool_bounds=tool_bounds,
            embedded=embedded,
        )

    def source_of(self, queries: Tensor) -> Tensor:
        """(b,) query rows → (b,) numbers of their data sets."""
        return torch.bucketize(queries, self.query_bounds, right=True)

    def source_of_tools(self, tools: Tensor) -> Tensor:
        """(m,) tool rows → (m,) numbers of their catalogues."""
        if not self.own:
            return torch.zeros_like(tools)
        return torch.bucketize(tools, self.tool_bounds, right=True)


@dataclass(frozen=True)
class Columns:
    """Tools that are candidates in one step."""

    projected: Tensor
    """(m, d) float32."""
    keys: Tensor
    """(m,) int64."""
    groups: Tensor
    """(m,) int64 text groups."""
    sources: Tensor
    """(m,) int64."""
    is_off: Tensor
    """(m,) bool: stands elsewhere already."""
    embedded: Tensor | None
    """(m, d) frozen embeddings."""
    shift: Tensor | None
    """(m,) float32, see `log_sum_exp_of_products`."""

    @classmethod
    def of(
        cls,
        table: ToolTable,
        rows: Tensor,
        projected: Tensor,
        embedded: Tensor | None,
        shift: Tensor | None,
    ) -> Columns:
        """Columns for (m,) tool rows with (m, d) projections; all of them in use."""
        return cls(
            projected=projected,
            keys=table.keys[rows],
            groups=table.corpus.groups[rows],
            sources=table.source_of_tools(rows),
            is_off=torch.zeros_like(rows, dtype=torch.bool),
            embedded=embedded,
            shift=shift,
        )

    def without(self, is_off: Tensor) -> Columns:
        """The same columns, some of them out of use."""
        return self._with(lambda tensor: tensor, is_off=self.is_off | is_off)

    def span(self, source: int) -> tuple[int, int]:
        """Where the columns of a source start and end; columns are in the order of the sources."""
        bounds = torch.searchsorted(
            self.sources, torch.tensor([source, source + 1], device=self.sources.device)
        )
        start, end = bounds.tolist()
        return start, end

    def part(self, start: int, end: int) -> Columns:
        """Some of them."""
        return self._with(lambda tensor: tensor[start:end])

    def tiles(self, size: int) -> Iterator[Columns]:
        """All of them in parts."""
        for start in range(0, len(self.keys), size):
            yield self.part(start, start + size)

    def _with(self, cut: Any, *, is_off: Tensor | None = None) -> Columns:
        return Columns(
            projected=cut(self.projected),
            keys=cut(self.keys),
            groups=cut(self.groups),
            sources=cut(self.sources),
            is_off=cut(self.is_off if is_off is None else is_off),
            embedded=None if self.embedded is None else cut(self.embedded),
            shift=None if self.shift is None else cut(self.shift),
        )


def fresh_columns(p: Projected, table: ToolTable) -> Columns:
    """The batch's tools and its hard negatives, of all devices, with gradients."""
    tools, hard = p.batch.tools, p.batch.negatives
    rows, projected = tools, p.all_tools
    if hard.shape[1]:
        # Where a query has no hard negative its own tool stands there, which counts once anyhow.
        filled = torch.where(hard >= 0, hard, tools[:, None])  # (c, m)
        more = p.gather(p.project_tools(filled[p.mine].flatten()))  # (c * m, d)
        rows, projected = torch.cat([tools, filled.flatten()]), torch.cat([projected, more])
    with torch.no_grad():
        embedded = p.embedded_tools(rows) if table.embedded is not None else None
    columns = Columns.of(table, rows, projected, embedded, None)
    return columns.without(~representatives(columns.keys, groups=table.key_count))
