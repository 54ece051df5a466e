"""The size of a block whose pieces come, go and shrink, without writing it again each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolheads.domain import Tool
from toolheads.plan.formats.block import Format
from toolheads.plan.tokens import TokenCounter, TokenEstimate


class BlockSize:
    """Pieces of a block, and the tokens of those that are in it.

    With an estimate the tokens are those of the whole block, exactly. With a tokenizer they are
    the sum over the pieces, which is off by what it joins across their borders.

    Args:
        tools: The catalogue, all in the block at first.
        form: How it is written.
        counter: Counts tokens.
    """

    def __init__(self, tools: Sequence[Tool], form: Format, counter: TokenCounter) -> None:
        self._form, self._counter = form, counter
        self._names = form.names(tools)
        self.pieces = [self.piece(row, tool) for row, tool in enumerate(tools)]
        self._weigh: Callable[[str], int] = (
            counter.weight if isinstance(counter, TokenEstimate) else counter
        )
        frame = form.head + form.tail
        self._frame = self._weigh(frame) if frame else 0
        self._joiner = self._weigh(form.joiner) if isinstance(counter, TokenEstimate) else 0
        self.weights = [self.weight(piece) for piece in self.pieces]
        self.is_in = [True] * len(self.pieces)
        self._sum = sum(self.weights)
        self._count = len(self.pieces)

    def piece(self, row: int, tool: Tool) -> str:
        """What the block has for a tool in place of another of the same name."""
        return self._form.write(self._names[row], tool)

    def weight(self, piece: str) -> int:
        """What a piece adds: quarters of tokens, or tokens with the joiner that follows it."""
        if isinstance(self._counter, TokenEstimate):
            return self._weigh(piece)
        return self._weigh(piece + self._form.joiner)

    def whole(self) -> str:
        """The block with what is in it, each tool under the name it had among all."""
        pieces = zip(self.pieces, self.is_in, strict=True)
        return self._form.joined([piece for piece, is_in in pieces if is_in])

    @property
    def tokens(self) -> int:
        """Tokens of the block; 0 for no tools."""
        return self._tokens(self._sum, self._count)

    def __len__(self) -> int:
        return self._count

    def tokens_with(self, row: int, weight: int | None = None) -> int:
        """Tokens of the block if a piece came back, or one that is in had another weight."""
        if weight is None:
            return self._tokens(self._sum + self.weights[row], self._count + 1)
        return self._tokens(self._sum + weight - self.weights[row], self._count)

    def _tokens(self, weights: int, count: int) -> int:
        if not count:
            return 0
        whole = weights + self._frame + self._joiner * (count - 1)
        return self._counter.of_weight(whole) if isinstance(self._counter, TokenEstimate) else whole

    def replace(self, row: int, piece: str, weight: int) -> None:
        """Put another piece in the place of one that is in."""
        self._sum += weight - self.weights[row]
        self.pieces[row], self.weights[row] = piece, weight

    def drop(self, row: int) -> None:
        """Take a piece out."""
        self.is_in[row] = False
        self._sum -= self.weights[row]
        self._count -= 1

    def add(self, row: int) -> None:
        """Put a piece back in."""
        self.is_in[row] = True
        self._sum += self.weights[row]
        self._count += 1
