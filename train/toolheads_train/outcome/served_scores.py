"""The scores of serving over one validation set, with torch: views, clauses, words, hubness.

The ranking is that of `toolheads.scorers.clm.CLMScorer` with the same settings, to float32. No more
than a block of scores exists at once, beside one matrix of lexical scores of bounded size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from toolheads.arrays import Floats, Ids
from toolheads.heads import Fusion, Views
from toolheads.heads.fusion import LEXICAL_SETTINGS, LexicalPart
from toolheads.lexical import FieldedIndex, FoldedIndex
from toolheads.scorers.fused import scale_of
from toolheads.scorers.hubness import LEAST_DEVIATION
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.loop.validation import TOOL_TILE, best_rows
from toolheads_train.model.heads import TwoHeads

QUERY_BLOCK = 64
"""Queries that are scored at once; each may have a dozen clauses."""

MOST_KEPT = 1 << 24
"""Entries of the largest matrix of lexical scores that is kept between candidates; 64 MB."""

_HUB_ENTRIES = 1 << 24


@dataclass(frozen=True)
class Ranking:
    """What is shown to the queries of a set."""

    rows: Ids
    """(q, min(k, n)) rows of tools, best first."""
    scores: Floats
    """(q, min(k, n)) float32."""


class LexicalScores:
    """Lexical scores of one validation set over their deviation, a block of queries at a time.

    Args:
        one: A set with texts.
    """

    def __init__(self, one: ValidationSet) -> None:
        self._index = FieldedIndex(one.catalogue, LEXICAL_SETTINGS)
        self._texts = one.texts
        self._kept: tuple[LexicalPart, FoldedIndex, Tensor | None] | None = None

    def block(self, part: LexicalPart, queries: slice) -> Tensor:
        """(b, n) float32, on the CPU; its weight is left out."""
        if self._kept is None or self._kept[0].fields != part.fields:
            folded = self._index.folded(part.fields)
            whole = None
            if len(self._texts) * len(self._index) <= MOST_KEPT:
                whole = self._scores(folded, self._texts)
            self._kept = part, folded, whole
        _, folded, whole = self._kept
        return self._scores(folded, self._texts[queries]) if whole is None else whole[queries]

    @staticmethod
    def _scores(folded: FoldedIndex, texts: Sequence[str]) -> Tensor:
        found = np.empty((len(texts), len(folded)), np.float32)
        for row, text in enumerate(texts):
            scores = folded.scores([text])[0].astype(np.float64)
            found[row] = scale_of(scores) * scores
        return torch.from_numpy(found)


@dataclass(frozen=True)
class ProjectedSet:
    """One validation set behind the heads."""

    whole: Tensor
    """(q, d) queries."""
    clauses: Tensor | None
    """(m, d) clauses of all queries."""
    offsets: tuple[int, ...]
    tools: Mapping[str, Tensor]
    """View → (n, d)."""
    lexical: LexicalScores | None = None
    """For a fusion with shared words."""
    _hubs: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        heads: TwoHeads,
        one: ValidationSet,
        tool_views: Mapping[str, float],
        candidates: Sequence[tuple[Views, Fusion | None]],
        lexical: LexicalScores | None = None,
    ) -> ProjectedSet:
        """Project what the candidates need, tile by tile, onto the device of the heads.

        Args:
            heads: The heads.
            one: The set.
            tool_views: Views of its tools, in their order.
            candidates: What will be asked for.
            lexical: For a fusion with shared words.
        """
        device = heads.log_logit_scale.device
        needed = {view for views, _ in candidates for view in views.tool}
        if any(fusion is not None and fusion.hubness for _, fusion in candidates):
            needed.add("text")
        tools = {v: one.tools[:, at] for at, v in enumerate(tool_views)} | dict(one.other_views)

        def project(head: torch.nn.Module, rows: Tensor) -> Tensor:
            tiles = torch.split(rows, TOOL_TILE)
            return torch.cat([head(tile.to(device).float()) for tile in tiles])

        clauses = one.clauses if any(views.has_clauses for views, _ in candidates) else None
        return cls(
            whole=project(heads.state, one.queries),
            clauses=None if clauses is None else project(heads.state, clauses),
            offsets=one.clause_offsets,
            tools={view: project(heads.action, tools[view]) for view in sorted(needed)},
            lexical=lexical,
        )

    def ranked(self, views: Views, k: int, fusion: Fusion | None = None) -> Ranking:
        """Rank the k best tools for each query."""
        folded = torch.zeros_like(next(iter(self.tools.values())))
        for view, weight in views.tool.items():
            folded += weight * self.tools[view]
        mixed = fusion is not None and bool(fusion.lexical or fusion.hubness)
        covariance = _covariance(folded) if mixed else None
        rows, scores = [], []
        for start in range(0, len(self.whole), QUERY_BLOCK):
            queries = slice(start, min(start + QUERY_BLOCK, len(self.whole)))
            block = self._block(queries, views, fusion)
            added = None
            if fusion is not None and covariance is not None:
                added = self._added(queries, views, fusion, covariance)
            best = block.best(folded, k, added)  # (b, k)
            found = block.scores_of_rows(folded[best])
            rows.append(best)
            scores.append(found if added is None else found + added.gather(1, best))
        return Ranking(torch.cat(rows).cpu().numpy(), torch.cat(scores).cpu().numpy())

    def _added(
        self, queries: slice, views: Views, fusion: Fusion, covariance: Tensor
    ) -> Tensor | None:
        """(b, n) what the fusion adds to dense scores."""
        whole = self.whole[queries]
        spread = ((whole @ covariance) * whole).sum(1).clamp_min(0).sqrt()[:, None]  # (b, 1)
        added: Tensor | None = None
        if fusion.lexical is not None and self.lexical is not None:
            words = self.lexical.block(fusion.lexical, queries).to(whole.device)
            added = fusion.lexical.weight * spread * words
        if fusion.hubness is not None:
            asked = "summary" if "summary" in views.tool else "text"
            hubs = self._hubness(asked, fusion.hubness.neighbours)
            taken = fusion.hubness.weight * spread * hubs
            added = -taken if added is None else added - taken
        return added

    def _hubness(self, asked: str, neighbours: int) -> Tensor:
        """(n,) as `toolheads.scorers.hubness.hubness` gives it, to float32."""
        if (asked, neighbours) not in self._hubs:
            self._hubs[asked, neighbours] = hubness(
                self.tools["text"], self.tools[asked], neighbours
            )
        return self._hubs[asked, neighbours]

    def _block(self, queries: slice, views: Views, fusion: Fusion | None) -> _Block:
        weight = views.query.get("clause", 0.0)
        text = views.query.get("text", 0.0)
        whole = self.whole[queries]
        if not weight or self.clauses is None:
            return _Block(whole, None, None, text, 0.0)
        offsets = torch.tensor(self.offsets[queries.start : queries.stop + 1])
        owner = torch.repeat_interleave(torch.arange(len(whole)), offsets.diff())
        clauses = self.clauses[int(offsets[0]) : int(offsets[-1])]
        temperature = 0.0 if fusion is None else fusion.clause_temperature
        return _Block(whole, clauses, owner.to(whole.device), text, weight, temperature)


@dataclass(frozen=True)
class _Block:
    """Some queries with their clauses: whole text and best clause, weighed."""

    whole: Tensor
    clauses: Tensor | None
    owner: Tensor | None
    """(c,) query of each clause."""
    text_weight: float
    clause_weight: float
    temperature: float = 0.0

    def best(self, tools: Tensor, k: int, added: Tensor | None) -> Tensor:
        """(n, d) and (b, n) → (b, min(k, n)) rows."""
        if added is None:
            return best_rows(lambda rows: self.scores(tools[rows]), len(tools), k)
        return best_rows(lambda rows: self.scores(tools[rows]) + added[:, rows], len(tools), k)

    def scores(self, tools: Tensor) -> Tensor:
        """(t, d) → (b, t)."""
        clauses = None if self.clauses is None else self.clauses @ tools.T
        return self._joined(self.whole @ tools.T, clauses)

    def scores_of_rows(self, tools: Tensor) -> Tensor:
        """(b, k, d) tools of each query → (b, k)."""
        clauses = None
        if self.clauses is not None and self.owner is not None:
            clauses = torch.einsum("cd,ckd->ck", self.clauses, tools[self.owner])
        return self._joined(torch.einsum("bd,bkd->bk", self.whole, tools), clauses)

    def _joined(self, whole: Tensor, clauses: Tensor | None) -> Tensor:
        """(b, t) and (c, t) → (b, t); a query without clauses counts with its whole text twice."""
        if clauses is None or self.owner is None:
            return self.text_weight * whole
        best = torch.full_like(whole, -torch.inf)
        best = best.scatter_reduce(0, self.owner[:, None].expand_as(clauses), clauses, "amax")
        if self.temperature:
            best = self._softened(best, clauses, self.owner)
        best = torch.where(best == -torch.inf, whole, best)
        return self.text_weight * whole + self.clause_weight * best

    def _softened(self, best: Tensor, clauses: Tensor, owner: Tensor) -> Tensor:
        """Max + T * ln(mean(exp((s - max) / T))), as `toolheads.scorers.exact.soft_maximum`."""
        near = torch.exp((clauses - best[owner]) / self.temperature)  # (c, t)
        total = torch.zeros_like(best).index_add(0, owner, near)  # (b, t)
        count = torch.bincount(owner, minlength=len(best)).clamp_min(1)[:, None]
        share = torch.where(total > 0, total / count, torch.ones_like(total))
        return best + self.temperature * torch.log(share)


def hubness(texts: Tensor, asked: Tensor, neighbours: int) -> Tensor:
    """How near each tool is to everything, in standard deviations over the corpus.

    Args:
        texts: (n, d) float32, the tools.
        asked: (n, d) float32, what stands for a request for each tool.
        neighbours: How many of the others count, cut to n - 1.

    Returns:
        (n,) float32, as `toolheads.scorers.hubness.hubness` gives it.
    """
    n = len(texts)
    if n < 3:
        return texts.new_zeros(n)
    near = []
    for start in range(0, n, max(1, _HUB_ENTRIES // n)):
        rows = torch.arange(start, min(start + max(1, _HUB_ENTRIES // n), n), device=texts.device)
        products = texts[rows] @ asked.T  # (b, n)
        products[torch.arange(len(rows), device=texts.device), rows] = -torch.inf
        near.append(products.topk(min(neighbours, n - 1), dim=1).values.mean(1))
    values = torch.cat(near)
    deviation = values.std(correction=0)
    if float(deviation) <= LEAST_DEVIATION:
        return torch.zeros_like(values)
    return (values - values.mean()) / deviation


def _covariance(tools: Tensor) -> Tensor:
    """(n, d) → (d, d) float32; zeros for fewer than two tools."""
    mean = tools.mean(0)
    covariance = tools.new_zeros((tools.shape[1], tools.shape[1]))
    for tile in torch.split(tools, TOOL_TILE):
        centred = tile - mean
        covariance += centred.T @ centred
    return covariance / len(tools)
