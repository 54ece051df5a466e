"""The vectors of queries: from the cache, or from the encoder within a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial

from toolheads.errors import EncoderError
from toolheads.retrieval.encoder_watch import EncoderWatch, one_line
from toolheads.retrieval.query_cache import CacheSize, Key, QueryCache
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.retrieval.workers import Workers
from toolheads.scorers.exact import QueryProjections
from toolheads.scorers.recipe import Recipe

_EARLY_S = 0.001
"""Timers may end a wait a moment early."""


class VectorOnItsWay:
    """The vector of one query that the encoder was asked for.

    Args:
        future: What the encoder will have given.
        deadline_s: Longest wait for it, from now.
        patience_s: A wait of so long that ends without a vector is a failure of the encoder.
        watch: Is told of that.
    """

    def __init__(
        self,
        future: Future[QueryProjections],
        deadline_s: float,
        patience_s: float,
        watch: EncoderWatch,
    ) -> None:
        self._future, self._patience_s, self._watch = future, patience_s, watch
        self._deadline_s, self._began = deadline_s, time.monotonic()

    @property
    def left_s(self) -> float:
        """Seconds that are left to wait."""
        return max(0.0, self._began + self._deadline_s - time.monotonic())

    def when_done(self, call: Callable[[], object]) -> None:
        """Call this once the encoder has answered or failed, in any thread; at once if it has."""
        self._future.add_done_callback(lambda _: call())

    def wait(self) -> None:
        """Wait until it is there, for as long as may be."""
        with suppress(TimeoutError, CancelledError):
            self._future.exception(timeout=self.left_s)

    def outcome(self) -> QueryProjections | str:
        """What there is now: the projections, or in one line why there are none."""
        future = self._future
        if not future.done() and future.cancel():
            return f"the encoder was busy with other queries for {self._deadline_s:g} s"
        if future.cancelled():
            return "the encoder was busy with other queries"
        if future.done():
            error = future.exception()
            return one_line(error) if error is not None else future.result()
        reason = f"the encoder gave no vector within {self._deadline_s:g} s"
        if time.monotonic() - self._began >= self._patience_s - _EARLY_S:
            self._watch.failed(reason)
        return reason


class QueryVectors:
    """Projects queries in threads of its own, so that an encoder that hangs holds up no caller.

    Args:
        recipe: How queries are projected.
        watch: Says whether the encoder can be used, and is told of failures.
        settings: Deadline, workers and bounds of the cache.
    """

    def __init__(self, recipe: Recipe, watch: EncoderWatch, settings: RetrieverSettings) -> None:
        self._recipe, self._watch, self._settings = recipe, watch, settings
        self._cache = QueryCache(entries=settings.cached_queries, size_bytes=settings.cached_bytes)
        self._workers = self._made_workers()
        self._mutex = threading.Lock()
        self._running: dict[Key, Future[QueryProjections]] = {}

    @property
    def cached(self) -> CacheSize:
        """How much the cache holds."""
        return self._cache.size

    def is_quick(self, text: str, scope: str) -> bool:
        """Whether `find` would not wait."""
        return not self._watch.is_usable or (scope, text) in self._cache

    def find(self, text: str, scope: str, deadline_s: float) -> QueryProjections | str:
        """The projections of one query, or in one line why there are none.

        Args:
            text: The query, valid Unicode.
            scope: Whose it is.
            deadline_s: Longest wait; 0 looks into the cache alone.
        """
        found = self.begin(text, scope, deadline_s)
        if not isinstance(found, VectorOnItsWay):
            return found
        found.wait()
        return found.outcome()

    def begin(
        self, text: str, scope: str, deadline_s: float
    ) -> QueryProjections | str | VectorOnItsWay:
        """As `find`, but what has to be waited for is given back before it is there."""
        # While the encoder has other weights, or none can say, what it gave before is not used.
        if not self._watch.is_usable and self._watch.embedder is None:
            return self._watch.breaker.reason or "the encoder is being started"
        key = scope, text
        cached = self._cache.find(key)
        if cached is not None:
            return cached
        if not self._watch.is_usable:
            return self._watch.breaker.reason or "the encoder failed"
        if deadline_s <= 0:
            return "the query is not cached and may not wait for the encoder"
        future = self._started(key)
        if future is None:
            return f"{self._settings.waiting} queries wait for the encoder"
        return VectorOnItsWay(future, deadline_s, self._settings.deadline_s, self._watch)

    def forget(self) -> None:
        """Drop all vectors: other weights made them."""
        self._cache.clear()

    def renew(self) -> None:
        """Take other threads: those at hand may still hang in what the encoder did before."""
        with self._mutex:
            old, self._workers = self._workers, self._made_workers()
        old.close()

    def close(self) -> None:
        """Take no more queries."""
        with self._mutex:
            self._workers.close()

    def _made_workers(self) -> Workers[QueryProjections]:
        settings = self._settings
        return Workers("toolheads-query", workers=settings.workers, waiting=settings.waiting)

    def _started(self, key: Key) -> Future[QueryProjections] | None:
        """The call for one query; the same query is embedded once at a time."""
        with self._mutex:
            running = self._running.get(key)
            if running is not None and not running.cancelled():
                return running
            future = self._workers.submit(partial(self._project, key))
            if future is not None:
                self._running[key] = future
        if future is not None:
            future.add_done_callback(partial(self._ended, key))
        return future

    def _project(self, key: Key) -> QueryProjections:
        embedder = self._watch.embedder
        if embedder is None:
            raise EncoderError("the encoder is being started")
        queries = self._recipe.queries(embedder, [key[1]])
        self._cache.keep(key, queries)
        return queries

    def _ended(self, key: Key, future: Future[QueryProjections]) -> None:
        with self._mutex:
            if self._running.get(key) is future:
                del self._running[key]
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._watch.breaker.worked()
        else:
            self._watch.failed(one_line(error))
