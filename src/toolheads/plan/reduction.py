"""A catalogue that shrinks step by step and knows at each what it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolheads.domain import Tool
from toolheads.plan.formats import Format
from toolheads.plan.sizes import BlockSize
from toolheads.plan.tokens import TokenCounter, TokenEstimate
from toolheads.plan.trimming import without_descriptions


@dataclass
class Step:
    """One thing to leave out."""

    row: int
    parameter: str | None
    """The parameter whose description goes; None for the whole tool."""
    saved: int = 0
    """Tokens it saved."""


class Reduction:
    """Steps that are taken and taken back.

    Args:
        catalogue: The tools, all there at first.
        form: How they are written.
        counter: Counts tokens.
    """

    def __init__(self, catalogue: Sequence[Tool], form: Format, counter: TokenCounter) -> None:
        self._catalogue, self._form, self._counter = tuple(catalogue), form, counter
        self._size = BlockSize(self._catalogue, form, counter)
        self._taken: dict[tuple[int, str | None], Step] = {}
        self._without: dict[int, set[str]] = {}

    @property
    def taken(self) -> list[Step]:
        """What is left out, in the order it went."""
        return list(self._taken.values())

    @property
    def trimmed(self) -> list[Step]:
        """Descriptions that are left out."""
        return [step for step in self.taken if step.parameter is not None]

    @property
    def gone(self) -> list[Step]:
        """Tools that are left out."""
        return [step for step in self.taken if step.parameter is None]

    def tools(self) -> tuple[Tool, ...]:
        """What is there."""
        return tuple(
            without_descriptions(tool, self._without.get(row, ()))
            for row, tool in enumerate(self._catalogue)
            if self._size.is_in[row]
        )

    def counted(self) -> int:
        """Tokens of what is there, written and counted as a whole; 0 for no tools."""
        if not len(self._size):
            return 0
        tools = self.tools()
        is_renamed = len(tools) < len(self._catalogue)  # a namesake may have gone
        return self._counter(self._form.block(tools) if is_renamed else self._size.whole())

    def reduce_to(self, budget: int, steps: Iterable[Step]) -> None:
        """Take steps, in order and no more than are needed; the last tool stays."""
        waiting = iter(steps)
        while self._size.tokens > budget and self._take_next(waiting):
            pass
        # The sum over pieces may be off by a little with a tokenizer: what counts is the whole.
        while self.counted() > budget and self._take_next(waiting):
            pass
        if isinstance(self._counter, TokenEstimate):
            return
        while self._taken:
            step = self._taken[next(reversed(self._taken))]
            self._take_back(step)
            if self.counted() > budget:
                self._take(step)
                return

    def bring_back(self, ranking: Iterable[int], budget: int) -> int:
        """Put tools back that still fit, those that come first in the ranking first; how many."""
        gone = {step.row: step for step in self.gone}
        back = []
        for row in ranking:
            if row in gone and self._size.tokens_with(row) <= budget:
                self._take_back(gone[row])
                back.append(gone[row])
        return self._as_fits(back, budget)

    def restore(self, ranking: Iterable[int], budget: int) -> int:
        """Put descriptions back that still fit, likewise; how many."""
        of_row: dict[int, list[Step]] = {}
        for step in self.trimmed:
            of_row.setdefault(step.row, []).append(step)
        back = []
        for row in ranking:
            for step in reversed(of_row.get(row, []) if self._size.is_in[row] else []):
                _, weight = self._written(row, self._without[row] - {step.parameter})
                if self._size.tokens_with(row, weight) <= budget:
                    self._take_back(step)
                    back.append(step)
        return self._as_fits(back, budget)

    def _as_fits(self, back: list[Step], budget: int) -> int:
        """Take the last ones of these again until the whole fits."""
        while back and self.counted() > budget:
            self._take(back.pop())
        return len(back)

    def _take_next(self, waiting: Iterator[Step]) -> bool:
        for step in waiting:
            if (step.parameter is not None or len(self._size) > 1) and self._take(step):
                return True
        return False

    def _take(self, step: Step) -> bool:
        """Take a step; not one that changes nothing, as the format does not say what it leaves."""
        before = self._size.tokens
        if step.parameter is None:
            self._size.drop(step.row)
        else:
            without = self._without.get(step.row, set()) | {step.parameter}
            piece, weight = self._written(step.row, without)
            if piece == self._size.pieces[step.row]:
                return False
            self._without[step.row] = without
            self._size.replace(step.row, piece, weight)
        step.saved = before - self._size.tokens
        self._taken[step.row, step.parameter] = step
        return True

    def _take_back(self, step: Step) -> None:
        del self._taken[step.row, step.parameter]
        if step.parameter is None:
            self._size.add(step.row)
        else:
            self._without[step.row] = self._without[step.row] - {step.parameter}
            self._size.replace(step.row, *self._written(step.row, self._without[step.row]))

    def _written(self, row: int, without: Collection[str]) -> tuple[str, int]:
        """The piece of a tool without some descriptions, and its weight."""
        piece = self._size.piece(row, without_descriptions(self._catalogue[row], without))
        return piece, self._size.weight(piece)
