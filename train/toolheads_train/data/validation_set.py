"""One validation set as tensors: queries, a whole tool corpus, judgements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from toolheads.domain import Tool
from toolheads.evaluation.ranked import Relevant


@dataclass(frozen=True)
class ValidationSet:
    """Queries of one data set, its whole tool corpus, and what is relevant."""

    name: str
    queries: Tensor
    """(q, d) embeddings."""
    tools: Tensor
    """(n, v, d) embeddings of the tools, one for each view."""
    relevant: Relevant
    """Judgements, as rows of `tools`."""
    clauses: Tensor | None = None
    """(m, d) embeddings of the clauses of all queries in order; only calibration looks at them."""
    clause_offsets: tuple[int, ...] = ()
    """q + 1 rows: query i has the clauses clause_offsets[i] to clause_offsets[i + 1]."""
    other_views: Mapping[str, Tensor] = field(default_factory=dict)
    """View → (n, d) embeddings of tools, of views without a part in training; as `clauses`."""
    catalogue: tuple[Tool, ...] = ()
    """(n,) the tools themselves, for shared words; empty for vectors that came without."""
    texts: tuple[str, ...] = ()
    """(q,) the queries themselves; as `catalogue`."""

    def to(self, device: torch.device | str) -> ValidationSet:
        """The same set on a device."""
        return replace(self, queries=self.queries.to(device), tools=self.tools.to(device))
