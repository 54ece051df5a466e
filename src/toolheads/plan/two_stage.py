"""Disclosure in two stages: a menu first, then the definition of the one tool that was picked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.plan.call_reply import ToolCall, read_calls
from toolheads.plan.formats import Format, format_named
from toolheads.plan.lookup import checked_tools, find_tool
from toolheads.plan.menu import menu_line
from toolheads.plan.naming import shown_names
from toolheads.plan.selection import REFUSAL, Outcome, Selection, read_selection
from toolheads.plan.settings import DEFAULT_SETTINGS, check_count
from toolheads.plan.tokens import ESTIMATE, TokenCounter
from toolheads.texts.untrusted import without_markers

SELECTION_MAX_TOKENS = 48
CALL_MAX_TOKENS = 1024

Message = dict[str, str]
"""`role` and `content`, as chat endpoints take them."""

_SELECT = (
    "You choose the tool that a request needs.\n\nAvailable tools:\n{menu}\n\n"
    "Answer with the name of one tool, exactly as it is listed, and nothing else. Its definition "
    "follows in the next step. If none of the tools fits, answer {refusal}."
)
_SELECT_ASK = "{query}\n\nName one tool exactly as it is listed, and nothing else."
_CALL = (
    "You answer a request by calling a tool.\n\nAvailable tool:\n{block}\n\n"
    'Answer with one JSON object and nothing else: {{"name": "{name}", "arguments": {{…}}}}'
)


class Chat(Protocol):
    """A chat model."""

    def __call__(
        self, messages: Sequence[Message], *, max_tokens: int, temperature: float
    ) -> str | ChatReply:
        """Answer messages; what fails is raised, and reaches the caller of `run`."""
        ...


@dataclass(frozen=True)
class ChatReply:
    """An answer with what it took."""

    text: str
    prompt_tokens: int | None = None
    """None where the endpoint does not say; it is counted then."""
    completion_tokens: int | None = None


@dataclass(frozen=True)
class TwoStageResult:
    """What both stages came to."""

    query: str
    selected: Tool | None
    """None where the first stage named no tool, and the second did not run."""
    selection_reply: str
    outcome: Outcome
    """Why the first stage came to that."""
    call_messages: tuple[Message, ...] | None
    reply: str
    """Of the second stage; empty where it did not run."""
    calls: tuple[ToolCall, ...] | None
    """What the reply calls, in order; None where the second stage did not run."""
    prompt_tokens: int
    """Of both stages together."""
    completion_tokens: int

    @property
    def selection_failed(self) -> bool:
        """Whether the first stage named no tool."""
        return self.selected is None


class TwoStage:
    """A menu of names, and the definition of the tool that the model names.

    Args:
        tools: The tools of the menu.
        include_descriptions: Whether the menu has the start of each description.
        format_id: How the tool of the second stage is written; one with parameters.
        description_chars: Most characters of a description in the menu, >= 1.
        counter: Counts the tokens of what an endpoint does not count.

    Raises:
        ConfigError: If there is no tool, two have one id, or there is no such format.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        include_descriptions: bool = True,
        format_id: str | Format = "json_schema_openai",
        description_chars: int = DEFAULT_SETTINGS.menu_description_chars,
        counter: TokenCounter = ESTIMATE,
    ) -> None:
        self.tools = checked_tools(tools)
        if not self.tools:
            msg = "tools must hold at least one tool, got none"
            raise ConfigError(msg)
        check_count(description_chars, "description_chars")
        self.form = format_named(format_id, has_schemas=True)
        names = shown_names(self.tools, is_sent=self.form.is_sent)
        self.names: Mapping[str, Tool] = dict(zip(names, self.tools, strict=True))
        """Name in the menu → tool."""
        self.lines = tuple(
            menu_line(
                name, tool.description if include_descriptions else "", most_chars=description_chars
            )
            for name, tool in self.names.items()
        )
        self._refusal = _refusal(self.names)
        self._count = counter

    @property
    def menu(self) -> str:
        """The menu, a line for each tool."""
        return "\n".join(self.lines)

    def selection_messages(self, query: str) -> list[Message]:
        """The messages of the first stage."""
        ask = _SELECT_ASK.format(query=without_markers(query))
        return _messages(self.selection_system(), ask)

    def selection_system(self) -> str:
        """The first message of the first stage, which holds the menu."""
        return _SELECT.format(menu=self.menu, refusal=self._refusal)

    def read_selection(self, reply: object) -> Selection:
        """Read the reply of the first stage, see `toolheads.plan.selection`."""
        return read_selection(list(self.names), reply)

    def call_messages(self, query: str, tool: Tool | str) -> list[Message]:
        """The messages of the second stage.

        Args:
            query: What is asked for.
            tool: A tool of the menu, or a name of one.

        Raises:
            ConfigError: If it is none of them.
        """
        return _messages(self.call_system(tool), query)

    def call_system(self, tool: Tool | str) -> str:
        """The first message of the second stage, which holds the definition of the tool.

        Raises:
            ConfigError: If it is no tool of the menu.
        """
        name, chosen = self._of_menu(tool)
        block = self.form.joined([self.form.write(name, chosen)])
        return _CALL.format(block=without_markers(block), name=name)

    def run(self, query: str, chat: Chat) -> TwoStageResult:
        """Ask a model twice: which tool, and how it is called.

        The second stage is asked with temperature 0, as the first, and not at all where that
        names no tool.
        """
        asked = self.selection_messages(query)
        first = self._answer(chat, asked, SELECTION_MAX_TOKENS)
        selection = self.read_selection(first.text)
        if selection.name is None:
            return TwoStageResult(
                query, None, first.text, selection.outcome, None, "", None, *_sum(first)
            )
        tool = self.names[selection.name]
        messages = self.call_messages(query, tool)
        second = self._answer(chat, messages, CALL_MAX_TOKENS)
        return TwoStageResult(
            query,
            tool,
            first.text,
            selection.outcome,
            tuple(messages),
            second.text,
            tuple(read_calls(second.text, {selection.name: tool})),
            *_sum(first, second),
        )

    def _of_menu(self, tool: Tool | str) -> tuple[str, Tool]:
        found = (
            (self.names.get(tool) or find_tool(self.tools, tool)) if isinstance(tool, str) else tool
        )
        for name, listed in self.names.items():
            if found is not None and listed.id == found.id:
                return name, listed
        msg = f"tool must be one of the menu, got {getattr(tool, 'name', tool)!r:.80}"
        raise ConfigError(msg)

    def _answer(self, chat: Chat, messages: list[Message], max_tokens: int) -> ChatReply:
        said: Any = chat(messages, max_tokens=max_tokens, temperature=0.0)
        reply = said if isinstance(said, ChatReply) else ChatReply(said)
        given: Any = reply.text
        text = given if isinstance(given, str) else ""  # an endpoint's null is no text
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        if prompt is None:
            prompt = sum(self._count(message["content"]) for message in messages)
        if completion is None:
            completion = self._count(text) if text else 0
        return ChatReply(text, prompt, completion)


def _messages(system: str, user: str) -> list[Message]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _sum(*replies: ChatReply) -> tuple[int, int]:
    return (
        sum(reply.prompt_tokens or 0 for reply in replies),
        sum(reply.completion_tokens or 0 for reply in replies),
    )


def _refusal(names: Mapping[str, Tool]) -> str:
    """What to say if no tool fits: a word that is no tool."""
    taken = {name.casefold() for name in names}
    word = REFUSAL
    while word in taken:
        word = f"no_{word}"
    return word
