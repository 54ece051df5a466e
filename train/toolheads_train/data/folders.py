"""Data folders → embedded training corpus and validation sets."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from toolheads.arrays import Floats
from toolheads.bootstrap import EncoderSettings, make_encoder
from toolheads.data import Dataset, read_datasets
from toolheads.data.overlap import read_overlap
from toolheads.data.shared import SharedTools, shared_tools, tool_key
from toolheads.domain import Query, Tool
from toolheads.durable import file_sha256
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError, import_extra
from toolheads.evaluation.ranked import Relevant
from toolheads.identity import Fingerprint
from toolheads.sample import dataset_path
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
from toolheads_train.data.scores_file import with_files
from toolheads_train.data.selection import (
    QueryVectors,
    Selected,
    Selection,
    ValidationSettings,
    select,
    without_near_vectors,
)
from toolheads_train.data.validation_set import ValidationSet
from toolheads_train.errors import NotFiniteError

OVERLAP_FILE = "overlap.json"


@dataclass(frozen=True)
class FolderSettings:
    """What to read, how to embed it, and what to keep for validation."""

    root: tuple[str, ...]
    """Data sets, or folders of data sets; `sample` is the sample catalogue of the package."""
    cache: str | None = ".cache/toolheads"
    """Where vectors are kept; unset embeds everything anew."""
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    """The frozen encoder."""
    texts: TextSettings = field(default_factory=TextSettings)
    """How tools and queries are written for it."""
    tool_views: Mapping[str, float] = field(default_factory=lambda: {"text": 1.0})
    """Views of a tool and their weights in its vector."""
    validation_views: tuple[str, ...] = ()
    """Views that validation data has besides, for calibration to weigh: `name`, `summary`,
    `clause`."""
    train: tuple[str, ...] | None = None
    """Names of the data sets to train on; unset takes all that have training queries."""
    exclude: tuple[str, ...] = ()
    """Names of data sets to leave out of training and validation; their test queries are still
    guarded."""
    label_free: tuple[str, ...] | None = None
    """Names of catalogues for label-free pairs; unset takes those without queries."""
    label_free_kinds: tuple[PairKind, ...] = ("summary",)
    """What of a tool becomes the query of a label-free pair: `summary`, `name`, `parameters`."""
    composed_share: float = 0.0
    """Training queries that are two or three of one data set in one text, for each query."""
    teacher: str | None = None
    """File of a teacher's scores, as `toolheads train teach` writes it."""
    mined: str | None = None
    """File of hard negatives, as `toolheads train mine` writes it."""
    overlap: str | None = None
    """File of tools that are another test set's; unset looks for overlap.json in a root."""
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    """What chooses the checkpoint."""
    min_jaccard: float = 0.8
    """Shared words over all words from which a training query is too near a held-out one."""
    min_cosine: float | None = None
    """Cosine of the frozen vectors from which a training query is too near a held-out one; unset
    compares words alone."""
    max_queries: int | None = None
    """Most training queries of one data set; unset takes all."""
    skip_bad: bool = False
    """Leave out lines that cannot be read instead of refusing the file."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.tool_views) - set(TOOL_VIEWS))
        if unknown or not self.tool_views:
            msg = (
                f"data.tool_views must be weights of {', '.join(TOOL_VIEWS)}, "
                f"got {dict(self.tool_views)}"
            )
            raise ConfigError(msg)
        known = (*TOOL_VIEWS, "clause")
        unknown = sorted(set(self.validation_views) - set(known))
        if unknown:
            msg = f"data.validation_views must be some of {', '.join(known)}, got {unknown[0]!r}"
            raise ConfigError(msg)
        kinds = self.label_free_kinds
        if not kinds or len(set(kinds)) < len(kinds) or set(kinds) - set(get_args(PairKind)):
            known = get_args(PairKind)
            msg = (
                f"data.label_free_kinds must be some of {', '.join(known)}, each once, got "
                f"{list(kinds)}"
            )
            raise ConfigError(msg)
        if not 0 <= self.composed_share < math.inf:
            msg = f"data.composed_share must be >= 0 and finite, got {self.composed_share}"
            raise ConfigError(msg)
        if self.min_cosine is not None and not 0 < self.min_cosine <= 1:
            msg = f"data.min_cosine must be in (0, 1] or null, got {self.min_cosine}"
            raise ConfigError(msg)

    @property
    def folders(self) -> list[Path]:
        """The roots as paths."""
        return [dataset_path(root) for root in self.root]


@dataclass(frozen=True)
class LoadedFolders:
    """Everything that training needs, and what a report says about where it is from."""

    corpus: TrainingCorpus
    validation_sets: tuple[ValidationSet, ...]
    fingerprint: Fingerprint
    probe: Floats
    """(p, d) vectors of the probe texts."""
    selection: Selection
    digests: dict[str, str]
    """`data set/file` → sha256 of every file that was read."""
    shared: dict[str, SharedTools] = field(default_factory=dict)
    """Data set with test queries → how many of its tools are in the corpus."""

    def summary(self) -> list[str]:
        """Lines for a log: what trains, what validates, what was left out."""
        corpus = self.corpus
        sizes = np.diff(corpus.source_offsets).tolist()
        lines = [
            f"train on {name}: {size} {'label-free pairs' if free else 'queries'}"
            for name, size, free in zip(corpus.names, sizes, corpus.label_free, strict=True)
        ]
        lines += [
            f"validate on {one.name}: {len(one.relevant)} queries, {len(one.tools)} tools"
            for one in self.validation_sets
        ]
        left_out = {why: count for why, count in self.selection.counts.items() if count}
        lines += [f"left out, {why}: {count}" for why, count in left_out.items()]
        near = self.selection.near.items()
        return [*lines, *(f"left out of {name} for its vectors: {count}" for name, count in near)]


def load_folders(settings: FolderSettings, *, seed: int, label_free: bool) -> LoadedFolders:
    """Read, select and embed.

    Args:
        settings: What to read.
        seed: Of splits and samples.
        label_free: Whether label-free pairs are wanted.

    Raises:
        DataError: If a file cannot be read as data, or validation shares queries with a test.
        ConfigError: If a setting breaks its rule, or nothing is left to train on.
        EncoderError: If the encoder fails.
    """
    datasets, selection = read_selection(settings, seed=seed)
    selection = with_files(selection, teacher=settings.teacher, mined=settings.mined)
    encoder = make_encoder(settings.encoder)
    cache = None if settings.cache is None else Path(settings.cache)
    with _Bar() as bar:
        embedder = Embedder(encoder, settings.texts, cache, progress=bar)
        try:
            selection, corpus, sets = embed_selection(
                selection,
                embedder,
                views=tuple(settings.tool_views),
                validation_views=settings.validation_views,
                label_free=label_free,
                label_free_kinds=settings.label_free_kinds,
                composed_share=settings.composed_share,
                seed=seed,
                test=[query.text for one in datasets for query in one.split("test")],
                min_cosine=settings.min_cosine,
            )
            probe = embedder.probe()
        finally:
            encoder.close()
    corpus.check_finite()
    return LoadedFolders(
        corpus=corpus,
        validation_sets=tuple(sets),
        fingerprint=embedder.fingerprint,
        probe=probe,
        selection=selection,
        digests={f"{d.name}/{name}": sha for d in datasets for name, sha in d.digest.items()}
        | _files_beside(settings),
        shared=_shared(datasets, selection, corpus),
    )


def read_selection(settings: FolderSettings, *, seed: int) -> tuple[list[Dataset], Selection]:
    """Read the data sets, and choose what trains and what validates, without vectors.

    Raises:
        DataError: If a file cannot be read as data, or validation shares queries with a test.
        ConfigError: If a setting breaks its rule, or nothing is left to train on.
    """
    datasets = read_datasets(settings.folders, skip_bad=settings.skip_bad)
    return datasets, select(
        datasets,
        train=settings.train,
        exclude=settings.exclude,
        label_free=settings.label_free,
        validation=settings.validation,
        overlap=_overlap(settings),
        min_jaccard=settings.min_jaccard,
        max_queries=settings.max_queries,
        seed=seed,
    )


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


def _files_beside(settings: FolderSettings) -> dict[str, str]:
    """Setting → sha256 of the file it names, so that a run is resumed with the same."""
    named = {"data.teacher": settings.teacher, "data.mined": settings.mined}
    return {name: file_sha256(path) for name, path in named.items() if path is not None}


def _shared(
    datasets: Sequence[Dataset], selection: Selection, corpus: TrainingCorpus
) -> dict[str, SharedTools]:
    """What training has met of the tools of each data set that has test queries."""
    sources = [(one.dataset.tools, one.train) for one in selection.datasets if one.train]
    met = {tool_key(tool) for tools, _ in sources for tool in tools}
    spans = zip(corpus.source_offsets, corpus.source_offsets[1:], corpus.label_free, strict=False)
    paired = {name for a, b, free in spans if free for name in corpus.query_ids[a:b]}
    met |= {
        tool_key(tool)
        for one, tools in selection.catalogues
        for tool in tools
        if f"{one.name}:{tool.id}" in paired
    }
    labelled = set()
    for tools, queries in sources:
        asked = {tool_id for query in queries for tool_id in query.relevant}
        labelled |= {tool_key(tool) for tool in tools if tool.id in asked}
    tested = [one for one in datasets if one.split("test")]
    return {one.name: shared_tools(one, met, labelled) for one in tested}


def _overlap(settings: FolderSettings) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    if settings.overlap is not None:
        return read_overlap(settings.overlap)
    for root in settings.folders:
        if (root / OVERLAP_FILE).exists():
            return read_overlap(root / OVERLAP_FILE)
    return {}


class _Bar:
    """A progress bar on stderr for texts that have to be embedded; none when there are none."""

    def __enter__(self) -> _Bar:
        self._tqdm = import_extra("tqdm", user="toolheads train", extra="cache").tqdm
        self._bar = None
        return self

    def __call__(self, done: int, total: int) -> None:
        if done == 0 and total:
            self.__exit__()
            self._bar = self._tqdm(total=total, unit="text", desc="embed", file=sys.stderr)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
