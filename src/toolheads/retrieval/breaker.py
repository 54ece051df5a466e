"""A circuit breaker: leaves a part alone that fails, and says when to try it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolheads.retrieval.answer import Circuit


class Breaker:
    """Counts failures in a row. Safe to share between threads; nothing waits under its lock.

    Closed, the part is in use. After `failures` in a row it opens: the part is left alone for
    `retry_s`, then one caller of `allows` may try it (half open). A success closes it; another
    failure opens it for twice as long.

    Args:
        failures: Failures in a row that open it.
        retry_s: Seconds before the first try.
        most_retry_s: The longest it waits for a try.
        clock: Seconds from any start.
    """

    def __init__(
        self,
        *,
        failures: int,
        retry_s: float,
        most_retry_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures, self._retry_s, self._most_retry_s = failures, retry_s, most_retry_s
        self._clock = clock
        self._mutex = threading.Lock()
        self._circuit: Circuit = "closed"
        self._in_a_row = 0
        self._wait_s = retry_s
        self._retry_at = 0.0
        self._reason: str | None = None
        self.total = 0
        """Failures since the start."""

    @property
    def circuit(self) -> Circuit:
        """Where it stands."""
        return self._circuit

    @property
    def is_closed(self) -> bool:
        """Whether the part is in use."""
        return self._circuit == "closed"

    @property
    def reason(self) -> str | None:
        """Of the last failure; None when all is well."""
        return self._reason

    @property
    def retry_in_s(self) -> float:
        """Seconds until it may be tried again; 0 when closed or due."""
        return 0.0 if self.is_closed else max(0.0, self._retry_at - self._clock())

    def allows(self) -> bool:
        """Whether the caller may use the part; of an open one, once when the time has come."""
        with self._mutex:
            if self._circuit == "closed":
                return True
            if self._circuit == "open" and self._clock() >= self._retry_at:
                self._circuit = "half_open"
                return True
            return False

    def worked(self) -> None:
        """A use of the part went well; an open one stays open, since it may have begun before."""
        if self._in_a_row:
            with self._mutex:
                if self._circuit == "closed":
                    self._in_a_row, self._reason = 0, None

    def succeeded(self) -> None:
        """A try of the part went well: it closes."""
        with self._mutex:
            self._circuit, self._in_a_row, self._reason = "closed", 0, None
            self._wait_s = self._retry_s

    def failed(self, reason: str, *, opens: bool = False) -> None:
        """The part does not work.

        Args:
            reason: One line.
            opens: Whether that is certain enough to open at once.
        """
        with self._mutex:
            self.total += 1
            self._in_a_row += 1
            self._reason = reason
            was_tried = self._circuit == "half_open"
            if self._circuit == "open":
                return  # a late failure of what began before
            if opens or was_tried or self._in_a_row >= self._failures:
                if was_tried:
                    self._wait_s = min(2 * self._wait_s, self._most_retry_s)
                self._circuit = "open"
                self._retry_at = self._clock() + self._wait_s

    def opened(self, reason: str) -> None:
        """Start out open and due: the part is to be tried before it is used."""
        with self._mutex:
            self._circuit, self._reason = "open", reason
            self._retry_at = self._clock()
