"""A question with a known answer: does this chat model choose tools at all?"""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolheads.domain import Tool
from toolheads.rerank.llm.asking import ask
from toolheads.rerank.llm.chat import ChatModel
from toolheads.rerank.llm.settings import LlmSettings

PROBE_MESSAGE = "Remind me tomorrow at nine to water the plants"
PROBE_TOP_N = 2
_RIGHT = "set_reminder"
PROBE_TOOLS = tuple(
    Tool(name, name, description=description)
    for name, description in (
        ("play_music", "Play a song, an album or a radio station"),
        ("set_reminder", "Remind the user of something at a time"),
        ("book_taxi", "Order a taxi to an address"),
        ("scan_receipt", "Read shop, date and total off the photo of a receipt"),
        ("translate_sentence", "Translate a sentence into another language"),
    )
)


@dataclass(frozen=True)
class Probed:
    """What a chat model did with the question. Nothing in it was made up by a fallback."""

    reply: str
    """What it said, on one line, its beginning."""
    names: tuple[str, ...]
    """Tools that it named, in its order."""
    error: str | None
    """Why there is no reply; None if there is one."""
    took_s: float

    @property
    def is_usable(self) -> bool:
        """Whether it answered, and named a tool of the list."""
        return self.error is None and bool(self.names)

    @property
    def is_right(self) -> bool:
        """Whether the tool that the message needs is among those it was asked for."""
        return _RIGHT in self.names[:PROBE_TOP_N]


def probe(chat: ChatModel, settings: LlmSettings | None = None) -> Probed:
    """Ask a chat model to choose of five tools. Raises nothing, whatever the model does."""
    start = time.monotonic()
    asked = ask(
        chat, PROBE_TOOLS, PROBE_MESSAGE, top_n=PROBE_TOP_N, settings=settings or LlmSettings()
    )
    names = tuple(PROBE_TOOLS[place].name for place in asked.places)
    return Probed(asked.reply, names, asked.error, time.monotonic() - start)
