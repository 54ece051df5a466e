"""The use case of searching: a query in, an answer out, whatever fails."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import numpy as np

from toolheads.catalogue import tools_digest
from toolheads.cutoff import CutoffSettings
from toolheads.data.jsonl import LineError
from toolheads.domain import Hit, Tool
from toolheads.errors import ConfigError, DataError, IndexStoreError
from toolheads.retrieval.answer import Answer, Mode
from toolheads.retrieval.breaker import Breaker
from toolheads.retrieval.builder import Builder
from toolheads.retrieval.building import Scoring
from toolheads.retrieval.conversations import Conversations
from toolheads.retrieval.encoder_watch import one_line
from toolheads.retrieval.encoding import Encoding
from toolheads.retrieval.found import Found, found_by_vectors, found_by_words
from toolheads.retrieval.given import ranked, scores_by_words
from toolheads.retrieval.health import Health
from toolheads.retrieval.query_vectors import VectorOnItsWay
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.retrieval.state import Floor, State
from toolheads.scorers.exact import QueryProjections
from toolheads.scorers.vectors import check_k, check_text

_LONGEST_S = 3600.0
"""Longest wait of a search for the encoder, whatever it asks for."""

_LIGHT = 1 << 22
"""Entries of rows that are multiplied in a millisecond or two."""

_WORDS_OF_A_TOOL = 100
"""A search by words alone costs about as much for a tool as so many entries of its row."""

_MOST_LOOKS = 5
"""How often a search looks again because rows were removed under it."""


class Searching:
    """Answers queries; see `Retriever` for arguments and errors.

    Args:
        scoring: How tools are scored.
        builder: Has the state.
        encoding: Gives vectors of queries; None for words alone.
        health: Says why an answer is lexical.
        index_breaker: The circuit of the index.
        settings: Limits and patience.
    """

    def __init__(
        self,
        scoring: Scoring,
        builder: Builder,
        encoding: Encoding | None,
        health: Health,
        index_breaker: Breaker,
        settings: RetrieverSettings,
    ) -> None:
        recipe = scoring.recipe
        self._scoring, self._builder, self._encoding = scoring, builder, encoding
        self._health, self._index_breaker, self._settings = health, index_breaker, settings
        self._cutoff = settings.cutoff or (recipe.cutoff if recipe else CutoffSettings())
        self._has_floor = settings.cutoff is None
        """A cut-off of one's own says alone what matches."""
        self._conversations = Conversations(
            most=settings.conversations, tools=settings.conversation_tools
        )

    def search(
        self,
        text: str,
        k: int | None,
        *,
        scope: str,
        conversation: str | None,
        deadline_s: float | None,
        sources: Collection[str] | None,
        may_be_nothing: bool,
        begun: VectorOnItsWay | None,
    ) -> Answer:
        """See `Retriever.search`."""
        began = time.perf_counter()
        check_text(text)
        if k is not None:
            check_k(k)
        if begun is None:
            queries = self._queries(text, scope, self._patience(deadline_s))
        else:
            queries = begun.outcome()
        looks = 0
        while True:
            looks += 1
            state, removals = self._builder.state, self._builder.removals
            floor = state.floor if may_be_nothing and self._has_floor else None
            found, mode, reason = self._found(state, text, queries, k, sources, floor)
            try:
                hits = self._hits(state, found, conversation, scope, sources)
            except IndexStoreError as e:
                queries = one_line(e)  # words need no index
                continue
            # Rows of an older state may have gone while it was searched.
            is_whole = state is self._builder.state or removals == self._builder.removals
            if is_whole or looks == _MOST_LOOKS:
                break
        return Answer(
            hits=hits,
            mode=mode,
            reason=reason,
            nothing_matches=found.nothing_matches,
            named=tuple(state.tools[row].id for row in found.named.tolist()),
            catalogue=state.snapshot.catalogue,
            took_ms=1000 * (time.perf_counter() - began),
        )

    def begin(self, text: str, scope: str, deadline_s: float | None) -> VectorOnItsWay | None:
        """See `Retriever.begin`."""
        check_text(text)
        patience = self._patience(deadline_s)
        if self._encoding is None or self._builder.state.corpus is None:
            return None
        begun = self._encoding.vectors.begin(text, scope, patience)
        return begun if isinstance(begun, VectorOnItsWay) else None

    @property
    def is_light(self) -> bool:
        """See `Retriever.is_light`."""
        state, index = self._builder.state, self._scoring.index
        tools = len(state.tools)
        if state.corpus is None or index is None:
            return tools * _WORDS_OF_A_TOOL <= _LIGHT
        return index.is_at_hand and tools * index.width <= _LIGHT

    def rank(
        self,
        text: str,
        tools: Sequence[Tool],
        k: int | None,
        *,
        scope: str,
        deadline_s: float | None,
    ) -> Answer:
        """See `Retriever.rank`."""
        began = time.perf_counter()
        check_text(text)
        if k is not None:
            check_k(k)
        digest = _digest_of(tools)
        patience = self._patience(deadline_s)
        queries = self._queries(text, scope, patience)
        scores, reason = None, queries if isinstance(queries, str) else None
        if self._encoding is not None and isinstance(queries, QueryProjections) and tools:
            given = self._encoding.given.scores(
                text, queries, tools, scope=scope, deadline_s=patience
            )
            scores, reason = (None, given) if isinstance(given, str) else (given, None)
        mode: Mode = "lexical" if scores is None else "dense"
        if scores is None:
            scores = scores_by_words(text, tools, self._scoring)
        rows, best = ranked(scores, k)
        return Answer(
            hits=tuple(
                Hit(tools[row], float(score)) for row, score in zip(rows, best, strict=True)
            ),
            mode=mode,
            reason=reason,
            nothing_matches=not len(rows),
            named=(),
            catalogue=digest,
            took_ms=1000 * (time.perf_counter() - began),
        )

    def _patience(self, deadline_s: float | None) -> float:
        if deadline_s is None:
            return self._settings.deadline_s
        if not deadline_s >= 0:
            msg = f"deadline_s must be >= 0, got {deadline_s!r:.80}"
            raise ConfigError(msg)
        return min(deadline_s, _LONGEST_S)

    def _queries(self, text: str, scope: str, patience: float) -> QueryProjections | str | None:
        """Projections of a query, or why there are none; None where words alone are asked for."""
        if self._encoding is None:
            return None
        return self._encoding.vectors.find(text, scope, patience)

    def _found(
        self,
        state: State,
        text: str,
        queries: QueryProjections | str | None,
        k: int | None,
        sources: Collection[str] | None,
        floor: Floor | None,
    ) -> tuple[Found, Mode, str | None]:
        reason = queries if isinstance(queries, str) else None
        if isinstance(queries, QueryProjections):
            found = self._found_by_vectors(state, text, queries, k, sources, floor)
            if isinstance(found, Found):
                return found, "dense", None
            reason = found
        count = self._settings.lexical_k if k is None else k
        return found_by_words(state, text, count, most=k, sources=sources), "lexical", reason

    def _found_by_vectors(
        self,
        state: State,
        text: str,
        queries: QueryProjections,
        k: int | None,
        sources: Collection[str] | None,
        floor: Floor | None,
    ) -> Found | str:
        index = self._scoring.index
        if state.corpus is None or index is None:
            return self._health.why_lexical(state) or "the tools are being embedded"
        if not self._index_breaker.allows():
            return self._index_breaker.reason or "the index failed"
        try:
            found = found_by_vectors(
                state,
                index,
                text,
                queries,
                k,
                cutoff=self._cutoff,
                floor=floor,
                depth=self._settings.candidates,
                sources=sources,
            )
        except IndexStoreError as e:
            if state is self._builder.state:
                self._index_breaker.failed(one_line(e))
                self._builder.refresh()  # rows may be lost, and are made again then
            return one_line(e)
        if not self._index_breaker.is_closed:
            self._index_breaker.succeeded()
        return found

    def _hits(
        self,
        state: State,
        found: Found,
        conversation: str | None,
        scope: str,
        sources: Collection[str] | None,
    ) -> tuple[Hit, ...]:
        rows, scores = found.rows, found.scores
        if conversation is not None:
            ids = [state.tools[row].id for row in rows.tolist()]
            row_of, allowed = state.snapshot.row_of, state.allowed(sources)

            def is_there(tool_id: str) -> bool:
                row = row_of.get(tool_id)
                return row is not None and (allowed is None or bool(allowed[row]))

            shown = self._conversations.show((scope, conversation), ids, is_there)
            rows = np.array([row_of[tool_id] for tool_id in shown], np.int64)
            scores = found.score_of(rows)
        return tuple(
            Hit(state.tools[row], float(score))
            for row, score in zip(rows.tolist(), scores, strict=True)
        )


def _digest_of(tools: Sequence[Tool]) -> str:
    try:
        return tools_digest(tools)
    except LineError as e:
        msg = f"tools must be readable as JSON, got {e}"
        raise DataError(msg) from e
