"""The progress bar of everything that embeds; on stderr, so that results can be piped."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from toolheads.errors import import_extra

_AT_ONCE_S = 0.5


class ProgressBar:
    """Shows texts done, texts/s and time left; pass it to `Embedder` as `progress`.

    A terminal is redrawn often; a log file gets a line now and then. What is done at once needs
    no bar and gets none.
    """

    def __init__(self) -> None:
        self._tqdm = import_extra("tqdm", user="the progress bar", extra="cache").tqdm
        self._bar: Any = None
        self._is_closed = False

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` texts are embedded; 0 starts a new bar."""
        if done == 0:
            self._end()
            if total and not self._is_closed:
                self._bar = self._tqdm(
                    total=total,
                    desc="embedding",
                    unit=" texts",
                    file=sys.stderr,
                    dynamic_ncols=True,
                    delay=_AT_ONCE_S,
                    mininterval=0.2 if sys.stderr.isatty() else 10.0,
                )
        elif self._bar is not None:
            self._bar.update(done - self._bar.n)
            if done == total:
                self._end()

    def close(self) -> None:
        """Leave the bar as it stands, and show no other."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
