"""Selected data sets → vectors: the sources of a training corpus, and the validation sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from toolheads.arrays import Floats
from toolheads.domain import Query, Tool
from toolheads.embedder import Embedder
from toolheads.evaluation.ranked import Relevant
from toolheads.texts import (
    TOOL_VIEWS,
    TextSettings,
    format_query,
    format_tool,
    query_view_texts,
    tool_view_texts,
)
from toolheads_train.data.composed import with_composed
from toolheads_train.data.corpus import Source, TrainingCorpus, build_corpus
from toolheads_train.data.pairs import Pair, PairKind, label_free_pairs
from toolheads_train.data.selection import QueryVectors, Selected, Selection, without_near_vectors
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.errors import NotFiniteError


def embed_selection(
    selection: Selection,
    embedder: Embedder,
    *,
    views: Sequence[str],
    validation_views: Sequence[str] = (),
    label_free: bool,
    label_free_kinds: Sequence[PairKind] = ("summary",),
    composed_share: float = 0.0,
    seed: int = 0,
    test: Sequence[str] = (),
    min_cosine: float | None = None,
) -> tuple[Selection, TrainingCorpus, list[ValidationSet]]:
    """Embed what was selected, and drop what turns out to be near a held-out query.

    Args:
        selection: What trains and what validates.
        embedder: Gives the vectors.
        views: Views of a tool, in the order of its vectors.
        validation_views: Views that validation data has besides.
        label_free: Whether to make label-free pairs of the catalogues.
        label_free_kinds: What of a tool becomes the query of such a pair.
        composed_share: See `with_composed`; only what is left is composed.
        seed: Of what is composed.
        test: The test queries that are guarded.
        min_cosine: See `without_near_vectors`; None drops nothing and embeds no test query.

    Returns:
        The selection that is left, the corpus and the validation sets.

    Raises:
        ConfigError: If nothing is left to train on.
        NotFiniteError: If a vector has NaN or infinity.
    """
    pairs = [
        (d.name, kind, label_free_pairs(tools, embedder.texts, kind=kind))
        for d, tools in selection.catalogues
        for kind in label_free_kinds
        if label_free
    ]
    pairs = [(name, kind, made) for name, kind, made in pairs if made]
    if embedder.cache is not None:  # all texts at once: one progress bar, and full batches
        texts = _all_texts(selection, pairs, embedder.texts, views, validation_views)
        guarded = test if min_cosine is not None else ()
        embedder.fill(texts + [format_query(text, embedder.texts) for text in guarded])
    queries = {one.dataset.name: _queries(one, one.train, embedder) for one in selection.datasets}
    if min_cosine is not None:
        vectors = {
            one.dataset.name: QueryVectors(
                queries[one.dataset.name], _queries(one, one.validation, embedder)
            )
            for one in selection.datasets
        }
        guarded_vectors = embedder.queries(test, with_clauses=False).whole
        _check_finite(guarded_vectors, "test queries", test)
        selection, kept = without_near_vectors(
            selection, vectors, guarded_vectors, min_cosine=min_cosine
        )
        queries = {name: queries[name][rows] for name, rows in kept.items()}
    if composed_share:
        selection = with_composed(selection, composed_share, seed=seed)
        used = selection.datasets
        if embedder.cache is not None:
            texts = [query.text for one in used for query in one.train]
            embedder.fill([format_query(text, embedder.texts) for text in texts])
        queries = {one.dataset.name: _queries(one, one.train, embedder) for one in used}
    sources, sets = [], []
    for one in selection.datasets:
        tools = _stacked(embedder, one.dataset.tools, views)
        if one.train:
            sources.append(_source(one, tools, embedder, queries[one.dataset.name]))
        if one.validation:
            more = [view for view in validation_views if view not in views]
            sets.append(_validation_set(one, tools, embedder, more))
    sources += [_label_free(name, kind, made, embedder, len(views)) for name, kind, made in pairs]
    return selection, build_corpus(sources), sets


def _queries(one: Selected, queries: Sequence[Query], embedder: Embedder) -> Floats:
    """(n, d) float32 vectors of some queries of a data set."""
    vectors = embedder.queries([query.text for query in queries], with_clauses=False).whole
    _check_finite(vectors, f"queries of {one.dataset.name}", [query.id for query in queries])
    return vectors


def _check_finite(vectors: Floats, what: str, names: Sequence[str]) -> None:
    """Refuse vectors that would poison weights or metrics; a damaged cache can hold some.

    Raises:
        NotFiniteError: With the names of the first rows.
    """
    entries = tuple(range(1, vectors.ndim))
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=entries)).tolist()
    if bad:
        shown = ", ".join(f"{names[row]!r:.60}" for row in bad[:5])
        more = ", …" if len(bad) > 5 else ""
        msg = (
            f"embeddings of {what} must be finite, got NaN or inf in {len(bad)} rows: "
            f"{shown}{more}; take another data.cache, or empty this one"
        )
        raise NotFiniteError(msg, step=-1, rows=tuple(bad))


def _all_texts(
    selection: Selection,
    pairs: Sequence[tuple[str, PairKind, Sequence[Pair]]],
    settings: TextSettings,
    views: Sequence[str],
    validation_views: Sequence[str],
) -> list[str]:
    """Every text that will be asked for, as the encoder reads it."""
    texts = []
    for one in selection.datasets:
        for tool in one.dataset.tools:
            texts += tool_view_texts(tool, views, settings)
        texts += [format_query(query.text, settings) for query in (*one.train, *one.validation)]
        if one.validation and validation_views:
            more = [view for view in validation_views if view in TOOL_VIEWS]
            for tool in one.dataset.tools:
                texts += tool_view_texts(tool, more, settings)
        if "clause" in validation_views:
            for query in one.validation:
                texts += query_view_texts(query.text, settings, with_clauses=True)
    return texts + [
        text for _, _, made in pairs for p in made for text in (p.query_text, p.tool_text)
    ]


def _stacked(embedder: Embedder, tools: Sequence[Tool], views: Sequence[str]) -> Floats:
    """(n, v, d) float32."""
    by_view = embedder.tools(tools, views)
    vectors = np.stack([by_view[view] for view in views], axis=1)
    _check_finite(vectors, "tools", [tool.id for tool in tools])
    return vectors


def _source(one: Selected, tools: Floats, embedder: Embedder, vectors: Floats) -> Source:
    row_of = {tool.id: row for row, tool in enumerate(one.dataset.tools)}
    queries = one.train

    def rows(ids_of: Callable[[Query], Sequence[str]]) -> list[list[int]]:
        return [[row_of[tool_id] for tool_id in ids_of(query)] for query in queries]

    return Source(
        name=one.dataset.name,
        queries=vectors,
        tools=tools,
        groups=[format_tool(tool, embedder.texts) for tool in one.dataset.tools],
        positives=rows(lambda query: query.relevant),
        negatives=rows(lambda query: query.negatives),
        teacher_rows=rows(lambda query: tuple(query.teacher_scores)),
        teacher_scores=[list(query.teacher_scores.values()) for query in queries],
        query_ids=[f"{one.dataset.name}:{query.id}" for query in queries],
        same_query=[query.text for query in queries],
    )


def _validation_set(
    one: Selected, tools: Floats, embedder: Embedder, more: Sequence[str]
) -> ValidationSet:
    row_of = {tool.id: row for row, tool in enumerate(one.dataset.tools)}
    texts = [query.text for query in one.validation]
    queries = embedder.queries(texts, with_clauses="clause" in more)
    _check_finite(queries.whole, f"queries of {one.dataset.name}", [q.id for q in one.validation])
    tool_views = [view for view in more if view in TOOL_VIEWS]
    by_view = embedder.tools(one.dataset.tools, tool_views) if tool_views else {}
    return ValidationSet(
        name=one.dataset.name,
        queries=torch.from_numpy(queries.whole),
        tools=torch.from_numpy(tools),
        relevant=Relevant.from_qrels([query.relevance for query in one.validation], row_of),
        clauses=torch.from_numpy(queries.clauses) if "clause" in more else None,
        clause_offsets=tuple(queries.offsets.tolist()),
        other_views={view: torch.from_numpy(rows.copy()) for view, rows in by_view.items()},
        catalogue=tuple(one.dataset.tools),
        texts=tuple(texts),
    )


def _label_free(
    name: str, kind: PairKind, pairs: Sequence[Pair], embedder: Embedder, views: int
) -> Source:
    """Pairs of two texts of one tool, as a source whose every query has one tool."""
    vectors = embedder.embed([pair.tool_text for pair in pairs])  # (n, d)
    return Source(
        name=label_free_name(name, kind),
        queries=embedder.embed([pair.query_text for pair in pairs]),
        tools=np.repeat(vectors[:, None], views, axis=1),
        # The tool it was made of: where that tool is a positive too, they are no negatives.
        groups=[format_tool(pair.tool, embedder.texts) for pair in pairs],
        positives=[[row] for row in range(len(pairs))],
        query_ids=[f"{name}:{pair.tool.id}" for pair in pairs],
        same_query=[pair.query_text for pair in pairs],
        label_free=True,
    )


def label_free_name(name: str, kind: PairKind) -> str:
    """Name of the source of a catalogue's pairs of one kind."""
    return f"{name} (label-free)" if kind == "summary" else f"{name} (label-free {kind})"
