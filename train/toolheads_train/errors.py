"""Errors that only training raises; all are `ToolheadsError`s, so one handler sees them.

* ToolheadsError
  + NotFiniteError  (also ArithmeticError)  a vector, loss or weight became NaN or infinite
"""

from __future__ import annotations

from toolheads.errors import ToolheadsError


class NotFiniteError(ToolheadsError, ArithmeticError):
    """Training met NaN or infinity and stopped.

    Attributes:
        step: Optimiser step, from 0, at which it was met; -1 before the first one.
        rows: Rows of the query table in that batch that are to blame, or all of the batch.
    """

    def __init__(self, message: str, *, step: int, rows: tuple[int, ...]) -> None:
        super().__init__(message)
        self.step = step
        self.rows = rows
