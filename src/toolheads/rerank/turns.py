"""The tools of a conversation: chosen once for a turn of the user, and kept through its loop.

Providers cache a prompt up to its first change, and tools stand before everything else. A list
that changes between two calls of a loop costs the whole prompt again, and one that changes from
turn to turn costs it at each turn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from toolheads.errors import ConfigError
from toolheads.rerank.conversation import Message, checked, user_texts
from toolheads.rerank.report import Reranked
from toolheads.rerank.reranking import Reranker
from toolheads.rerank.shown import shown_name

Hold = Literal["turn", "conversation"]


class Turns:
    """The tools of one conversation. May be used from several threads.

    Args:
        reranker: Chooses them.
        hold: `turn` chooses anew at each turn of the user. `conversation` keeps what was listed
            before, in its place, and adds what is new at the end.
        most: Most tools of a list that is held over turns; one that would be longer starts anew.

    Raises:
        ConfigError: If a setting breaks its rule.
    """

    def __init__(self, reranker: Reranker, *, hold: Hold = "turn", most: int = 128) -> None:
        if hold not in get_args(Hold):
            msg = f"hold must be one of {', '.join(get_args(Hold))}, got {hold!r:.80}"
            raise ConfigError(msg)
        if type(most) is not int or most < 1:
            msg = f"most must be a whole number >= 1, got {most!r:.80}"
            raise ConfigError(msg)
        self._reranker, self._hold, self._most = reranker, hold, most
        self._turn: tuple[str, int] | None = None
        self._tools: Reranked | None = None
        self._used: dict[str, None] = {}
        self._lock = threading.Lock()

    def tools(self, messages: Sequence[Message]) -> Reranked:
        """The tools for a conversation as it stands.

        While its newest text of the user is the same, so are the tools: answers of the model,
        results of tools and programs' notes begin no turn.

        Args:
            messages: The conversation, oldest first. Its beginning may have been cut off.

        Raises:
            ConfigError: If it is no list of messages.
        """
        texts = list(user_texts(checked(messages)))
        turn = texts[0] if texts else "", len(texts)
        with self._lock:
            held, last = self._tools, self._turn
            if held is not None and last is not None and turn[0] == last[0] and turn[1] <= last[1]:
                return held
            fresh = self._reranker.rerank(messages, pinned=tuple(self._used))
            if self._hold == "conversation" and held is not None:
                fresh = self._joined(held, fresh)
            self._turn, self._tools = turn, fresh
            return fresh

    def used(self, name: str) -> None:
        """Keep a tool that was called in the lists of all later turns.

        Args:
            name: Its name or id.
        """
        with self._lock:
            self._used[name] = None

    def _joined(self, held: Reranked, fresh: Reranked) -> Reranked:
        known = {tool.id for tool in held.tools}
        tools = (*held.tools, *(tool for tool in fresh.tools if tool.id not in known))
        if len(tools) > self._most:
            return fresh
        chosen = {tool.id for tool in fresh.tools}
        kept = tuple(shown_name(tool) for tool in held.tools if tool.id not in chosen)
        report = replace(fresh.report, listed=tuple(map(shown_name, tools)), held=kept)
        return Reranked(tools, report)
