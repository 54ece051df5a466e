"""Runs one process and measures it from outside: wall time, CPU time, peak memory.

Standard library only, and the process that calls it must stay small: on Linux a child that has
just been forked shares its parent's memory, so its peak is never below the parent's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
_LOG_LINES = 15


class ProcessFailedError(RuntimeError):
    """A measured process ended with another exit code than 0."""


@dataclass(frozen=True)
class Measured:
    """What one process took, from its start to its end."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    """Largest resident set."""

    @property
    def peak_mb(self) -> float:
        """Largest resident set in megabytes (10^6 bytes)."""
        return self.peak_bytes / 1e6


def run(
    command: Sequence[str | Path], log: Path, *, environ: Mapping[str, str] | None = None
) -> Measured:
    """Run a command to its end; what it prints is appended to a log file.

    Raises:
        ProcessFailedError: With the end of the log.
    """
    words = [str(word) for word in command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(words)}\n")
        file.flush()
        began = time.perf_counter()
        process = subprocess.Popen(
            words, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **(environ or {})}
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        msg = f"{words[0]} ended with {process.returncode}, log {log}:\n" + "\n".join(lines)
        raise ProcessFailedError(msg)
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _MAXRSS_UNIT)
