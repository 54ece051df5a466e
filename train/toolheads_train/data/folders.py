"""Data folders → embedded training corpus and validation sets."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np

from toolheads.arrays import Floats
from toolheads.bootstrap import EncoderSettings, make_encoder
from toolheads.data import Dataset, read_datasets
from toolheads.data.overlap import read_overlap
from toolheads.data.shared import SharedTools, shared_tools, tool_key
from toolheads.durable import file_sha256
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError, import_extra
from toolheads.identity import Fingerprint
from toolheads.sample import dataset_path
from toolheads.texts import TOOL_VIEWS, TextSettings
from toolheads_train.data.corpus import TrainingCorpus
from toolheads_train.data.embedding import embed_selection
from toolheads_train.data.pairs import PairKind
from toolheads_train.data.scores_file import with_files
from toolheads_train.data.selection import Selection, ValidationSettings, select
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
