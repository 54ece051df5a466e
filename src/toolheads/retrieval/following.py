"""Follows a catalogue on the disk: a changed file is read as soon as it stands still."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from toolheads.catalogue import Catalogue, read_catalogue
from toolheads.data.datasets import TOOLS_FILE
from toolheads.domain import Tool
from toolheads.errors import ToolheadsError
from toolheads.retrieval.building import Wish
from toolheads.retrieval.encoder_watch import one_line

_log = logging.getLogger(__name__)

_Stamp = tuple[int, ...] | None
"""What tells one state of a file from another; None if it is not there."""

_STILL_SHARE = 0.25
"""Of the time between two looks: a file that has not changed for so long stands still."""

_MOST_WAITS = 16
"""A file that changes all the time is read after so many of these."""


class Follower:
    """Reads a catalogue again whenever its file changes, once it stands still.

    A reading that fails leaves what was read before; it is tried again once the file changes.

    Args:
        where: The folder, or a tools file.
        take: Takes over what was read; returns once it is served.
        poll_s: How often to look.
    """

    def __init__(
        self, where: str | os.PathLike[str], take: Callable[[Wish], object], *, poll_s: float
    ) -> None:
        self._where, self._take, self._poll_s = Path(where), take, poll_s
        self._known: dict[bytes, Tool] = {}
        self._seen: _Stamp = None
        self._stop = threading.Event()
        self.catalogue: Catalogue | None = None
        """What was read last without failing."""
        self.error: str | None = None
        """Why the last reading failed; None if it did not."""
        self.failures = 0
        """Readings that failed."""
        self._thread = threading.Thread(target=self._run, name="toolheads-follower", daemon=True)

    def start(self) -> None:
        """Read once, then follow."""
        self._read()
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def _run(self) -> None:
        last, waits = self._seen, 0
        still_s = self._poll_s * _STILL_SHARE
        while not self._stop.wait(self._poll_s if last == self._seen else still_s):
            stamp = self._stamp()
            if stamp == self._seen:
                last, waits = stamp, 0
            elif stamp == last or waits >= _MOST_WAITS:
                self._read()
                last, waits = self._seen, 0
            else:
                last, waits = stamp, waits + 1

    def _read(self) -> None:
        self._seen = self._stamp()
        try:
            catalogue = read_catalogue(self._where, known=self._known)
            self._take(Wish(catalogue.tools, catalogue.line_keys))
        except ToolheadsError as e:
            self.error = one_line(e) if not getattr(e, "faults", ()) else str(e).replace("\n", ";")
            self.failures += 1
            _log.warning("the tools stay as they are: %s", e)
            return
        except Exception as e:  # no reason to stop following
            self.error = one_line(e)
            self.failures += 1
            _log.exception("the tools stay as they are")
            return
        for fault in catalogue.faults:
            _log.warning("left out: %s", fault)
        self._known = dict(zip(catalogue.line_keys, catalogue.tools, strict=True))
        self.catalogue, self.error = catalogue, None

    def _stamp(self) -> _Stamp:
        file = self._where / TOOLS_FILE if self._where.is_dir() else self._where
        try:
            status = file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
