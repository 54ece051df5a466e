"""The use case of deciding: which one tool does a need name, if any."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from toolheads.arrays import Ids
from toolheads.decide.calibration.packaged import packaged_settings
from toolheads.decide.decisions import Absent, Ambiguous, Bind, Decision, Duplicate, Pair
from toolheads.decide.rules import Ranking, Verdict, ranking, server_codes, verdict
from toolheads.decide.settings import PickerSettings
from toolheads.decide.similarity import Similarity, SimilarityOf, similarity_of
from toolheads.domain import Hit, Query, Tool
from toolheads.errors import ConfigError, ShapeError
from toolheads.ports import Scorer
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.vectors import VectorScorer, check_text

Identity = tuple[str | None, str]
"""Server and name of a tool."""


class SelectionError(ConfigError):
    """An identity names no tool of the catalogue.

    Attributes:
        missing: The first one that names none.
    """

    def __init__(self, missing: Identity) -> None:
        self.missing = missing
        msg = f"identities must name tools of the catalogue, got {missing!r:.200}"
        super().__init__(msg)


@dataclass(frozen=True)
class _Catalogue:
    tools: tuple[Tool, ...]
    row_of: dict[str, int]
    servers: Ids
    similarity: Similarity | None
    """None of an empty catalogue."""


class Picker:
    """Decides which one tool of a catalogue a need names.

    Never changes, so threads may share it as far as they may share its scorer.

    Args:
        tools: The catalogue, in an order that breaks ties. Ids are unique; server and name may
            occur twice. It may be empty: then every tool is absent.
        scorer: Ranks the tools: a `Scorer` that the picker may index and then owns, or a call
            that makes one.
        settings: The thresholds; None takes those that come with packaged heads, and for other
            scorers the defaults, which fit one encoder only.
        similarity: Makes the similarity of tools; None takes the rows of the scorer where it has
            some, else the words of the tools.

    Raises:
        ConfigError: If two tools have one id.
        CalibrationError: If the thresholds of packaged heads were fitted to another kind of
            catalogue.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        scorer: Scorer | Callable[[], Scorer],
        settings: PickerSettings | None = None,
        *,
        similarity: SimilarityOf | None = None,
    ) -> None:
        self._given = settings
        self._scorer: Scorer = scorer() if callable(scorer) else scorer
        self._make = scorer if callable(scorer) else None
        self._similarity_of = similarity
        if settings is None:
            settings = packaged_settings(self._scorer, tools) or PickerSettings()
        self._settings = settings
        self._catalogue = self._indexed(tuple(tools))

    @property
    def settings(self) -> PickerSettings:
        """The thresholds."""
        return self._settings

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The catalogue."""
        return self._catalogue.tools

    def get(self, identity: Identity) -> Tool | None:
        """The first tool of this server and name; None where there is none."""
        return next((t for t in self._catalogue.tools if t.identity == identity), None)

    def resolve(self, need: str) -> Decision:
        """Decide which tool a need names.

        Args:
            need: What is needed, in words.

        Raises:
            ConfigError: If the need is blank.
            ShapeError: If the scorer gives a score that is not finite, or ranks unknown tools.
            EncoderError: If the scorer's encoder fails.
        """
        ranked, found = self._decided(need)
        hits = self._hits(ranked, found.named[: self._settings.named])
        if found.outcome == "bind":
            return Bind(hits[0])
        if found.outcome == "duplicate":
            return Duplicate(hits)
        if found.outcome == "ambiguous":
            return Ambiguous(hits)
        nearest = self._hits(ranked, np.arange(min(1, len(ranked))))
        return Absent(nearest[0] if nearest else None)

    def shortlist(self, need: str, limit: int) -> tuple[Hit, ...]:
        """The tools that are worth a look, best first.

        Nothing where `resolve` says absent, exactly the tool that it binds, and else every tool
        at or over the floor with all that the decision is about.

        Args:
            need: What is needed, in words.
            limit: Most tools, >= 0; with 0 nothing is scored.

        Raises:
            ConfigError: If the need is blank or the limit is no whole number >= 0.
            ShapeError: See `resolve`.
            EncoderError: See `resolve`.
        """
        if type(limit) is not int or limit < 0:
            msg = f"limit must be a whole number >= 0, got {limit!r:.80}"
            raise ConfigError(msg)
        check_text(need)
        if not limit:
            return ()
        ranked, found = self._decided(need)
        return self._hits(ranked, found.shortlisted[:limit])

    def near_duplicates(self, identities: Iterable[Identity]) -> tuple[Pair, ...]:
        """Pairs of nearly equal tools among some tools, whatever their servers.

        Args:
            identities: Server and name of each; repeats count once, and one that names several
                tools names all of them.

        Returns:
            Pairs whose similarity is at least the duplicate threshold, in order of the catalogue.

        Raises:
            SelectionError: If one names no tool.
        """
        wanted = dict.fromkeys((server, name) for server, name in identities)
        tools, similarity = self._catalogue.tools, self._catalogue.similarity
        there = {tool.identity for tool in tools}
        for identity in wanted:
            if identity not in there:
                raise SelectionError(identity)
        rows = np.array([row for row, t in enumerate(tools) if t.identity in wanted], np.int64)
        threshold = np.float32(self._settings.duplicate_threshold)
        pairs = []
        for at, row in enumerate(rows[:-1] if similarity else ()):
            others = rows[at + 1 :]
            alike = similarity.to(int(row), others) if similarity else np.empty(0, np.float32)
            pairs += [
                Pair(tools[row], tools[others[i]], float(alike[i]))
                for i in np.flatnonzero(alike >= threshold)
            ]
        return tuple(pairs)

    def rebuild(self, tools: Sequence[Tool]) -> Picker:
        """A picker over another catalogue with the same scorer and settings; this one stays.

        The scorer is made anew where the picker was given a call that makes one. Else a copy of
        it is indexed, if it is one whose copies share no corpus.

        Raises:
            ConfigError: If the scorer is another one; give the picker a call that makes it.
        """
        if self._make is None and not isinstance(self._scorer, BM25Scorer | VectorScorer):
            msg = (
                f"scorer must be a call that makes one for a picker to be rebuilt, got "
                f"scorer {self._scorer.name}"
            )
            raise ConfigError(msg)
        scorer = self._make or copy.copy(self._scorer)
        return Picker(tools, scorer, self._given, similarity=self._similarity_of)

    def with_settings(self, settings: PickerSettings) -> Picker:
        """A picker over the same catalogue with other thresholds; nothing is indexed again."""
        other = copy.copy(self)
        other._given = other._settings = settings
        return other

    def with_scorer(self, scorer: Scorer) -> Picker:
        """A picker over the same catalogue, ranked by a scorer that has indexed it already."""
        other = copy.copy(self)
        other._scorer, other._make = scorer, None
        return other

    def _indexed(self, tools: tuple[Tool, ...]) -> _Catalogue:
        row_of: dict[str, int] = {}
        for row, tool in enumerate(tools):
            if row_of.setdefault(tool.id, row) != row:
                msg = f"tools must have ids of their own, got {tool.id!r:.80} twice"
                raise ConfigError(msg)
        if not tools:
            return _Catalogue(tools, row_of, server_codes(tools), None)
        self._scorer.index(tools)
        make = self._similarity_of
        similarity = similarity_of(self._scorer, tools) if make is None else make(tools)
        return _Catalogue(tools, row_of, server_codes(tools), similarity)

    def _decided(self, need: str) -> tuple[Ranking, Verdict]:
        check_text(need)
        tools, similarity = self._catalogue.tools, self._catalogue.similarity
        hits: list[Hit] = []
        if tools:
            (hits,) = self._scorer.rank([Query("need", need)], len(tools))
        rows = self._rows(hits)
        ranked = ranking(rows, [hit.score for hit in hits], tools, self._settings)
        if similarity is None:
            return ranked, Verdict("absent", rows, rows)
        return ranked, verdict(ranked, self._catalogue.servers, similarity, self._settings)

    def _rows(self, hits: Sequence[Hit]) -> Ids:
        name = self._scorer.name
        try:
            rows = [self._catalogue.row_of[hit.tool_id] for hit in hits]
        except KeyError as e:
            msg = f"scorer {name} must rank tools of the catalogue, got {e.args[0]!r:.80}"
            raise ShapeError(msg) from e
        if len(set(rows)) < len(rows):
            msg = f"scorer {name} must rank each tool once, got one twice"
            raise ShapeError(msg)
        return np.array(rows, np.int64)

    def _hits(self, ranked: Ranking, places: Ids) -> tuple[Hit, ...]:
        tools = self._catalogue.tools
        return tuple(Hit(tools[ranked.rows[at]], float(ranked.scores[at])) for at in places)
