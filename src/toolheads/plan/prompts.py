"""What the prompts of a catalogue take: all tools, a few of them, a menu, one definition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from toolheads.domain import Tool
from toolheads.plan.formats import Format
from toolheads.plan.settings import PlanSettings
from toolheads.plan.tokens import TokenCounter
from toolheads.plan.two_stage import TwoStage


class Prompts:
    """The prompts that a plan chooses from, each measured when it is asked for.

    Args:
        tools: At least one tool, every id once.
        form: How definitions are written.
        counter: Counts tokens.
        settings: For the lengths of a menu and its lines.
    """

    def __init__(
        self, tools: tuple[Tool, ...], form: Format, counter: TokenCounter, settings: PlanSettings
    ) -> None:
        self.tools, self.form, self.settings = tools, form, settings
        self._counter = counter

    def whole_tokens(self) -> int:
        """Tokens of all tools in one block."""
        return self._whole

    def block_tokens(self, tools: Sequence[Tool]) -> int:
        """Tokens of a few tools in one block."""
        return self._counter(self.form.block(tools))

    def largest_tokens(self, k: int) -> int:
        """Tokens of the k largest tools in one block."""
        largest = sorted(range(len(self.tools)), key=lambda row: -self._piece_tokens[row])[:k]
        return self.block_tokens([self.tools[row] for row in sorted(largest)])

    def menu(self, tools: Sequence[Tool]) -> TwoStage:
        """A menu of some tools."""
        chars = self.settings.menu_description_chars
        return TwoStage(tools, format_id=self.form, description_chars=chars, counter=self._counter)

    def menu_tokens(self, menu: TwoStage) -> int:
        """Tokens of the prompt with a menu, without the query."""
        return self._counter(menu.selection_system())

    def largest_menu(self, limit: float) -> tuple[int, int]:
        """(lines, tokens) of the longest menu that is within a limit whichever tools are in it.

        It has the settings' `menu_tools` at most, and one line at least.
        """
        lines = self._menu.lines
        tokens = [self._counter(line) for line in lines]
        longest = sorted(range(len(lines)), key=lambda row: -tokens[row])
        tools = [self.tools[row] for row in longest[: self.settings.menu_tools]]
        menu = self.fitting_menu(tools, limit)
        return len(menu.tools), self.menu_tokens(menu)

    def fitting_menu(self, tools: Sequence[Tool], limit: float) -> TwoStage:
        """A menu of the first of some tools, as many as a limit holds, and one at least."""
        low, high = 1, len(tools)
        while low < high:  # low fits or is one; more lines take more tokens
            middle = (low + high + 1) // 2
            if self.menu_tokens(self.menu(tools[:middle])) <= limit:
                low = middle
            else:
                high = middle - 1
        return self.menu(tools[:low])

    def largest_call_tokens(self, tools: Sequence[Tool] | None = None) -> int:
        """Tokens of the longest prompt with the definition of one of some tools, or of any."""
        ids = {tool.id for tool in (self.tools if tools is None else tools)}
        rows = [row for row, tool in enumerate(self.tools) if tool.id in ids]
        largest = max(rows, key=lambda row: self._piece_tokens[row])
        return self._counter(self._menu.call_system(self.tools[largest]))

    @cached_property
    def _pieces(self) -> list[str]:
        return self.form.pieces(self.tools)

    @cached_property
    def _whole(self) -> int:
        return self._counter(self.form.joined(self._pieces))

    @cached_property
    def _menu(self) -> TwoStage:
        return self.menu(self.tools)

    @cached_property
    def _piece_tokens(self) -> list[int]:
        return [self._counter(piece) for piece in self._pieces]
