"""The use case of calibrating: data sets with labelled queries in, thresholds out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from toolheads.data import Dataset
from toolheads.data.records import SPLITS
from toolheads.decide.calibration.conformal import least_queries
from toolheads.decide.calibration.episodes import (
    DEPTH,
    HIDE_AT,
    Corpus,
    Episodes,
    Ranked,
    joined,
    unit_of,
)
from toolheads.decide.calibration.file import Calibration, Threshold
from toolheads.decide.calibration.lists import ListFigures, fit_list_cutoff, list_figures
from toolheads.decide.calibration.match_floor import fit_match_floor, match_shares
from toolheads.decide.calibration.subject import CatalogueKind, subject_of
from toolheads.decide.calibration.thresholds import (
    Trade,
    absence_auroc,
    fit_thresholds,
    trade_of,
)
from toolheads.decide.similarity import SimilarityOf, similarity_of
from toolheads.domain import Query
from toolheads.errors import CalibrationError, ConfigError
from toolheads.ports import Scorer

_SEQUENCES = ("targets", "alphas", "floors")


@dataclass(frozen=True)
class CalibrationSettings:
    """Which queries are looked at, and what is asked of the thresholds."""

    split: str = "train"
    """Split whose queries are looked at."""
    limit: int | None = 1000
    """Most queries of each data set, drawn with `seed`; None takes all."""
    seed: int = 0
    """Of the draws and the halves."""
    targets: tuple[float, ...] = (0.01, 0.05, 0.1)
    """Shares of false binds to fit thresholds for, rising, each in (0, 1)."""
    alphas: tuple[float, ...] = (0.05, 0.1)
    """Shares of missed relevant tools to fit cut-offs of lists for, rising, each in (0, 1)."""
    floors: tuple[float, ...] = (0.01, 0.02)
    """Shares of requests with a right tool that may be told that nothing matches, to fit floors
    for, rising, each in (0, 1)."""
    hide_at: float = HIDE_AT
    """Least similarity of a tool to a right one that is hidden with it, in [0, 1]."""
    depth: int = DEPTH
    """Hits of a query that are looked at, >= 2."""
    top_k: int = 3
    """See `PickerSettings`."""

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            msg = f"split must be one of {', '.join(SPLITS)}, got {self.split!r:.80}"
            raise ConfigError(msg)
        for name, least in (("limit", 1), ("seed", 0), ("depth", 2), ("top_k", 1)):
            value = getattr(self, name)
            is_left_out = name == "limit" and value is None
            if not is_left_out and (type(value) is not int or value < least):
                msg = f"{name} must be a whole number >= {least}, got {value!r:.80}"
                raise ConfigError(msg)
        for name in _SEQUENCES:
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)
            if list(values) != sorted({v for v in values if 0 < v < 1}):
                msg = f"{name} must be rising numbers in (0, 1), got {values!r:.80}"
                raise ConfigError(msg)
        if not self.targets:
            raise ConfigError("targets must hold at least one share of false binds, got none")
        if not 0 <= self.hide_at <= 1:
            msg = f"hide_at must be a number in [0, 1], got {self.hide_at!r:.80}"
            raise ConfigError(msg)


_DEFAULTS = CalibrationSettings()


def calibrate(
    scorer: Scorer,
    datasets: Sequence[Dataset],
    settings: CalibrationSettings = _DEFAULTS,
    *,
    similarity: SimilarityOf | None = None,
) -> Calibration:
    """Fit thresholds and cut-offs of lists to a scorer on labelled queries.

    Each query is ranked as it is, and again with its relevant tools and their near-twins hidden:
    then every bind is a false one. Targets that the queries are too few for are left out.

    Args:
        scorer: Indexes the tools of each data set in turn.
        datasets: Catalogues of one kind with labelled queries.
        settings: See `CalibrationSettings`.
        similarity: Of tools, as `Picker` will be given it; None takes what goes with the scorer.

    Raises:
        CalibrationError: If the queries are too few for every target.
        ConfigError: If no data set has queries in the split.
    """
    used = [dataset for dataset in datasets if dataset.split(settings.split)]
    if not used:
        names = ", ".join(dataset.name for dataset in datasets) or "no data set"
        msg = f"data must have queries of split {settings.split}, got none in {names:.200}"
        raise ConfigError(msg)
    parts = list(_ranked(scorer, used, settings, similarity))
    unit = unit_of([one for _, ranked in parts for one in ranked])
    by_set = [corpus.episodes(ranked, unit) for corpus, ranked in parts]
    episodes = joined(by_set)
    thresholds = []
    for target in settings.targets:
        fitted = fit_thresholds(episodes, target, top_k=settings.top_k, seed=settings.seed)
        if fitted is not None:
            thresholds.append(Threshold(target, fitted, trade_of(episodes, fitted)))
    if not thresholds:
        largest = settings.targets[-1]
        msg = (
            f"queries must be at least {2 * least_queries(largest) + 2} for {largest:g} false "
            f"binds, got {len(episodes.absent)}"
        )
        raise CalibrationError(msg)
    lists = [fit_list_cutoff(episodes, alpha, seed=settings.seed) for alpha in settings.alphas]
    floors = [fit_match_floor(by_set, alpha) for alpha in settings.floors]
    return Calibration(
        subject=subject_of(scorer),
        kind=CatalogueKind.of([dataset.tools for dataset in used]),
        thresholds=tuple(thresholds),
        lists=tuple(fitted for fitted in lists if fitted is not None),
        floors=tuple(floor for floor in floors if floor is not None),
        auroc=absence_auroc(episodes),
        data={
            "sets": {dataset.name: dict(dataset.digest) for dataset in used},
            "queries": len(episodes.absent),
            "settings": asdict(settings) | {k: list(getattr(settings, k)) for k in _SEQUENCES},
        },
    )


@dataclass(frozen=True)
class Check:
    """What a calibration gives on one data set."""

    dataset: str
    trades: tuple[Trade, ...]
    """In the order of the calibration's thresholds."""
    lists: tuple[ListFigures, ...]
    """In the order of its cut-offs of lists; empty without a query that has relevant tools."""
    unmatched: tuple[tuple[float, float], ...]
    """In the order of its floors: shares of queries with, and without, a right tool that are told
    that nothing matches."""
    auroc: float


