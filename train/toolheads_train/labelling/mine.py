"""`toolheads train mine`: hard negatives of training queries, by heads that are trained already.

A tool that trained heads rank high and nobody labelled is either what they still confuse with the
right one, or right. The window of ranks and the margin below the right tool decide which of them
are negatives; where the frozen encoder and the heads both put a tool above the right one, it is
taken for right, or left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.errors import ConfigError
from toolheads.texts import TextSettings, format_tool
from toolheads_train.data.scores_file import Key, Mined
from toolheads_train.data.selection import Selected, Selection
from toolheads_train.labelling.teach import chunks, rows_of
from toolheads_train.labelling.teachers import Ensemble


@dataclass(frozen=True)
class MiningSettings:
    """Which tools are hard negatives of a query."""

    from_rank: int = 1
    """First rank, from 1, among the tools that are not known to be right."""
    to_rank: int = 50
    """Last rank."""
    margin: float = 0.05
    """Score by which a negative must be below the best right tool, by the trained heads."""
    count: int = 10
    """Most negatives of a query: the highest of those in the window."""
    relabel: Literal["drop", "positive"] = "drop"
    """A tool above the best right one by the frozen encoder and by the heads alike: left out, or
    counted as right too."""

    def __post_init__(self) -> None:
        rules = (
            ("from_rank", self.from_rank, self.from_rank >= 1, ">= 1"),
            ("to_rank", self.to_rank, self.to_rank >= self.from_rank, ">= from_rank"),
            ("margin", self.margin, 0 <= self.margin < 2, "in [0, 2)"),
            ("count", self.count, self.count >= 1, ">= 1"),
        )
        for name, value, holds, rule in rules:
            if not holds:
                msg = f"mining.{name} must be {rule}, got {value}"
                raise ConfigError(msg)


def mine(
    selection: Selection,
    heads: Ensemble,
    frozen: Ensemble,
    texts: TextSettings,
    settings: MiningSettings,
) -> Iterator[tuple[str, dict[Key, Mined]]]:
    """Find hard negatives of training queries.

    Args:
        selection: Whose training queries.
        heads: The trained heads.
        frozen: The frozen encoder.
        texts: How tools are written: those of one text are one tool.
        settings: What is a hard negative.

    Yields:
        (data set, what was found for each of its queries), one data set at a time.
    """
    for one in selection.datasets:
        if one.train:
            heads.index(one.dataset.tools)
            frozen.index(one.dataset.tools)
            yield one.dataset.name, _of_dataset(one, heads, frozen, texts, settings)


def _of_dataset(
    one: Selected,
    heads: Ensemble,
    frozen: Ensemble,
    texts: TextSettings,
    settings: MiningSettings,
) -> dict[Key, Mined]:
    tools, row_of = one.dataset.tools, rows_of(one.dataset.tools)
    numbers: dict[str, int] = {}
    groups = np.array(
        [numbers.setdefault(format_tool(t, texts), len(numbers)) for t in tools], np.int64
    )
    right_of_text: dict[str, set[int]] = {}
    for query in one.train:
        known = right_of_text.setdefault(query.text, set())
        known.update(int(groups[row_of[tool_id]]) for tool_id in query.relevant)
    found = {}
    for queries in chunks(one.train):
        asked = [query.text for query in queries]
        both = zip(heads.all_scores(asked), frozen.all_scores(asked), queries, strict=True)
        for trained, base, query in both:
            is_right = np.isin(groups, list(right_of_text[query.text]))
            negatives, positives = mined_rows(trained, base, is_right, settings)
            found[one.dataset.name, query.id] = Mined(
                tuple(tools[row].id for row in negatives.tolist()),
                tuple(tools[row].id for row in positives.tolist()),
            )
    return found


def mined_rows(
    trained: Floats,
    base: Floats,
    is_right: Sequence[bool] | np.ndarray[tuple[int], np.dtype[np.bool_]],
    settings: MiningSettings,
) -> tuple[Ids, Ids]:
    """Hard negatives and likely positives of one query.

    Args:
        trained: (n,) scores by the trained heads.
        base: (n,) scores by the frozen encoder.
        is_right: (n,) tools known to be right, at least one.
        settings: What is a hard negative.

    Returns:
        int64 rows of the negatives, highest first, and of tools to count as right, which are
        none unless `relabel` is `positive`.
    """
    right = np.flatnonzero(is_right)
    best, best_base = trained[right].max(), base[right].max()
    others = np.flatnonzero(~np.asarray(is_right))
    others = others[np.argsort(-trained[others], kind="stable")]
    is_likely = (trained[others] > best) & (base[others] > best_base)
    window = others[settings.from_rank - 1 : settings.to_rank]
    allowed = ~is_likely[settings.from_rank - 1 : settings.to_rank]
    negatives = window[allowed & (trained[window] <= best - settings.margin)]
    positives = others[is_likely] if settings.relabel == "positive" else others[:0]
    return negatives[: settings.count].astype(np.int64), positives.astype(np.int64)
