"""Records events beside a running service: it never fails, never waits, and loses as little as can.

Events go through a bounded buffer to a thread that writes them. While the folder cannot be written
they stay in the buffer; once it can, each goes to the file of its own day.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path

from toolheads.errors import ConfigError
from toolheads.usage.digests import KeyedDigests
from toolheads.usage.events import Event
from toolheads.usage.files import UsageWriter
from toolheads.usage.retention import Retention, prune

MOST_WAITING = 100_000
"""Events in the buffer; when it is full, the oldest is lost."""

_PRUNE_EVERY_S = 60.0

_GATHER_S = 0.05
"""How long the thread gathers events: to be woken for each would slow what they are recorded of."""

_MOST_AT_ONCE = 1_000
"""Events that are written without a look at what else there is."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecorderStatus:
    """How the recording goes, since the start."""

    written: int
    waiting: int
    """Events in the buffer."""
    lost: int
    """Events that were never written: the buffer was full, the log too large, or time was up."""
    failures: int
    """Tries to write that failed."""
    error: str | None
    """Why the last try failed; None once one succeeds."""


class UsageRecorder:
    """Takes events and writes them in its own thread.

    Args:
        folder: Of the log; made when it is needed, again and again.
        keep_texts: Whether the texts of queries and arguments are written.
        retention: What is kept.
        most_waiting: Size of the buffer.
        retry_s: Seconds between tries to write.
        now: The time, in UTC.

    Raises:
        ConfigError: If the folder has a key file that holds no key.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep_texts: bool = False,
        retention: Retention | None = None,
        most_waiting: int = MOST_WAITING,
        retry_s: float = 0.5,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.folder, self.keeps_texts = Path(folder), keep_texts
        self._retention, self._retry_s, self._now = retention or Retention(), retry_s, now
        self._digests = KeyedDigests(self.folder)
        self._writer = UsageWriter(self.folder, keep_texts=keep_texts, make_folder=False)
        self._waiting: deque[Event] = deque()
        self._most_waiting = most_waiting
        self._written = self._lost = self._failures = 0
        self._error: str | None = None
        self._pruned, self._is_full = -_PRUNE_EVERY_S, False
        self._changed = threading.Condition()
        self._is_closing = False
        self._in_a_hurry = 0
        """Callers of `flush`."""
        self._thread = threading.Thread(target=self._work, name="toolheads-usage", daemon=True)
        self._thread.start()

    def record(self, event: Event) -> None:
        """Take an event. Returns at once, whatever the disk does."""
        with self._changed:
            if self._is_closing:
                self._lost += 1
                return
            if len(self._waiting) >= self._most_waiting:
                self._waiting.popleft()
                self._lost += 1
            self._waiting.append(event)
            if len(self._waiting) == 1:  # else the thread knows, and gathers
                self._changed.notify_all()

    def digest(self, kind: str, text: str) -> str:
        """See `KeyedDigests.of`."""
        return self._digests.of(kind, text)

    def status(self) -> RecorderStatus:
        """How it goes."""
        with self._changed:
            return RecorderStatus(
                self._written, len(self._waiting), self._lost, self._failures, self._error
            )

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is written; whether that is so."""
        with self._changed:
            self._in_a_hurry += 1
            self._changed.notify_all()
            is_done = self._changed.wait_for(lambda: not self._waiting, timeout_s)
            self._in_a_hurry -= 1
            return is_done

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, for as long as is given, and end."""
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waiting, timeout_s)
            left = len(self._waiting)
            self._waiting.clear()
            self._lost += left
            self._changed.notify_all()
        self._thread.join(timeout_s)
        if left:
            logger.error("lost %d usage events: %s", left, self._error or "no time to write them")

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                self._changed.wait_for(lambda: self._is_closing or self._in_a_hurry, _GATHER_S)
                events = list(islice(self._waiting, _MOST_AT_ONCE))
            left, failed = self._write(events)
            with self._changed:
                self._put_back(events, left)
                self._changed.notify_all()
                if failed is not None:
                    self._changed.wait_for(lambda: not self._waiting, self._retry_s)

    def _put_back(self, events: Sequence[Event], left: Sequence[Event]) -> None:
        """Take events off the head of the buffer, but for those that have to wait."""
        waits = {id(event) for event in left}
        still = []
        for event in events:
            # Unless the buffer ran over meanwhile, and lost it after it was written.
            if self._waiting and self._waiting[0] is event:
                self._waiting.popleft()
                if id(event) in waits:
                    still.append(event)
        self._waiting.extendleft(reversed(still))

    def _write(self, events: Sequence[Event]) -> tuple[Sequence[Event], str | None]:
        """Write events, or leave them out for good.

        Returns:
            Those that have to wait, and why; None where they need not for long.
        """
        left = list(events)
        try:
            self._prune()
            if self._is_full:
                for _ in events:
                    self._drop("the log is as large as it may get")
                return [], None
            if not self._digests.is_kept:
                self._digests.keep()
            lines = [(event, line) for event in events if (line := self._line(event))]
            left = [event for event, _ in lines]
            for name, of_file in groupby(lines, lambda one: self._writer.file_of(one[0])):
                of_day = [line for _, line in of_file]
                written = self._writer.append(name, of_day)
                self._written, left = self._written + written, left[written:]
                if written < len(of_day):  # the next try says why
                    return left, None
        except OSError as e:
            self._failures += 1
            if self._error is None:
                logger.warning("usage events wait, %s cannot be written: %s", self.folder, e)
            self._error = e.strerror or str(e)
            return left, self._error
        if self._error is not None:
            logger.warning("usage events are written again to %s", self.folder)
        self._error = None
        return left, None

    def _line(self, event: Event) -> bytes | None:
        try:
            return self._writer.line(event)
        except ConfigError as e:
            self._drop(str(e))
            return None

    def _drop(self, why: str) -> None:
        if not self._lost:
            logger.error("a usage event is lost: %s", why)
        self._lost += 1

    def _prune(self) -> None:
        if time.monotonic() - self._pruned < _PRUNE_EVERY_S:
            return
        self._pruned = time.monotonic()
        try:
            left = prune(self.folder, self._retention, self._now().date())
        except OSError as e:
            logger.warning("old days of %s cannot be removed: %s", self.folder, e)
            return
        most = self._retention.max_bytes
        self._is_full = bool(most) and left > most
