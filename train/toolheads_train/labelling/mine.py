"""`toolheads train mine`: hard negatives of training queries, by heads that are trained already.

A tool that trained heads rank high and nobody labelled is either what they still confuse with the
right one, or right. The window of ranks and the margin below the right tool decide which of them
are negatives; where the frozen encoder and the heads both put a tool above the right one, it is
taken for right, or left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np

from toolheads.arrays import Floats, Ids
from toolheads.errors import ConfigError
from toolheads.scorers.best import Scored, best
from toolheads.scorers.exact import Doubles
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
    same_text = Groups(format_tool(tool, texts) for tool in tools)
    right_of_text: dict[str, set[int]] = {}
    for query in one.train:
        known = right_of_text.setdefault(query.text, set())
        known.update(same_text.number(row_of[tool_id]) for tool_id in query.relevant)
    found = {}
    for queries in chunks(one.train):
        asked = [query.text for query in queries]
        rights = [same_text.rows(right_of_text[text]) for text in asked]
        mined = mined_tools(heads.asked(asked), frozen.asked(asked), rights, settings)
        for query, (negatives, positives) in zip(queries, mined, strict=True):
            found[one.dataset.name, query.id] = Mined(
                tuple(tools[row].id for row in negatives.tolist()),
                tuple(tools[row].id for row in positives.tolist()),
            )
    return found


class Groups:
    """Tools of equal texts are one.

    Args:
        texts: n texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        numbers: dict[bytes, int] = {}
        digests = (sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)
        self._numbers = np.array([numbers.setdefault(d, len(numbers)) for d in digests], np.int64)
        self._order = np.argsort(self._numbers, kind="stable")
        self._ends = np.searchsorted(self._numbers[self._order], np.arange(len(numbers) + 1))

    def number(self, row: int) -> int:
        """The group of a row."""
        return int(self._numbers[row])

    def rows(self, numbers: Iterable[int]) -> Ids:
        """(m,) int64 rows of all tools of some groups, rising."""
        parts = [self._order[self._ends[n] : self._ends[n + 1]] for n in numbers]
        return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))


def mined_tools(
    trained: Scored,
    base: Scored,
    rights: Sequence[Ids],
    settings: MiningSettings,
    *,
    tile_entries: int | None = None,
) -> Iterator[tuple[Ids, Ids]]:
    """Hard negatives and likely positives of queries, found tile by tile.

    What decides is the highest of the others and the right tools; only these are scored by the
    frozen encoder.

    Args:
        trained: q queries against n tools, by the trained heads.
        base: The same by the frozen encoder.
        rights: For each query the rows of tools known to be right, at least one.
        settings: What is a hard negative.
        tile_entries: See `toolheads.scorers.best.best`.

    Yields:
        For each query what `mined_rows` gives of its scores for all tools.
    """
    above = None
    if settings.relabel == "positive":
        above = [float(trained.exact(row, right).max()) for row, right in enumerate(rights)]
    window = settings.to_rank + max(map(len, rights))
    ranked = best(trained, window, above=above, tile_entries=tile_entries)
    for row, ((highest, _), right) in enumerate(zip(ranked, rights, strict=True)):
        candidates = np.union1d(highest, right)
        negatives, positives = mined_rows(
            trained.exact(row, candidates),
            base.exact(row, candidates),
            np.isin(candidates, right),
            settings,
        )
        yield candidates[negatives], candidates[positives]


def mined_rows(
    trained: Floats | Doubles,
    base: Floats | Doubles,
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
