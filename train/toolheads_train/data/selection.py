"""Which queries train, which validate, which are left out and why: plain data, no encoder.

The rules, in order: a data set that is excluded is not trained on; tools that are another test
set's are not trained on; a training query that is, but for its wording, a test query is dropped;
what is left is split into training and validation; a training query that is nearly a validation
query is dropped too. Once there are vectors, `without_near_vectors` drops what they find near
that words do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Literal

import numpy as np

from toolheads.arrays import Bools, Floats, Ids
from toolheads.data import Dataset
from toolheads.data.leaks import check_validation, close_rows, find_leaks
from toolheads.data.overlap import Overlap, overlapping_tools, without_tools
from toolheads.data.splits import split_by_dataset, split_by_query, split_by_tool
from toolheads.domain import Query, Tool
from toolheads.errors import ConfigError


@dataclass(frozen=True)
class ValidationSettings:
    """Which queries choose the checkpoint. Those of split `val` always do."""

    by: Literal["given", "query", "tool", "dataset"] = "given"
    """What is drawn for validation from the training queries besides: nothing (`given`), queries
    at random, all queries of held-out tools, or whole data sets."""
    share: float = 0.1
    """Share of queries, tools or data sets that is drawn, in (0, 1)."""
    datasets: tuple[str, ...] = ()
    """Data sets held out as a whole, beside what is drawn."""
    max_queries: int = 500
    """Queries of one data set that are ranked; the rest is in neither part."""
    min_queries: int = 20
    """A data set with fewer validation queries has no part in the mean."""

    def __post_init__(self) -> None:
        rules = (
            ("share", self.share, 0 < self.share < 1, "in (0, 1)"),
            ("max_queries", self.max_queries, self.max_queries >= 1, ">= 1"),
            ("min_queries", self.min_queries, self.min_queries >= 1, ">= 1"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"data.validation.{name} must be {rule}, got {value}"
                raise ConfigError(msg)


@dataclass(frozen=True)
class Selected:
    """The part of one data set that is used."""

    dataset: Dataset
    train: tuple[Query, ...]
    validation: tuple[Query, ...]


@dataclass(frozen=True)
class Selection:
    """What is used of all data sets."""

    datasets: tuple[Selected, ...]
    """Those with training or validation queries."""
    catalogues: tuple[tuple[Dataset, tuple[Tool, ...]], ...]
    """Data sets and their tools that label-free pairs are made of."""
    counts: dict[str, int]
    """Why queries or tools were left out → how many."""
    near: dict[str, int] = field(default_factory=dict)
    """Data set → training queries dropped for their vectors; those that lost none are not there."""


def select(
    datasets: Sequence[Dataset],
    *,
    train: Sequence[str] | None,
    exclude: Sequence[str],
    label_free: Sequence[str] | None,
    validation: ValidationSettings,
    overlap: Overlap,
    min_jaccard: float,
    max_queries: int | None,
    seed: int,
) -> Selection:
    """Choose from data sets.

    Args:
        datasets: All that were read; the test queries of all of them are guarded.
        train: Names of those to train on; None takes all that have training queries.
        exclude: Names of those that are not trained on, nor validated on.
        label_free: Names of catalogues for label-free pairs; None takes those without queries.
        validation: What validates.
        overlap: Tools that are another test set's.
        min_jaccard: See `toolheads.data.leaks.find_leaks`.
        max_queries: Most training queries of one data set; None takes all.
        seed: Of what is drawn.

    Raises:
        ConfigError: If a name is unknown, or nothing is left to train or to validate on.
        DataError: If given validation queries are test queries.
    """
    names = [one.name for one in datasets]
    for setting, chosen in {
        "train": train or (),
        "exclude": exclude,
        "label_free": label_free or (),
        "validation.datasets": validation.datasets,
    }.items():
        unknown = sorted(set(chosen) - set(names))
        if unknown:
            msg = f"data.{setting} must name data sets of {', '.join(names)}, got {unknown[0]!r}"
            raise ConfigError(msg)
    counts = dict.fromkeys(
        (
            *("no relevant tool", "tool of a test set", "equal to a test query"),
            *("near a test query", "equal to a validation query", "near a validation query"),
            "over the limit",
        ),
        0,
    )
    test = [query for one in datasets for query in one.split("test")]
    wanted = [
        one for one in datasets
        if one.name not in exclude
        and (train is None or one.name in train or one.name in validation.datasets)
    ]  # fmt: skip
    clean = [_clean(one, overlap, counts) for one in wanted]
    clean = _without_leaks(clean, [q.text for q in test], min_jaccard, "test", counts)
    split = _split(clean, validation, seed, counts)
    check_validation((q for one in split for q in one.validation), test)
    held = [q.text for one in split for q in one.validation]
    split = _without_leaks(split, held, min_jaccard, "validation", counts)
    if max_queries is not None:
        split = [
            Selected(one.dataset, _some(one.train, max_queries, seed, counts), one.validation)
            for one in split
        ]
    used = tuple(one for one in split if one.train or one.validation)
    if not any(one.validation for one in used):
        msg = (
            f"validation must have a data set with at least {validation.min_queries} queries, got "
            "none; set data.validation.by"
        )
        raise ConfigError(msg)
    return Selection(used, _catalogues(datasets, exclude, label_free, overlap, counts), counts)


@dataclass(frozen=True)
class QueryVectors:
    """Vectors of the queries that one data set trains and validates with."""

    train: Floats
    """(n, d) float32, row by row of `Selected.train`."""
    validation: Floats
    """(m, d) float32, row by row of `Selected.validation`."""


def without_near_vectors(
    selection: Selection,
    vectors: Mapping[str, QueryVectors],
    test: Floats,
    *,
    min_cosine: float,
) -> tuple[Selection, dict[str, Ids]]:
    """Drop the training queries whose vectors are near those of a held-out query.

    As with words: near a test query first, then near a validation query. A validation query that
    was drawn from the training queries goes too where it is near a test query; one that was given
    for validation stays.

    Args:
        selection: What `select` gave.
        vectors: Data set → vectors, one entry for each of the selection.
        test: (t, d) float32, of the test queries of all data sets that were read.
        min_cosine: Cosine in (0, 1] from which two are near.

    Returns:
        What is left, and data set → (k,) int64 rows of `vectors[…].train` that are.

    Raises:
        ConfigError: If nothing is left to train on, or nothing to validate on.
    """
    by_test = {
        name: close_rows(of_set.train, test, min_cosine=min_cosine) < 0
        for name, of_set in vectors.items()
    }
    stays = {
        one.dataset.name: _stays(one, vectors[one.dataset.name], test, min_cosine)
        for one in selection.datasets
    }
    held_out = [test[:0], *(vectors[name].validation[stay] for name, stay in stays.items())]
    validating = np.concatenate(held_out)
    kept, left, lost = {}, [], {"test": 0, "validation": 0}
    for one in selection.datasets:
        name = one.dataset.name
        rows = np.flatnonzero(by_test[name])
        far = close_rows(vectors[name].train[rows], validating, min_cosine=min_cosine) < 0
        kept[name] = rows[far]
        lost["test"] += len(one.train) - len(rows) + int((~stays[name]).sum())
        lost["validation"] += int((~far).sum())
        train = tuple(one.train[row] for row in kept[name].tolist())
        validation = tuple(compress(one.validation, stays[name].tolist()))
        left.append(replace(one, train=train, validation=validation))
    for what in ("train", "validation"):
        before = sum(len(getattr(one, what)) for one in selection.datasets)
        if before and not any(getattr(one, what) for one in left):
            msg = (
                f"data.min_cosine must leave queries for {what}, got none of {before}: the "
                f"vectors of all are within {min_cosine} of held-out ones; raise it, and see "
                "whether the encoder gives all texts one vector"
            )
            raise ConfigError(msg)
    counts = {f"near a {what} query (vectors)": count for what, count in lost.items()}
    near = {
        one.dataset.name: len(one.train) - len(kept[one.dataset.name])
        for one in selection.datasets
        if len(one.train) > len(kept[one.dataset.name])
    }
    used = tuple(one for one in left if one.train or one.validation)
    return replace(selection, datasets=used, counts=selection.counts | counts, near=near), kept


def _stays(one: Selected, vectors: QueryVectors, test: Floats, min_cosine: float) -> Bools:
    """(m,) Which validation queries are not near a test query, or were given for validation."""
    given = {query.id for query in one.dataset.split("val")}
    is_far: Bools = close_rows(vectors.validation, test, min_cosine=min_cosine) < 0
    return is_far | np.array([query.id in given for query in one.validation], dtype=np.bool_)


def _clean(dataset: Dataset, overlap: Overlap, counts: dict[str, int]) -> Selected:
    """Queries of the training and validation split that some tool fits and no test set owns."""
    own = {tool.id for tool in dataset.tools}
    kept: dict[str, list[Query]] = {}
    for name in ("train", "val"):
        queries = [query for query in dataset.split(name) if query.relevant]
        counts["no relevant tool"] += len(dataset.split(name)) - len(queries)
        # Tools that two of a data set's own splits share are no overlap with another set.
        gone = overlapping_tools(overlap, [dataset.name], allowed=own)
        kept[name] = without_tools(queries, gone)
        counts["tool of a test set"] += len(queries) - len(kept[name])
    return Selected(dataset, tuple(kept["train"]), tuple(kept["val"]))


def _without_leaks(
    parts: Sequence[Selected],
    held_out: Sequence[str],
    jaccard: float,
    what: str,
    counts: dict[str, int],
) -> list[Selected]:
    """Training queries that are not, but for their wording, one of the held-out texts."""
    texts = [query.text for one in parts for query in one.train]
    report = find_leaks(texts, held_out, min_jaccard=jaccard)
    counts[f"equal to a {what} query"] += report.counts["equal"]
    counts[f"near a {what} query"] += report.counts["words"]
    kept = set(report.kept.tolist())
    cleaned, start = [], 0
    for one in parts:
        rows = range(start, start + len(one.train))
        train = tuple(q for row, q in zip(rows, one.train, strict=True) if row in kept)
        cleaned.append(Selected(one.dataset, train, one.validation))
        start += len(one.train)
    return cleaned


def _split(
    parts: Sequence[Selected], settings: ValidationSettings, seed: int, counts: dict[str, int]
) -> list[Selected]:
    """Draw validation queries from training queries."""
    drawn = [one.dataset.name for one in parts if one.train]
    held = set(settings.datasets)
    if settings.by == "dataset":
        fixed = {name: "val" for name in drawn if name in held}
        places = split_by_dataset(drawn, val=settings.share, seed=seed, fixed=fixed)
        held |= {name for name, place in places.items() if place == "val"}
    split = []
    for one in parts:
        train, val = one.train, one.validation
        if one.dataset.name in held:
            train, val = (), (*val, *train)
        elif settings.by == "query":
            both = split_by_query(train, val=settings.share, seed=seed)
            train, val = both.train, (*val, *both.val)
        elif settings.by == "tool":
            both = split_by_tool(train, one.dataset.tools, val=settings.share, seed=seed)
            train, val = both.train, (*val, *both.val)
        if len(val) < settings.min_queries:
            val = ()
        val = _some(val, settings.max_queries, seed, counts)
        split.append(Selected(one.dataset, train, val))
    return split


def _some(
    queries: tuple[Query, ...], most: int, seed: int, counts: dict[str, int]
) -> tuple[Query, ...]:
    """At most so many, drawn at random, in their order."""
    if len(queries) <= most:
        return queries
    counts["over the limit"] += len(queries) - most
    rows = np.random.default_rng(seed).permutation(len(queries))[:most]
    return tuple(queries[row] for row in np.sort(rows))


def _catalogues(
    datasets: Sequence[Dataset],
    exclude: Sequence[str],
    label_free: Sequence[str] | None,
    overlap: Overlap,
    counts: dict[str, int],
) -> tuple[tuple[Dataset, tuple[Tool, ...]], ...]:
    """Catalogues without the tools of test sets.

    One whose queries are a test set is no choice of the default: its tools are what the test is
    about.
    """
    chosen = []
    for one in datasets:
        by_default = label_free is None and not one.queries and one.name not in exclude
        if not (by_default or (label_free is not None and one.name in label_free)):
            continue
        gone = overlapping_tools(overlap, [one.name], allowed=[tool.id for tool in one.tools])
        counts["tool of a test set"] += sum(tool.id in gone for tool in one.tools)
        chosen.append((one, tuple(tool for tool in one.tools if tool.id not in gone)))
    return tuple(chosen)
