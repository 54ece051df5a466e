"""The one thread that makes states: takes over tools and rows, and swaps the state whole."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from toolheads.arrays import Floats
from toolheads.errors import IndexStoreError, ToolheadsError
from toolheads.retrieval.answer import Update
from toolheads.retrieval.building import Scoring, Wish, empty_state, rebuilt, with_rows
from toolheads.retrieval.encoder_watch import one_line
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.retrieval.state import Snapshot, State
from toolheads.retrieval.warm import Warm, read_warm, write_warm

_log = logging.getLogger(__name__)

_QUIET_S = 2.0
"""What makes the next start quick is written once nothing has changed for so long."""


class Builder:
    """Owns the state that searches read. A state that cannot be made leaves the old one.

    Args:
        scoring: How tools are scored.
        settings: How long rows of tools that are gone are kept.
        space: Names what rows and words are made of.
        warm_file: What makes a start quick; None for none.
        owns_index: Whether the index holds rows of this catalogue alone. From one that others use
            too, only rows of tools that were served are removed.
        on_state: Called, in the builder's thread, when there is a new state.
    """

    def __init__(
        self,
        scoring: Scoring,
        settings: RetrieverSettings,
        *,
        space: str,
        warm_file: Path | None,
        owns_index: bool,
        on_state: Callable[[], None],
    ) -> None:
        self._scoring, self._settings = scoring, settings
        self._space, self._warm_file = space, warm_file
        self._owns_index, self._on_state = owns_index, on_state
        self.state = empty_state(scoring)
        """What is served."""
        self.removals = 0
        """How often rows were removed: a search over an older state may have missed some."""
        self.updated_at: float | None = None
        """When tools were last taken over, in seconds since 1970."""
        self.error: str | None = None
        """Why rows could not be taken over; None when all is well."""
        self.probe: Floats | None = None
        """(p, d) float32, probe vectors of the encoder that made the rows, where known."""
        self._base = self.state
        """What the first state is made from: that of an earlier run."""
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._wish: tuple[Wish, list[Future[Update]]] | None = None
        self._has_rows = False
        self._is_closed = False
        self._orphans: dict[str, float] = {}
        """Key of a row of no tool → since when."""
        self._save_at: float | None = None
        self._retry_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="toolheads-builder", daemon=True)

    def start(self) -> None:
        """Take up what an earlier run left, and start."""
        if self._warm_file is not None:
            warm = read_warm(self._warm_file, self._space, self._scoring.lexical.settings)
            if warm is not None:
                empty = empty_state(self._scoring)
                self._base = empty.with_corpus(warm.snapshot, None, 0)
                self.probe = warm.probe
        self._thread.start()

    def ask(self, wish: Wish) -> Future[Update]:
        """Serve other tools; done when searches see them. Of several wishes the last counts."""
        future: Future[Update] = Future()
        with self._changed:
            waiting = self._wish[1] if self._wish else []
            self._wish = wish, [*waiting, future]
            self._changed.notify_all()
        return future

    def refresh(self) -> None:
        """Look again which rows there are."""
        with self._changed:
            self._has_rows = True
            self._changed.notify_all()

    def write(self, keys: Sequence[str], rows: Floats) -> None:
        """Add rows to the index.

        Raises:
            IndexStoreError: If that fails, or the builder is closed.
        """
        if self._scoring.index is not None:
            with self._writing:
                if self._is_closed:
                    msg = "the retriever must be open to write rows, got a closed one"
                    raise IndexStoreError(msg)
                self._scoring.index.apply(keys, rows)

    def close(self) -> None:
        """Stop, and write what makes the next start quick."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout=30.0)
        with self._writing:
            pass  # rows that are being written are whole now, and no more come
        if self._save_at is not None:
            self._save()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_asked, timeout=self._idle_s())
                if self._is_closed:
                    break
                wish, self._wish = self._wish, None
                has_rows, self._has_rows = self._has_rows, False
            try:
                self._do(wish, has_rows=has_rows)
            except Exception as e:  # an adapter's own: the thread goes on, and tries again
                _log.exception("the tools could not be made ready")
                self._failed(e)
                for future in wish[1] if wish else ():
                    if not future.done():
                        future.set_exception(e)
        for future in self._wish[1] if self._wish else []:
            future.cancel()

    def _do(self, wish: tuple[Wish, list[Future[Update]]] | None, *, has_rows: bool) -> None:
        if wish is not None:
            self._rebuild(*wish)
        is_due = self._retry_at is not None and time.monotonic() >= self._retry_at
        if has_rows or is_due:
            self._swap(self._with_rows(self.state, self.state.snapshot))
        self._remove_orphans()
        if self._save_at is not None and time.monotonic() >= self._save_at:
            self._save()

    def _failed(self, error: Exception) -> None:
        self.error, self._retry_at = one_line(error), time.monotonic() + self._settings.retry_s

    def _is_asked(self) -> bool:
        return self._wish is not None or self._has_rows or self._is_closed

    def _idle_s(self) -> float | None:
        due = [at for at in (self._save_at, self._retry_at) if at is not None]
        due += [since + self._settings.keep_rows_s for since in self._orphans.values()]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _rebuild(self, wish: Wish, waiting: Sequence[Future[Update]]) -> None:
        try:
            state, update = rebuilt(self._base, wish, self._scoring)
        except ToolheadsError as e:
            for future in waiting:
                future.set_exception(e)
            return
        self._swap(self._with_rows(state, self._base.snapshot))
        self.updated_at = time.time()
        for future in waiting:
            future.set_result(update)

    def _with_rows(self, state: State, before: Snapshot) -> State:
        """The state with its rows; as it is, for words alone, while the index fails."""
        try:
            full = with_rows(state, before, self._scoring)
        except IndexStoreError as e:
            self._failed(e)
            _log.warning("rows could not be taken over: %s", e)
            return state
        except Exception as e:  # an adapter's own: words answer meanwhile, as above
            self._failed(e)
            _log.exception("rows could not be taken over")
            return state
        self.error, self._retry_at = None, None
        return full

    def _swap(self, state: State) -> None:
        before, self.state, self._base = self._base, state, state
        self._note_orphans(before, state)
        if self._warm_file is not None:
            self._save_at = time.monotonic() + _QUIET_S
        self._on_state()

    def _note_orphans(self, before: State, state: State) -> None:
        index = self._scoring.index
        if index is None:
            return
        try:
            known = index.keys() if self._owns_index else {*before.snapshot.keys, *self._orphans}
        except Exception as e:  # they are noted with the next state
            _log.warning("rows of tools that are gone could not be looked up: %s", one_line(e))
            return
        now = time.monotonic()
        left = known - frozenset(state.snapshot.keys)
        self._orphans = {key: self._orphans.get(key, now) for key in left}

    def _remove_orphans(self) -> None:
        now, index = time.monotonic(), self._scoring.index
        old = {k for k, since in self._orphans.items() if now - since >= self._settings.keep_rows_s}
        old -= set(self.state.snapshot.keys)
        if not old or index is None:
            return
        for key in old:
            del self._orphans[key]
        # Before they are gone: a search that began earlier looks again.
        self.removals += 1
        try:
            with self._writing:
                index.apply([], np.empty((0, index.width), np.float32), old)
        except IndexStoreError as e:
            _log.warning("rows of tools that are gone were not removed: %s", e)

    def _save(self) -> None:
        self._save_at = None
        if self._warm_file is None or not self.state.tools:
            return
        try:
            write_warm(self._warm_file, Warm(self.state.snapshot, self.probe), self._space)
        except OSError as e:
            _log.warning("%s was not written: %s", self._warm_file, e)