def check_calibration(
    calibration: Calibration,
    scorer: Scorer,
    datasets: Sequence[Dataset],
    settings: CalibrationSettings,
    *,
    similarity: SimilarityOf | None = None,
) -> tuple[Check, ...]:
    """Measure a calibration on other queries, such as those of a test split."""
    used = [dataset for dataset in datasets if dataset.split(settings.split)]
    unit = calibration.thresholds[0].settings.score_unit
    checks = []
    for dataset, (corpus, ranked) in zip(
        used, _ranked(scorer, used, settings, similarity), strict=True
    ):
        episodes = corpus.episodes(ranked, unit)
        checks.append(
            Check(
                dataset.name,
                tuple(trade_of(episodes, one.settings) for one in calibration.thresholds),
                tuple(
                    list_figures(episodes, one.margin, one.max_k)
                    for one in (calibration.lists if len(episodes.present) else ())
                ),
                tuple(match_shares([episodes], floor.score) for floor in calibration.floors),
                absence_auroc(episodes),
            )
        )
    return tuple(checks)


def drawn(queries: Sequence[Query], name: str, limit: int | None, seed: int) -> list[Query]:
    """All queries, or `limit` of them, in file order; the draw depends on seed and name only."""
    if limit is None or limit >= len(queries):
        return list(queries)
    rng = np.random.default_rng([seed, *name.encode()])
    kept = rng.choice(len(queries), size=limit, replace=False)
    return [queries[at] for at in sorted(kept)]


def _ranked(
    scorer: Scorer,
    datasets: Sequence[Dataset],
    settings: CalibrationSettings,
    similarity: SimilarityOf | None,
) -> Iterator[tuple[Corpus, list[Ranked]]]:
    for dataset in datasets:
        scorer.index(dataset.tools)
        make = partial(similarity_of, scorer) if similarity is None else similarity
        alike = make(dataset.tools)
        corpus = Corpus(dataset.tools, alike, hide_at=settings.hide_at)
        queries = drawn(dataset.split(settings.split), dataset.name, settings.limit, settings.seed)
        ranked = list(corpus.ranked(scorer, queries, depth=settings.depth))
        for one in ranked:
            if not all(map(math.isfinite, one.scores)):
                msg = f"scores of scorer {scorer.name} must be finite, got NaN or inf"
                raise CalibrationError(msg)
        yield corpus, ranked


def episodes_of(
    scorer: Scorer,
    dataset: Dataset,
    settings: CalibrationSettings = _DEFAULTS,
    *,
    similarity: SimilarityOf | None = None,
    unit: float | None = None,
) -> Episodes:
    """What decisions on the queries of one data set depend on, to be measured by hand."""
    ((corpus, ranked),) = _ranked(scorer, [dataset], settings, similarity)
    return corpus.episodes(ranked, unit_of(ranked) if unit is None else unit)
