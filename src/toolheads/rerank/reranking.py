"""The use case: which tools go into the prompt of this turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from toolheads.domain import Tool
from toolheads.ports import Scorer
from toolheads.rerank.choosing import Candidates, Choice, by_keyword, by_llm, by_scorer
from toolheads.rerank.conversation import Conversation, user_texts
from toolheads.rerank.heads import CatalogueScorer
from toolheads.rerank.keyword import KeywordIndex
from toolheads.rerank.llm.chat import ChatModel
from toolheads.rerank.mentions import mentioned
from toolheads.rerank.report import Report, Reranked
from toolheads.rerank.settings import Method, RerankSettings
from toolheads.rerank.shown import shown_name


def rerank(
    tools: Sequence[Tool],
    message: Conversation,
    method: Method | None = None,
    *,
    top_n: int | None = None,
    pinned: Sequence[str] | None = None,
    scorer: Scorer | None = None,
    chat: ChatModel | None = None,
    settings: RerankSettings | None = None,
) -> Reranked:
    """Choose the tools for one turn of the user.

    For many turns over the same tools a `Reranker` reads them once.

    Args:
        tools: The catalogue.
        message: What the user said, or the conversation.
        method: `off`, `keyword`, `llm` or `heads`; None takes the settings', by default `off`.
        top_n: How many tools are chosen beside those that are named or pinned; None takes the
            settings', by default 15.
        pinned: Names or ids of tools that are always listed; None takes the settings'.
        scorer: For method `heads`, any scorer; it indexes the tools.
        chat: For method `llm`, the model.
        settings: The rest.

    Returns:
        Tools that are named, then pinned, then chosen, and a report. A failure of the scorer or
        the model is no error: words rank in its place, and the report says so.

    Raises:
        ConfigError: If a setting or the message breaks its rule.
    """
    given = {"method": method, "top_n": top_n, "pinned": pinned}
    chosen = {name: value for name, value in given.items() if value is not None}
    whole = replace(settings or RerankSettings(), **chosen)  # type: ignore[arg-type]  # by name
    return Reranker(tools, whole, scorer=scorer, chat=chat).rerank(message)


class Reranker:
    """Chooses tools of one catalogue, turn after turn. May be used from several threads.

    Args:
        tools: The catalogue.
        settings: How.
        scorer: For method `heads` or a first stage by heads; it indexes the tools when it is
            first needed.
        chat: For method `llm`.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        settings: RerankSettings | None = None,
        *,
        scorer: Scorer | None = None,
        chat: ChatModel | None = None,
    ) -> None:
        self.tools = tuple(tools)
        self.settings = settings or RerankSettings()
        self._words = KeywordIndex(self.tools, self.settings.keyword)
        self._scorer = None if scorer is None else CatalogueScorer(scorer, self.tools)
        self._chat = chat

    def rerank(self, message: Conversation, *, pinned: Sequence[str] = ()) -> Reranked:
        """Choose the tools for one turn. See `toolheads.rerank.rerank`.

        Args:
            message: What the user said, or the conversation.
            pinned: Further tools that are always listed.

        Raises:
            ConfigError: If the message is neither a string nor a list of messages.
        """
        text = self._text(message)
        settings = self.settings
        everything = range(len(self.tools))
        if settings.method == "off":
            return self._reranked(text, Choice(tuple(everything), "off", matched=True))
        named = mentioned(self.tools, text, mentions=settings.mentions)
        wanted = dict.fromkeys([*settings.pinned, *pinned])
        is_named = frozenset(named)
        pins = [
            row
            for row, tool in enumerate(self.tools)
            if row not in is_named and (tool.name in wanted or tool.id in wanted)
        ]
        taken = is_named.union(pins)
        rows = tuple(row for row in everything if row not in taken)
        if rows and settings.top_n > 0:
            choice = self._chosen(Candidates(self.tools, rows, text, self._words))
        else:
            choice = Choice((), settings.method, matched=False)
        return self._reranked(text, choice, named, pins, tuple(wanted))

    def _text(self, message: Conversation) -> str:
        """The newest text of the user, and earlier ones as long as no word of it is known."""
        texts = list(islice(user_texts(message), 1 + max(self.settings.lookback, 0)))
        for count in range(1, len(texts)):
            text = "\n".join(texts[:count])
            if self._words.matches(text):
                return text
        whole = "\n".join(texts)
        return whole if len(texts) < 2 or self._words.matches(whole) else texts[0]

    def _chosen(self, candidates: Candidates) -> Choice:
        if self.settings.method == "llm":
            return by_llm(candidates, self.settings, self._chat, self._scorer)
        if self.settings.method == "heads":
            return by_scorer(candidates, self.settings, self._scorer)
        return by_keyword(candidates, self.settings)

    def _reranked(
        self,
        text: str,
        choice: Choice,
        named: Sequence[int] = (),
        pins: Sequence[int] = (),
        wanted: Sequence[str] = (),
    ) -> Reranked:
        tools = tuple(self.tools[row] for row in (*named, *pins, *choice.rows))
        known = {name for tool in self.tools for name in (tool.name, tool.id)} if wanted else ()
        report = Report(
            asked=self.settings.method,
            method=choice.method,
            reason=choice.reason,
            text=text,
            tools=len(self.tools),
            listed=tuple(map(shown_name, tools)),
            named=self._shown(named),
            pinned=self._shown(pins),
            unknown_pins=tuple(name for name in wanted if name not in known),
            topped_up=self._shown(choice.topped_up),
            matched=choice.matched or bool(named),
            notes=choice.notes,
            reply=choice.reply,
        )
        return Reranked(tools, report)

    def _shown(self, rows: Sequence[int]) -> tuple[str, ...]:
        return tuple(shown_name(self.tools[row]) for row in rows)
