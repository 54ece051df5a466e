"""The vectors of queries: from the cache, or from the encoder within a deadline."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future
from functools import partial

from toolheads.errors import EncoderError
from toolheads.retrieval.encoder_watch import EncoderWatch, one_line
from toolheads.retrieval.query_cache import CacheSize, Key, QueryCache
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.retrieval.workers import Workers
from toolheads.scorers.exact import QueryProjections
from toolheads.scorers.recipe import Recipe


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
        began = time.monotonic()
        future = self._started(key)
        if future is None:
            return f"{self._settings.waiting} queries wait for the encoder"
        try:
            error = future.exception(timeout=deadline_s)
        except TimeoutError:
            if future.cancel():
                return f"the encoder was busy with other queries for {deadline_s:g} s"
            reason = f"the encoder gave no vector within {deadline_s:g} s"
            if time.monotonic() - began >= self._settings.deadline_s:
                self._watch.failed(reason)
            return reason
        except CancelledError:
            return "the encoder was busy with other queries"
        return one_line(error) if error is not None else future.result()

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
