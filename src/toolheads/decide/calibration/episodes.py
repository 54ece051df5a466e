"""What calibration looks at: each query as it is, and again with its right tools hidden."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from toolheads.arrays import Bools, Floats, Ids
from toolheads.data.shared import tool_key
from toolheads.decide.calibration.conformal import Doubles
from toolheads.decide.rules import Ranking, likeness_to_leader, ranking, server_codes
from toolheads.decide.settings import PickerSettings
from toolheads.decide.similarity import Similarity
from toolheads.domain import Query, Tool
from toolheads.errors import CalibrationError
from toolheads.ports import Scorer

DEPTH = 1000
"""Hits of a query that calibration looks at. A relevant tool below is one that no list reaches."""

HIDE_AT = 0.9
"""Least similarity of a tool to a right one that is hidden with it: it might do as well."""

_QUERIES_AT_ONCE = 64


@dataclass(frozen=True)
class Leads:
    """What decisions on q queries depend on.

    Attributes:
        scores: (q,) float32 of the leader; -inf where nothing is ranked.
        gaps: (q,) float32, how far the second is below; inf without one.
        twins: (q,) float32, largest similarity of the leader to a ranked tool of its server; -2
            without one.
        strangers: (q,) float32, the same among those that are neither relevant nor equal to the
            leader in name and description.
        is_right: (q,) whether the leader is relevant.
    """

    scores: Floats
    gaps: Floats
    twins: Floats
    strangers: Floats
    is_right: Bools

    def __len__(self) -> int:
        return len(self.scores)

    def binds(self, settings: PickerSettings) -> Bools:
        """(q,) whether `Picker.resolve` binds; without the rule of the solo floor."""
        bound: Bools = (self.scores >= np.float32(settings.similarity_floor)) & self.may_bind(
            settings.margin, settings.duplicate_threshold
        )
        return bound

    def may_bind(self, margin: float, duplicate_threshold: float) -> Bools:
        """(q,) whether the leader stands alone, so that it is bound if it reaches the floor."""
        alone: Bools = (self.gaps >= np.float32(margin)) & (
            self.twins < np.float32(duplicate_threshold)
        )
        return alone

    def at(self, places: Ids) -> Leads:
        """Some of the queries."""
        return Leads(*(getattr(self, f.name)[places] for f in fields(self)))


@dataclass(frozen=True)
class Episodes:
    """Queries of one or more catalogues.

    Attributes:
        present: Of the queries with relevant tools, in order.
        absent: Of the same queries with their relevant tools and the near-twins of these hidden,
            then of those without any relevant tool.
        tool_gaps: For each query of `present`, (r,) float64: how far its relevant tools are below
            the best, in the scorer's own unit; inf for one that is not among the hits.
        tool_ranks: Likewise, (r,) float64: the places of its relevant tools, from 1; inf for one
            that is not among the hits.
        hit_gaps: For each query of `present`, (k,) float32: the same for its hits.
        unit: `PickerSettings.score_unit` of the leads.
    """

    present: Leads
    absent: Leads
    tool_gaps: tuple[Doubles, ...]
    tool_ranks: tuple[Doubles, ...]
    hit_gaps: tuple[Floats, ...]
    unit: float

    def at(self, present: Ids, absent: Ids) -> Episodes:
        """Some of the queries."""
        return Episodes(
            self.present.at(present),
            self.absent.at(absent),
            tuple(self.tool_gaps[i] for i in present),
            tuple(self.tool_ranks[i] for i in present),
            tuple(self.hit_gaps[i] for i in present),
            self.unit,
        )


@dataclass(frozen=True)
class Ranked:
    """The best hits of one query.

    Attributes:
        rows: (k,) int64 places in the catalogue, best first.
        scores: (k,) float64 in the scorer's own unit.
        relevant: (r,) int64 places of the relevant tools.
        hidden: (h,) int64 places of the relevant tools and their near-twins.
    """

    rows: Ids
    scores: Doubles
    relevant: Ids
    hidden: Ids


class Corpus:
    """One catalogue with what calibration asks of it.

    Args:
        tools: n tools.
        similarity: Of these tools: whether a leader has twins.
        hide_by: Which tools are hidden with a right one; None takes the similarity.
        hide_at: Least similarity of these.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        similarity: Similarity,
        *,
        hide_by: Similarity | None = None,
        hide_at: float = HIDE_AT,
    ) -> None:
        self.tools = tuple(tools)
        self.similarity = similarity
        self._hide_by, self._hide_at = hide_by or similarity, hide_at
        self._row_of = {tool.id: row for row, tool in enumerate(self.tools)}
        self._servers = server_codes(self.tools)
        keys: dict[tuple[str, str], int] = {}
        codes = [keys.setdefault(tool_key(tool), len(keys)) for tool in self.tools]
        self._keys = np.array(codes, np.int64)
        self._near: dict[int, Ids] = {}

    def ranked(
        self, scorer: Scorer, queries: Sequence[Query], *, depth: int = DEPTH
    ) -> Iterator[Ranked]:
        """Rank queries with a scorer that has indexed the tools."""
        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            batch = queries[start : start + _QUERIES_AT_ONCE]
            lists = scorer.rank(batch, min(depth, len(self.tools)))
            for query, hits in zip(batch, lists, strict=True):
                relevant = np.array([self._row_of[t] for t in query.relevant], np.int64)
                yield Ranked(
                    np.array([self._row_of[hit.tool_id] for hit in hits], np.int64),
                    np.array([hit.score for hit in hits], np.float64),
                    relevant,
                    self._hidden(relevant),
                )

    def episodes(self, ranked: Sequence[Ranked], unit: float = 1.0) -> Episodes:
        """What decisions on these queries depend on, in a unit of scores."""
        settings = PickerSettings(score_unit=unit)
        with_tools = [one for one in ranked if one.relevant.size]
        without = [one for one in ranked if not one.relevant.size]
        nothing = np.empty(0, np.int64)
        present = [self._lead(one, nothing, settings) for one in with_tools]
        absent = [self._lead(one, one.hidden, settings) for one in [*with_tools, *without]]
        return Episodes(
            _leads(present),
            _leads(absent),
            tuple(_of_relevant(one, one.scores[:1] - one.scores) for one in with_tools),
            tuple(_of_relevant(one, np.arange(1.0, len(one.rows) + 1)) for one in with_tools),
            tuple((one.scores[:1] - one.scores).astype(np.float32) for one in with_tools),
            unit,
        )

    def _hidden(self, relevant: Ids) -> Ids:
        """The relevant tools, those near one of them, and those equal to one of them."""
        near = [self._near_of(int(row)) for row in relevant]
        return np.unique(np.concatenate([relevant, *near]))

    def _near_of(self, row: int) -> Ids:
        if row not in self._near:
            alike = self._hide_by.to(row) >= np.float32(self._hide_at)
            self._near[row] = np.flatnonzero(alike | (self._keys == self._keys[row]))
        return self._near[row]

    def _lead(
        self, one: Ranked, hidden: Ids, settings: PickerSettings
    ) -> tuple[float, float, float, float, bool]:
        shown = ~np.isin(one.rows, hidden)
        ordered = ranking(one.rows[shown], one.scores[shown], self.tools, settings)
        if not len(ordered):
            return -math.inf, math.inf, -2.0, -2.0, False
        leader = ordered.rows[0]
        alike = likeness_to_leader(ordered, self._servers, self.similarity)
        is_known = np.isin(ordered.rows, one.relevant) | (
            self._keys[ordered.rows] == self._keys[leader]
        )
        return (
            float(ordered.scores[0]),
            _gap(ordered),
            float(alike.max()),
            float(alike[~is_known].max(initial=-2.0)),
            bool(np.isin(leader, one.relevant)),
        )


