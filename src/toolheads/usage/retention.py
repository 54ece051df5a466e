"""How long a usage log is kept, and how large it may get. Whole days go, the oldest first."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from toolheads.errors import ConfigError
from toolheads.usage.files import day_of, usage_files


@dataclass(frozen=True)
class Retention:
    """What is kept."""

    days: int = 90
    """Days before today that are kept; 0 keeps all."""
    max_bytes: int = 1 << 30
    """Most bytes of all files together; 0 is no limit."""

    def __post_init__(self) -> None:
        for name in ("days", "max_bytes"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                msg = f"retention.{name} must be >= 0, got {value}"
                raise ConfigError(msg)


def prune(folder: str | os.PathLike[str], retention: Retention, today: date) -> int:
    """Remove the days that are not kept; never today.

    Args:
        folder: Of the log. One that is not there has nothing to remove.
        retention: What is kept.
        today: The day that events are written to, in UTC.

    Returns:
        Bytes that are left.

    Raises:
        OSError: If a file cannot be removed.
    """
    sizes: dict[Path, int] = {}
    for path in usage_files(folder):
        try:
            sizes[path] = path.stat().st_size
        except FileNotFoundError:  # another process prunes as well
            continue
    left = sum(sizes.values())
    first = today - timedelta(days=retention.days) if retention.days else date.min
    for path, size in sizes.items():  # by day
        day = day_of(path)
        is_over = bool(retention.max_bytes) and left > retention.max_bytes
        if day >= today or not (day < first or is_over):
            continue
        path.unlink(missing_ok=True)
        left -= size
    return left
