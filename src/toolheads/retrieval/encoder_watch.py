"""Whether the encoder can be used: tried at the start, after failures, and now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from toolheads.arrays import Floats
from toolheads.embedder import Embedder
from toolheads.errors import ToolheadsError
from toolheads.identity import PROBE_TEXTS
from toolheads.retrieval.breaker import Breaker
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.retrieval.workers import Workers

_log = logging.getLogger(__name__)

_LEAST_PATIENCE_S = 10.0
"""How long a try may take at least before it counts as a failure."""

_TRIES_AT_ONCE = 4
"""Tries that may hang at once; then the next waits until one of them ends."""


class EncoderWatch:
    """Keeps the circuit of an encoder: queries use it when it is closed.

    Only the watch, in a thread of its own, closes one that opened: no query waits for a try.

    A try makes the encoder if need be, embeds the probe texts, and compares their vectors with
    what they should be: an encoder that answers with other weights is as good as none.

    Args:
        make: Gives the embedder for queries; called until it succeeds, in the watch's threads.
        check: Refuses probe vectors, (p, d) float32, of other weights.
        settings: How patient it is.
        on_ready: Called, in the watch's thread, whenever the circuit closes.
        on_other_weights: Called when the weights are others.
    """

    def __init__(
        self,
        make: Callable[[], Embedder],
        check: Callable[[Floats], None],
        settings: RetrieverSettings,
        *,
        on_ready: Callable[[], None],
        on_other_weights: Callable[[], None],
    ) -> None:
        self._make, self._check, self._settings = make, check, settings
        self._on_ready, self._on_other_weights = on_ready, on_other_weights
        self.breaker = Breaker(
            failures=settings.failures,
            retry_s=settings.retry_s,
            most_retry_s=settings.most_retry_s,
        )
        self.breaker.opened("the encoder is being started")
        self.embedder: Embedder | None = None
        """What queries are embedded with, once the first try went well."""
        self.tries = 0
        """Tries that came to an end."""
        self._workers: Workers[Floats] = Workers(
            "toolheads-encoder-try", workers=_TRIES_AT_ONCE, waiting=1
        )
        self._wake = threading.Event()
        self._is_closed = False
        self._patience_s = max(_LEAST_PATIENCE_S, 2 * settings.deadline_s)
        self._thread = threading.Thread(
            target=self._run, name="toolheads-encoder-watch", daemon=True
        )

    @property
    def is_usable(self) -> bool:
        """Whether queries may use the encoder."""
        return self.breaker.is_closed

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def failed(self, reason: str) -> None:
        """Tell of a failure; the encoder is tried at once in the background."""
        self.breaker.failed(reason)
        self._wake.set()

    def close(self) -> None:
        """Stop watching; a try that hangs is left to end with the process."""
        self._is_closed = True
        self._wake.set()
        self._workers.close()
        self._thread.join(timeout=0.2)

    def _run(self) -> None:
        tried_at = -float("inf")
        while not self._is_closed:
            if self.breaker.is_closed:
                was_woken = self._wake.wait(self._settings.check_every_s)
                # A query that the encoder refuses must not have it tried at every turn.
                if was_woken and not self._is_closed:
                    self._pause(tried_at + self._settings.retry_s - time.monotonic())
            else:
                self._pause(self.breaker.retry_in_s)
            if self._is_closed:
                return
            self._wake.clear()
            if self.breaker.allows():
                self._try()
                tried_at = time.monotonic()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_closed and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def _try(self) -> None:
        future = self._workers.submit(self._attempt)
        if future is None:
            self._open("earlier calls of the encoder still hang")
            return
        try:
            error = future.exception(timeout=self._patience_s)
        except TimeoutError:
            future.cancel()
            self._open(f"the encoder gave no answer within {self._patience_s:g} s")
            return
        except CancelledError:
            return
        if error is None:
            error = self._refused(future.result())
        self.tries += 1
        if error is not None:
            self._open(one_line(error))
            return
        was_closed = self.breaker.is_closed
        self.breaker.succeeded()
        if not was_closed:
            self._on_ready()

    def _attempt(self) -> Floats:
        if self.embedder is None:
            self.embedder = self._make()
        return self.embedder.embed(PROBE_TEXTS, keep=False)

    def _refused(self, probe: Floats) -> ToolheadsError | None:
        try:
            self._check(probe)
        except ToolheadsError as e:
            self._on_other_weights()
            return e
        return None

    def _open(self, reason: str) -> None:
        if self.breaker.is_closed or self.breaker.total == 0:
            _log.warning("tools are found by their words alone: %s", reason)
        self.breaker.failed(reason, opens=True)


def one_line(error: BaseException) -> str:
    """What an error says, as one line that names its kind unless it is one of ours."""
    said: Any = str(error).strip().splitlines()
    first = said[0] if said else ""
    return (
        first if isinstance(error, ToolheadsError) and first else f"{type(error).__name__}: {first}"
    )
