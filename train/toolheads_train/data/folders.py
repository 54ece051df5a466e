"""Data folders → embedded training corpus and validation sets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from toolheads.arrays import Floats
from toolheads.bootstrap import EncoderSettings, make_encoder
from toolheads.data import read_datasets
from toolheads.data.overlap import read_overlap
from toolheads.domain import Query, Tool
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
from toolheads_train.data.corpus import Source, TrainingCorpus, build_corpus
from toolheads_train.data.pairs import Pair, label_free_pairs
from toolheads_train.data.selection import Selected, Selection, ValidationSettings, select
from toolheads_train.data.validation_set import ValidationSet

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
    overlap: str | None = None
    """File of tools that are another test set's; unset looks for overlap.json in a root."""
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    """What chooses the checkpoint."""
    min_jaccard: float = 0.8
    """Shared words over all words from which a training query is too near a held-out one."""
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
        return [*lines, *(f"left out, {why}: {count}" for why, count in left_out.items())]


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
    datasets = read_datasets(settings.folders, skip_bad=settings.skip_bad)
    selection = select(
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
    encoder = make_encoder(settings.encoder)
    cache = None if settings.cache is None else Path(settings.cache)
    with _Bar() as bar:
        embedder = Embedder(encoder, settings.texts, cache, progress=bar)
        try:
            corpus, sets = embed_selection(
                selection,
                embedder,
                views=tuple(settings.tool_views),
                validation_views=settings.validation_views,
                label_free=label_free,
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
        digests={f"{d.name}/{name}": sha for d in datasets for name, sha in d.digest.items()},
    )


def embed_selection(
    selection: Selection,
    embedder: Embedder,
    *,
    views: Sequence[str],
    validation_views: Sequence[str] = (),
    label_free: bool,
) -> tuple[TrainingCorpus, list[ValidationSet]]:
    """Embed what was selected.

    Args:
        selection: What trains and what validates.
        embedder: Gives the vectors.
        views: Views of a tool, in the order of its vectors.
        validation_views: Views that validation data has besides.
        label_free: Whether to make label-free pairs of the catalogues.

    Raises:
        ConfigError: If nothing is left to train on.
    """
    pairs = [(d.name, label_free_pairs(tools, embedder.texts)) for d, tools in selection.catalogues]
    pairs = [(name, made) for name, made in pairs if made] if label_free else []
    if embedder.cache is not None:  # all texts at once: one progress bar, and full batches
        embedder.fill(_all_texts(selection, pairs, embedder.texts, views, validation_views))
    sources, sets = [], []
    for one in selection.datasets:
        tools = _stacked(embedder, one.dataset.tools, views)
        if one.train:
            sources.append(_source(one, tools, embedder))
        if one.validation:
            more = [view for view in validation_views if view not in views]
            sets.append(_validation_set(one, tools, embedder, more))
    sources += [_label_free(name, made, embedder, len(views)) for name, made in pairs]
    return build_corpus(sources), sets


def _all_texts(
    selection: Selection,
    pairs: Sequence[tuple[str, Sequence[Pair]]],
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
    return texts + [text for _, made in pairs for p in made for text in (p.query_text, p.tool_text)]


def _stacked(embedder: Embedder, tools: Sequence[Tool], views: Sequence[str]) -> Floats:
    """(n, v, d) float32."""
    by_view = embedder.tools(tools, views)
    return np.stack([by_view[view] for view in views], axis=1)


def _source(one: Selected, tools: Floats, embedder: Embedder) -> Source:
    row_of = {tool.id: row for row, tool in enumerate(one.dataset.tools)}
    queries = one.train

    def rows(ids_of: Callable[[Query], Sequence[str]]) -> list[list[int]]:
        return [[row_of[tool_id] for tool_id in ids_of(query)] for query in queries]

    return Source(
        name=one.dataset.name,
        queries=embedder.queries([q.text for q in queries], with_clauses=False).whole,
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
    )


def _label_free(name: str, pairs: Sequence[Pair], embedder: Embedder, views: int) -> Source:
    """Pairs of two texts of one tool, as a source whose every query has one tool."""
    vectors = embedder.embed([pair.tool_text for pair in pairs])  # (n, d)
    return Source(
        name=f"{name} (label-free)",
        queries=embedder.embed([pair.query_text for pair in pairs]),
        tools=np.repeat(vectors[:, None], views, axis=1),
        # The tool it was made of: where that tool is a positive too, they are no negatives.
        groups=[format_tool(pair.tool, embedder.texts) for pair in pairs],
        positives=[[row] for row in range(len(pairs))],
        query_ids=[f"{name}:{pair.tool.id}" for pair in pairs],
        same_query=[pair.query_text for pair in pairs],
        label_free=True,
    )


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
