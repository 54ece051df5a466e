"""The training corpus: every embedding and every label as a few plain tensors on one device.

Built once from numpy; a batch is then a handful of `index_select`s. Knows neither files nor
encoders (see `data`) nor how batches are drawn (see `sampling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from toolheads.arrays import Floats, Ids
from toolheads.errors import ConfigError, ShapeError
from toolheads_train.errors import NotFiniteError


@dataclass(frozen=True)
class Source:
    """One data set, or one set of label-free pairs, as it goes into the corpus."""

    name: str
    queries: Floats
    """(q, d) embeddings of the queries."""
    tools: Floats
    """(n, v, d) embeddings of the tools, one for each view; (n, d) where there is one view."""
    groups: Sequence[str]
    """n names. Tools of one name, in whatever source, are one tool: never negatives of each
    other. The text of the tool is a good name."""
    positives: Sequence[Sequence[int]]
    """For each query the rows of its tools, at least one."""
    negatives: Sequence[Sequence[int]] = ()
    """For each query the rows of curated hard negatives; or nothing at all."""
    teacher_rows: Sequence[Sequence[int]] = ()
    """For each query the rows that a stronger model has scored; or nothing at all."""
    teacher_scores: Sequence[Sequence[float]] = ()
    """Scores beside `teacher_rows`."""
    query_ids: Sequence[str] = ()
    """Names of the queries in error messages; row numbers where there are none."""
    same_query: Sequence[str] = ()
    """q names. The positives of queries of one name are positives of each of them; or nothing."""
    label_free: bool = False
    """Pairs that nobody labelled; they get a share of each batch of their own."""


@dataclass(frozen=True)
class Lists:
    """Many short lists of non-negative integers in one table (CSR)."""

    offsets: Tensor
    """(q + 1,) int64."""
    values: Tensor
    """(m,) int64; list i is values[offsets[i]:offsets[i + 1]]."""
    longest: int
    """Length of the longest list."""

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        """Pack lists."""
        lengths = [len(one) for one in lists]
        offsets = torch.tensor([0, *accumulate(lengths)], dtype=torch.int64)
        flat = torch.tensor([v for one in lists for v in one], dtype=torch.int64)
        return cls(offsets, flat, max(lengths, default=0))

    def padded(self, rows: Tensor) -> Tensor:
        """(b,) list numbers → (b, longest) int64, padded with -1."""
        return csr_rows(self.offsets, self.values, rows, longest=self.longest)

    def drawn(self, rows: Tensor, uniform: Tensor) -> Tensor:
        """One entry of each list; -1 for an empty one.

        Args:
            rows: (b,) int64 list numbers.
            uniform: (b,) or (b, m) float in [0, 1), which entry.

        Returns:
            Of the shape of `uniform`, int64.
        """
        if not len(self.values):
            return torch.full_like(uniform, -1, dtype=torch.int64)
        start, end = self.offsets[rows], self.offsets[rows + 1]  # (b,), (b,)
        if uniform.dim() == 2:
            start, end = start[:, None], end[:, None]
        # u < 1 in float32, yet u * length may round up to length.
        step = torch.minimum((uniform * (end - start)).long(), end - start - 1)
        entry = self.values[(start + step).clamp(0, len(self.values) - 1)]
        return torch.where(end > start, entry, -1)

    def to(self, device: torch.device | str) -> Lists:
        """The same lists on a device."""
        return replace(self, offsets=self.offsets.to(device), values=self.values.to(device))


def csr_rows(offsets: Tensor, values: Tensor, rows: Tensor, *, longest: int) -> Tensor:
    """Lists of several rows of a CSR table, padded with -1.

    Args:
        offsets: (n + 1,) int64.
        values: (m,) int64, none negative.
        rows: (b,) int64.
        longest: Length of the longest list in the table; fixed, so that shapes are too.

    Returns:
        (b, longest) int64.
    """
    if not len(values):
        return values.new_full((len(rows), longest), -1)
    start, end = offsets[rows], offsets[rows + 1]  # (b,), (b,)
    at = start[:, None] + torch.arange(longest, device=rows.device)  # (b, longest)
    listed = values[at.clamp(max=len(values) - 1)]
    return torch.where(at < end[:, None], listed, -1)


@dataclass(frozen=True)
class TrainingCorpus:
    """All queries, tools and labels. Queries of one source stand together, in source order."""

    queries: Tensor
    """(q, d) embeddings, fp32, bf16 or fp16."""
    tools: Tensor
    """(n, v, d) embeddings of the tools, one for each view."""
    positives: Lists
    """For each query the rows of its tools, from which one is drawn."""
    known: Lists
    """For each query the groups of all tools known to be right, wherever that was learned."""
    negatives: Lists
    """For each query rows of hard negatives; may be empty."""
    teacher: Lists
    """For each query rows that a teacher scored; may be empty."""
    teacher_scores: Tensor
    """(m,) float32 beside `teacher.values`."""
    groups: Tensor
    """(n,) int64 in [0, group_count); equal tools share one."""
    group_count: int
    names: tuple[str, ...]
    """Names of the s sources."""
    label_free: tuple[bool, ...]
    """Of each source, whether nobody labelled it."""
    source_offsets: tuple[int, ...]
    """s + 1 query rows: source i has rows source_offsets[i] to source_offsets[i + 1]."""
    tool_offsets: tuple[int, ...]
    """s + 1 tool rows: source i has the tools tool_offsets[i] to tool_offsets[i + 1]."""
    query_ids: tuple[str, ...]
    """q names for messages."""

    @property
    def width(self) -> int:
        """D, entries of an embedding."""
        return self.queries.shape[1]

    @property
    def device(self) -> torch.device:
        """Where all tensors are."""
        return self.queries.device

    def to(self, device: torch.device | str, dtype: torch.dtype = torch.float32) -> TrainingCorpus:
        """Everything on a device, embeddings in a precision."""
        return replace(
            self,
            queries=self.queries.to(device, dtype),
            tools=self.tools.to(device, dtype),
            positives=self.positives.to(device),
            known=self.known.to(device),
            negatives=self.negatives.to(device),
            teacher=self.teacher.to(device),
            teacher_scores=self.teacher_scores.to(device),
            groups=self.groups.to(device),
        )

    def check_finite(self) -> None:
        """Refuse embeddings that would poison the weights.

        Raises:
            NotFiniteError: If a query's or a tool's embedding has NaN or infinity.
        """
        for name, table in (("queries", self.queries), ("tools", self.tools.flatten(1))):
            bad = torch.nonzero(~torch.isfinite(table).all(1)).flatten().tolist()
            if bad:
                shown = ", ".join(
                    self.query_ids[r] if name == "queries" else str(r) for r in bad[:5]
                )
                count = f"{len(bad)} rows: {shown}"
                msg = f"embeddings of {name} must be finite, got NaN or inf in {count}"
                raise NotFiniteError(msg, step=-1, rows=tuple(bad))


def build_corpus(sources: Sequence[Source]) -> TrainingCorpus:
    """Join sources to one corpus on the CPU, in float32.

    Raises:
        ConfigError: If there is no labelled or label-free query at all.
        ShapeError: If a source's arrays and lists do not fit each other.
    """
    sources = [source for source in sources if len(source.queries)]
    if not sources:
        msg = "training data must have at least one query with a relevant tool, got none"
        raise ConfigError(msg)
    for source in sources:
        _check(source)
    tools = [s.tools[:, None] if s.tools.ndim == 2 else s.tools for s in sources]
    starts = [0, *accumulate(len(t) for t in tools)]
    numbers: dict[str, int] = {}
    groups = [numbers.setdefault(name, len(numbers)) for s in sources for name in s.groups]
    positives = _shifted([s.positives for s in sources], starts)
    return TrainingCorpus(
        queries=_joined([s.queries for s in sources], "queries"),
        tools=_joined(tools, "tools"),
        positives=Lists.of(positives),
        known=Lists.of(_known_groups(sources, positives, groups)),
        negatives=Lists.of(_optional(sources, "negatives", starts)),
        teacher=Lists.of(_optional(sources, "teacher_rows", starts)),
        teacher_scores=torch.tensor(
            [x for s in sources for one in s.teacher_scores for x in one], dtype=torch.float32
        ),
        groups=torch.tensor(groups, dtype=torch.int64),
        group_count=len(numbers),
        names=tuple(s.name for s in sources),
        label_free=tuple(s.label_free for s in sources),
        source_offsets=tuple(accumulate((len(s.queries) for s in sources), initial=0)),
        tool_offsets=tuple(starts),
        query_ids=tuple(
            str(s.query_ids[i]) if s.query_ids else f"{s.name}[{i}]"
            for s in sources
            for i in range(len(s.queries))
        ),
    )


def _check(source: Source) -> None:
    """One source's arrays and lists fit each other."""
    q, n = len(source.queries), len(source.tools)
    sizes = {"positives": q, "groups": n}
    optional = ("negatives", "teacher_rows", "teacher_scores", "query_ids", "same_query")
    sizes |= {name: q for name in optional if len(getattr(source, name))}
    for name, size in sizes.items():
        got = len(getattr(source, name))
        if got != size:
            msg = f"{name} of {source.name} must have {size} entries, got {got}"
            raise ShapeError(msg)
    empty = [i for i, rows in enumerate(source.positives) if not len(rows)]
    if empty:
        msg = f"each query of {source.name} must have a relevant tool, got none for row {empty[0]}"
        raise ShapeError(msg)
    for name in ("positives", "negatives", "teacher_rows"):
        rows: Ids = np.fromiter((r for one in getattr(source, name) for r in one), dtype=np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < n:
            span = f"{rows.min()} to {rows.max()}"
            msg = f"{name} of {source.name} must be rows in [0, {n}), got {span}"
            raise ShapeError(msg)


def _joined(arrays: Sequence[Floats], name: str) -> Tensor:
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:
        msg = f"{name} of all sources must have one shape per row, got {sorted(shapes)}"
        raise ShapeError(msg)
    return torch.from_numpy(np.concatenate(arrays).astype(np.float32, copy=False))


def _shifted(lists: Sequence[Sequence[Sequence[int]]], starts: Sequence[int]) -> list[list[int]]:
    """Rows of each source → rows of the joined table."""
    return [
        [start + int(row) for row in rows]
        for one, start in zip(lists, starts, strict=False)
        for rows in one
    ]


def _optional(sources: Sequence[Source], name: str, starts: Sequence[int]) -> list[list[int]]:
    """As `_shifted`, with empty lists for a source that has none."""
    return _shifted([getattr(s, name) or [()] * len(s.queries) for s in sources], starts)


def _known_groups(
    sources: Sequence[Source], positives: Sequence[Sequence[int]], groups: Sequence[int]
) -> list[list[int]]:
    """For each query the groups of its own positives and of those of its equals."""
    names: list[object] = [
        source.same_query[i] if source.same_query else (number, i)
        for number, source in enumerate(sources)
        for i in range(len(source.queries))
    ]
    together: dict[object, set[int]] = {}
    for name, rows in zip(names, positives, strict=True):
        together.setdefault(name, set()).update(groups[row] for row in rows)
    return [sorted(together[name]) for name in names]
