"""A format: how one tool is written, and how tools stand together. Knows no format by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.plan.naming import shown_names

Write = Callable[[str, Tool], str]
"""(name the model is shown, tool) → the tool's piece of the block."""

Read = Callable[[str], list[Tool]]
"""A block → its tools."""


@dataclass(frozen=True)
class Format:
    """One way to write tools into a prompt: head, pieces with a joiner between them, tail.

    What a piece says depends on its tool alone, so that the size of a block follows from those of
    its pieces.
    """

    id: str
    write: Write
    joiner: str = "\n"
    head: str = ""
    tail: str = ""
    empty: str = ""
    """The block of no tools."""
    is_sent: bool = False
    """Whether it is the form of a provider's API, which takes fewer names."""
    read: Read | None = None
    """Reads back what was written, where the format has all of it."""

    def pieces(self, tools: Sequence[Tool]) -> list[str]:
        """The piece of each tool.

        Raises:
            DataError: If a schema is no JSON.
        """
        return [self.write(*pair) for pair in zip(self.names(tools), tools, strict=True)]

    def names(self, tools: Sequence[Tool]) -> list[str]:
        """What each tool is called in the block, see `shown_names`."""
        return shown_names(tools, is_sent=self.is_sent)

    def joined(self, pieces: Sequence[str]) -> str:
        """A block of pieces.

        Raises:
            ConfigError: If they hold half a character (a lone surrogate), which is no text.
        """
        block = self.head + self.joiner.join(pieces) + self.tail if pieces else self.empty
        try:
            block.encode()
        except UnicodeEncodeError as e:
            msg = (
                f"tools must hold no lone surrogate, got one in: {block[e.start - 40 : e.start]!r}"
            )
            raise ConfigError(msg) from e
        return block

    def block(self, tools: Sequence[Tool]) -> str:
        """Tools as this format writes them, in their order."""
        return self.joined(self.pieces(tools))
