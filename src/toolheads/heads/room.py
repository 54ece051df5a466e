"""Room that one head works in, block after block."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from toolheads.heads.architecture import Architecture
from toolheads.heads.gelu import AT_ONCE

PIECE = AT_ONCE
"""Most entries of a block that are finished together, if a row has no more."""


class Room:
    """Arrays that all blocks go through, so that the memory of each is touched once.

    Fresh memory costs the operating system as much for a page as some steps over it. Not to be
    shared between threads at one time.

    Args:
        architecture: Of the head.
        rows: Of the largest block.
        turn: Held for the steps over entries, between products; None is no matter. Each step lets
            another thread run, and must then wait for it: threads that share few turns do such
            steps while others multiply, and hardly wait.
    """

    def __init__(
        self,
        architecture: Architecture,
        rows: int,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        self.turn = turn or nullcontext()
        sides, width = architecture.hidden, architecture.width
        self.hidden = [np.empty((rows, side), np.float32) for side in sides]
        """(rows, h) for each hidden layer."""
        self.learned = np.empty((rows, width), np.float32)
        """(rows, d) of what comes out of the last product."""
        steps = min(AT_ONCE, rows * max(sides, default=0))
        piece = max(width, min(PIECE, rows * width))
        self.shared = np.empty(max(2 * steps, piece), np.float32)
        """To work in, for whatever is done piece by piece."""
        self.two = self.shared[: 2 * steps].reshape(2, steps)
        """The same, as two rows."""