def joined(parts: Sequence[Episodes]) -> Episodes:
    """Episodes of several catalogues as one.

    Raises:
        CalibrationError: If there are none, or their units differ.
    """
    if len({part.unit for part in parts}) != 1:
        units = ", ".join(f"{part.unit:g}" for part in parts) or "none"
        msg = f"episodes must have one unit of scores, got {units}"
        raise CalibrationError(msg)
    return Episodes(
        _joined_leads([part.present for part in parts]),
        # Those with a twin in `present` first, in its order.
        _joined_leads(
            [part.absent.at(np.arange(len(part.present))) for part in parts]
            + [part.absent.at(np.arange(len(part.present), len(part.absent))) for part in parts]
        ),
        tuple(gaps for part in parts for gaps in part.tool_gaps),
        tuple(ranks for part in parts for ranks in part.tool_ranks),
        tuple(gaps for part in parts for gaps in part.hit_gaps),
        parts[0].unit,
    )


def halves(episodes: Episodes, seed: int) -> tuple[Episodes, Episodes]:
    """The queries in two random halves; a query and its twin without tools stay together."""
    rng = np.random.default_rng(seed)
    present, absent = len(episodes.present), len(episodes.absent)
    order = rng.permutation(absent)
    parts = (np.sort(order[: absent // 2]), np.sort(order[absent // 2 :]))
    first, second = (episodes.at(part[part < present], part) for part in parts)
    return first, second


def unit_of(ranked: Sequence[Ranked]) -> float:
    """A unit of scores in which no score of these queries exceeds 1; 1 for cosines."""
    peak = max((float(one.scores[0]) for one in ranked if one.scores.size), default=0.0)
    if peak <= 1:
        return 1.0
    digit = 10 ** (math.floor(math.log10(peak)) - 1)
    return float(f"{math.ceil(1.05 * peak / digit) * digit:.6g}")


def _gap(ordered: Ranking) -> float:
    return float(ordered.scores[0] - ordered.scores[1]) if len(ordered) > 1 else math.inf


def _of_relevant(one: Ranked, values: Doubles) -> Doubles:
    """(k,) values of the hits → (r,) those of the relevant tools; inf for one that is no hit."""
    value_of = dict(zip(one.rows.tolist(), values.tolist(), strict=True))
    return np.array([value_of.get(row, math.inf) for row in one.relevant.tolist()], np.float64)


def _leads(rows: Sequence[tuple[float, float, float, float, bool]]) -> Leads:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    numbers = [np.array(column, np.float32) for column in columns[:4]]
    return Leads(numbers[0], numbers[1], numbers[2], numbers[3], np.array(columns[4], np.bool_))


def _joined_leads(parts: Sequence[Leads]) -> Leads:
    return Leads(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Leads)))
