"""How the parts of a retriever are, in one line each."""

from __future__ import annotations

from toolheads.retrieval.answer import Status
from toolheads.retrieval.breaker import Breaker
from toolheads.retrieval.builder import Builder
from toolheads.retrieval.encoding import Encoding
from toolheads.retrieval.following import Follower
from toolheads.retrieval.query_cache import CacheSize
from toolheads.retrieval.state import State


class Health:
    """Says how a retriever is; never waits.

    Args:
        scorer: Its name.
        builder: Makes states.
        encoding: What uses the encoder; None for words alone.
        index: The circuit of the index.
    """

    def __init__(
        self, scorer: str, builder: Builder, encoding: Encoding | None, index: Breaker
    ) -> None:
        self._scorer, self._builder = scorer, builder
        self._encoding, self._index = encoding, index

    def why_lexical(self, state: State) -> str | None:
        """Why the next new query would be answered by words; None if it would not."""
        if self._encoding is None:
            return None
        breaker = self._encoding.watch.breaker
        if not breaker.is_closed:
            return breaker.reason or "the encoder failed"
        if state.corpus is None and state.tools:
            going = f"the tools are being embedded, {state.pending} of {len(state.tools)} to go"
            return self._builder.error or going
        if not self._index.is_closed:
            return self._index.reason or "the index failed"
        return None

    def trouble(self) -> str | None:
        """What is worse than it should be; None if nothing is."""
        if self._builder.error or not self._index.is_closed:
            return self._builder.error or self._index.reason
        return self._encoding.trouble if self._encoding is not None else None

    def status(self, follower: Follower | None) -> Status:
        """All of it."""
        state, builder, encoding = self._builder.state, self._builder, self._encoding
        reason, trouble = self.why_lexical(state), self.trouble()
        error = follower.error if follower else None
        cached = encoding.vectors.cached if encoding else CacheSize(0, 0)
        return Status(
            ready=builder.updated_at is not None,
            mode="lexical" if encoding is None or reason is not None else "dense",
            degraded=bool(trouble or error),
            reason=trouble or error or reason,
            scorer=self._scorer,
            tools=len(state.tools),
            pending=state.pending,
            catalogue=state.snapshot.catalogue,
            circuit=encoding.watch.breaker.circuit if encoding else "closed",
            encoder_failures=encoding.watch.breaker.total if encoding else 0,
            reload_error=error,
            reload_failures=follower.failures if follower else 0,
            reloaded_at=builder.updated_at,
            faults=len(follower.catalogue.faults) if follower and follower.catalogue else 0,
            floor=None if state.floor is None else state.floor.score,
            cached_queries=cached.entries,
            cached_bytes=cached.size_bytes,
        )
