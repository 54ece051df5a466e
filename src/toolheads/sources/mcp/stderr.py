"""The last words of a server: what it wrote to its standard error, bounded."""

from __future__ import annotations

import os
import threading
from typing import TextIO

_KEPT_BYTES = 4096
_SHOWN_LINES = 5
_PIECE = 65536


class StderrTail:
    """Reads what a process writes to standard error and keeps the end of it.

    `stream` is what the process gets. A thread reads, since a pipe that nobody reads stops the
    process that writes to it.
    """

    def __init__(self) -> None:
        self._read, write = os.pipe()
        self.stream: TextIO = os.fdopen(write, "w", encoding="utf-8")
        self._tail = b""
        self._thread = threading.Thread(target=self._drain, name="mcp-stderr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the reader end with the process; called once the process has the stream."""
        self.stream.close()

    @property
    def is_complete(self) -> bool:
        """Whether all who could write have ended, and all they wrote was read."""
        return not self._thread.is_alive()

    def text(self) -> str:
        """The last lines in one, joined by ` | `; empty if there was none."""
        lines = self._tail.decode(errors="replace").splitlines()
        plain = ("".join(c if c.isprintable() else " " for c in line).strip() for line in lines)
        return " | ".join([line for line in plain if line][-_SHOWN_LINES:])

    def _drain(self) -> None:
        try:
            while piece := os.read(self._read, _PIECE):
                self._tail = (self._tail + piece)[-_KEPT_BYTES:]
        finally:
            os.close(self._read)
