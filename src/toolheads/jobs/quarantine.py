"""The file that bad input lines go to, each with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

from toolheads.jobs.inputs import Line


class Quarantine:
    """Writes a line of JSON for each input line that was left out; no file when none was.

    Args:
        path: The file; one of an earlier run is replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file: BinaryIO | None = None
        path.unlink(missing_ok=True)

    def add(self, line: Line, reason: str) -> None:
        """Put a line away."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("wb")
        shown = line.shown or (line.tool.id if line.tool else "")
        record = {"path": str(line.path), "line": line.number, "reason": reason, "text": shown}
        self._file.write(json.dumps(record, ensure_ascii=True).encode() + b"\n")
        self.count += 1

    def close(self) -> None:
        """Write what is left."""
        if self._file is not None:
            self._file.close()
