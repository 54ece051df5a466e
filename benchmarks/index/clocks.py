"""CPU time of searches and builds, in this process and in a database on this machine.

A machine may be shared, so wall time says little about an index.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Clock:
    """Seconds of CPU time of this process.

    Args:
        backend: Process id of one of the backends of a database on this machine, whose time counts
            as well; None for no database.
    """

    def __init__(self, backend: int | None = None) -> None:
        self._server = _parent(backend) if backend is not None else None
        self._backends: list[Path] = []

    def search(self) -> float:
        """Of the calling thread, and of the database's backends; to the microsecond."""
        if self._server is not None and not self._backends:
            self._backends = [Path(f"/proc/{pid}/schedstat") for pid in self._children()]
        return time.thread_time() + sum(_on_cpu(path) for path in self._backends)

    def build(self) -> float:
        """Of all threads, and of all processes of the database, also of those that ended."""
        if self._server is None:
            return time.process_time()
        pids = [self._server, *self._children()]
        return time.process_time() + sum(sum(_ticks(pid)) / _TICKS for pid in pids)

    def _children(self) -> Iterator[int]:
        for path in Path("/proc").iterdir():
            if path.name.isdigit() and _parent(int(path.name)) == self._server:
                yield int(path.name)


def _on_cpu(path: Path) -> float:
    try:
        return int(path.read_text().split()[0]) / 1e9
    except OSError:  # a backend that ended
        return 0.0


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["?", "0"] + ["0"] * 50


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _ticks(pid: int) -> list[int]:
    """User and system time, own and of children that ended."""
    return [int(value) for value in _stat(pid)[11:15]]
