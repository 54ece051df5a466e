"""What trains: the requests of the log, and what is replayed beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolheads.arrays import Floats
from toolheads.data import Dataset
from toolheads.data.leaks import find_leaks
from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.texts import format_tool
from toolheads.usage import JudgedRequest
from toolheads_train.data.corpus import Source
from toolheads_train.data.pairs import label_free_pairs

LOG_NAME = "usage log"

MOST_VOTES = 10
"""Searches of one text that count; a text of thousands must not be drawn with one tool alone."""


@dataclass(frozen=True)
class Catalogue:
    """The tools and their vectors."""

    tools: tuple[Tool, ...]
    views: Mapping[str, float]
    """View → weight, those with a weight above 0."""
    vectors: Floats
    """(n, v, d) float32."""
    groups: tuple[str, ...]
    """n names; equal tools have one."""

    @classmethod
    def embedded(
        cls, tools: Sequence[Tool], views: Mapping[str, float], embedder: Embedder
    ) -> Catalogue:
        """Embed tools."""
        used = {view: weight for view, weight in views.items() if weight > 0}
        return cls(
            tuple(tools),
            used,
            _stacked(embedder, tools, tuple(used)),
            tuple(format_tool(tool, embedder.texts) for tool in tools),
        )

    @property
    def row_of(self) -> dict[str, int]:
        """Id → row."""
        return {tool.id: row for row, tool in enumerate(self.tools)}


def log_source(
    requests: Sequence[JudgedRequest], catalogue: Catalogue, embedder: Embedder
) -> Source:
    """The requests of the training part.

    A tool is as likely to be drawn as the positive of a text as it was called after it, so that
    a slip of the finger among many calls weighs little.
    """
    row_of = catalogue.row_of

    def rows(counts: Mapping[str, int]) -> list[int]:
        return [row_of[t] for t, n in counts.items() for _ in range(min(n, MOST_VOTES))]

    texts = [one.text for one in requests]
    return Source(
        name=LOG_NAME,
        queries=embedder.queries(texts, with_clauses=False).whole,
        tools=catalogue.vectors,
        groups=catalogue.groups,
        positives=[rows(one.called) for one in requests],
        negatives=[rows(one.skipped) for one in requests],
        same_query=texts,
    )


def replay_sources(
    catalogue: Catalogue,
    datasets: Sequence[Dataset],
    embedder: Embedder,
    *,
    held_out: Sequence[str],
    most_queries: int,
    seed: int,
) -> tuple[list[Source], dict[str, int]]:
    """What is replayed: label-free pairs of the tools, and the training queries of data sets.

    All of it is marked as label-free, the part of a batch that has a share of its own.

    Args:
        catalogue: The tools of the log.
        datasets: Public or own training data; may be empty.
        embedder: Gives the vectors.
        held_out: Texts that must not be trained on: validation and held-out requests. The test
            queries of the data sets are guarded besides.
        most_queries: Of one data set.
        seed: Of what is drawn.

    Returns:
        The sources, and what was left out and kept → how many.
    """
    guarded = [*held_out, *(q.text for one in datasets for q in one.split("test"))]
    counts = {"replayed label-free pairs": 0, "replayed queries": 0, "replay left out": 0}
    sources = []
    pairs = label_free_pairs(catalogue.tools, embedder.texts)
    if pairs:
        vectors = embedder.embed([pair.tool_text for pair in pairs])  # (n, d)
        texts = [pair.query_text for pair in pairs]
        counts["replayed label-free pairs"] = len(pairs)
        sources.append(
            Source(
                name="tools (label-free)",
                queries=embedder.embed(texts),
                tools=np.repeat(vectors[:, None], len(catalogue.views), axis=1),
                groups=[format_tool(pair.tool, embedder.texts) for pair in pairs],
                positives=[[row] for row in range(len(pairs))],
                same_query=texts,
                label_free=True,
            )
        )
    for one in datasets:
        queries = [query for query in one.split("train") if query.relevant]
        kept = find_leaks([query.text for query in queries], guarded).kept.tolist()
        counts["replay left out"] += len(queries) - len(kept)
        if len(kept) > most_queries:
            drawn = np.random.default_rng(seed).permutation(len(kept))[:most_queries]
            kept = [kept[at] for at in np.sort(drawn)]
        if kept:
            source = _of_dataset(one, [queries[row] for row in kept], catalogue.views, embedder)
            sources.append(source)
            counts["replayed queries"] += len(kept)
    return sources, counts


def _of_dataset(
    dataset: Dataset, queries: Sequence[Query], views: Mapping[str, float], embedder: Embedder
) -> Source:
    """Queries with the tools that they need; other tools of the data set are not embedded."""
    needed = {tool_id for query in queries for tool_id in query.relevant}
    tools = [tool for tool in dataset.tools if tool.id in needed]
    row_of = {tool.id: row for row, tool in enumerate(tools)}
    texts = [query.text for query in queries]
    return Source(
        name=dataset.name,
        queries=embedder.queries(texts, with_clauses=False).whole,
        tools=_stacked(embedder, tools, tuple(views)),
        groups=[format_tool(tool, embedder.texts) for tool in tools],
        positives=[[row_of[tool_id] for tool_id in query.relevant] for query in queries],
        query_ids=[f"{dataset.name}:{query.id}" for query in queries],
        same_query=texts,
        label_free=True,
    )


def _stacked(embedder: Embedder, tools: Sequence[Tool], views: Sequence[str]) -> Floats:
    """(n, v, d) float32."""
    by_view = embedder.tools(tools, views)
    return np.stack([by_view[view] for view in views], axis=1)
