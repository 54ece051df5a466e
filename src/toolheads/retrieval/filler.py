"""Embeds the tools that have no row yet, in a thread of its own, which may hang."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import (
    BackboneMismatchError,
    CacheError,
    EncoderError,
    IndexStoreError,
    ShapeError,
)
from toolheads.retrieval.building import Scoring
from toolheads.retrieval.encoder_watch import EncoderWatch, one_line
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.retrieval.state import State

_log = logging.getLogger(__name__)

_FIRST_TOOLS = 16
"""Tools of the first call of the encoder; later calls grow or shrink with its speed."""

_SHORT_CALL_S, _LONG_CALL_S = 0.5, 2.0

_APPLY_S = 2.0
"""Rows are written, and found, after this much time at the latest."""


class Filler:
    """Adds missing rows to the index, as long as the encoder can be used.

    A tool that the encoder refuses, although it can be used, is left out and named in the log.

    Args:
        scoring: How rows are made.
        watch: Of the encoder.
        settings: How patient it is.
        state: Gives the state that is served.
        cache: Folder that keeps vectors of tools; None embeds them anew.
        write: Writes keys and rows to the index.
        on_rows: Called when there are more rows.
    """

    def __init__(
        self,
        scoring: Scoring,
        watch: EncoderWatch,
        settings: RetrieverSettings,
        *,
        state: Callable[[], State],
        cache: Path | None,
        write: Callable[[Sequence[str], Floats], None],
        on_rows: Callable[[], None],
    ) -> None:
        self._scoring, self._watch, self._settings = scoring, watch, settings
        self._state, self._cache = state, cache
        self._write, self._on_rows = write, on_rows
        self._wake = threading.Event()
        self._is_closed = False
        self._embedder: Embedder | None = None
        self._batch = _FIRST_TOOLS
        self.refused: frozenset[str] = frozenset()
        """Keys of tools that cannot be embedded."""
        self._suspect: str | None = None
        """Key of a tool that failed alone, although the encoder could be used afterwards."""
        self.error: str | None = None
        """Why the last rows could not be made or written; None when all is well."""
        self._thread = threading.Thread(target=self._run, name="toolheads-filler", daemon=True)

    def start(self) -> None:
        """Start filling."""
        self._thread.start()

    def wake(self) -> None:
        """Tell that there may be something to do."""
        self._wake.set()

    def close(self) -> None:
        """Stop; a call of the encoder that hangs is left to end with the process."""
        self._is_closed = True
        self._wake.set()
        self._thread.join(timeout=0.2)

    def missing(self, state: State) -> dict[str, Tool]:
        """Key → a tool of that key, of tools without a row that are not refused."""
        done = state.snapshot.embedded | self.refused
        keyed = zip(state.snapshot.keys, state.tools, strict=True)
        return {key: tool for key, tool in keyed if key and key not in done}

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._is_closed:
                return
            try:
                while self._may_fill() and self._filled():
                    pass
            except Exception as e:  # an adapter's own: the thread goes on, and tries again
                self.error = one_line(e)
                _log.exception("tools are not embedded for now")
                self._pause(self._settings.retry_s)
                self._wake.set()

    def _may_fill(self) -> bool:
        return self._watch.is_usable and not self._is_closed

    def _filled(self) -> bool:
        """Make some rows; whether there may be more to do at once."""
        index = self._scoring.index
        there = index.keys() if index is not None else frozenset()
        wanted = self.missing(self._state())
        missing = {key: tool for key, tool in wanted.items() if key not in there}
        if not missing:
            self.error = None
            if wanted:  # they were made for an earlier state
                self._on_rows()
            return False
        keys, rows = [], []
        began = time.monotonic()
        error: EncoderError | None = None
        left, batch = list(missing), list[str]()
        while left and not self._is_closed and time.monotonic() - began < _APPLY_S:
            batch, left = left[: self._batch], left[self._batch :]
            try:
                rows.append(self._rows([missing[key] for key in batch]))
            except EncoderError as e:
                error = e
                break
            except Exception as e:  # an encoder's own: the next try may do better
                _log.exception("tools were not embedded")
                error = EncoderError(one_line(e))
                break
            keys += batch
        if keys:
            rows = [np.concatenate(rows)]  # not held twice while they are written
            if self._written(keys, rows.pop()):
                self.error = None
                self._on_rows()
        if error is not None:
            self._failed(batch, error)
            return True
        # The state has the new rows only once the builder took them over; it wakes this thread.
        return False

    def _written(self, keys: Sequence[str], rows: Floats) -> bool:
        """Write rows as soon as the index takes them; False if this was closed before."""
        wait_s = self._settings.retry_s
        while not self._is_closed:
            try:
                self._write(keys, rows)
            except IndexStoreError as e:
                self.error = one_line(e)
                _log.warning("rows of %d tools are not written yet: %s", len(keys), e)
                self._pause(wait_s)
                wait_s = min(2 * wait_s, self._settings.most_retry_s)
            else:
                return True
        return False

    def _rows(self, tools: Sequence[Tool]) -> Floats:
        recipe = self._scoring.recipe
        assert recipe is not None, "words alone need no rows"
        began = time.monotonic()
        try:
            rows = recipe.rows(self._made_embedder(), tools)
        except (CacheError, BackboneMismatchError, ShapeError) as e:
            if self._cache is None:
                raise EncoderError(one_line(e)) from e
            _log.warning("vectors of tools are embedded without a cache: %s", e)
            self._cache, self._embedder = None, None
            rows = recipe.rows(self._made_embedder(), tools)
        took = time.monotonic() - began
        if took < _SHORT_CALL_S:
            self._batch = min(4096, 2 * self._batch)
        elif took > _LONG_CALL_S:
            self._batch = max(1, self._batch // 2)
        return rows

    def _made_embedder(self) -> Embedder:
        if self._embedder is None:
            of_queries = self._watch.embedder
            if of_queries is None:
                raise EncoderError("the encoder is being started")
            self._embedder = Embedder(of_queries.encoder, of_queries.texts, self._cache)
        return self._embedder

    def _failed(self, batch: Sequence[str], error: EncoderError) -> None:
        self.error = one_line(error)
        tries = self._watch.tries
        self._watch.failed(self.error)
        while not self._is_closed and self._watch.tries == tries:
            self._pause(0.05)
        if not self._watch.is_usable:
            return
        # It works for others: one of these texts is at fault, or the encoder was away for a while.
        if len(batch) == 1:
            if self._suspect == batch[0]:
                self.refused |= set(batch)
                _log.warning("a tool is found by its words alone: %s", self.error)
                self._on_rows()
            self._suspect = batch[0]
        self._batch = max(1, len(batch) // 2)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_closed and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
