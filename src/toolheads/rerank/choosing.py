"""The methods: from candidates to those that are listed. Each falls back to shared words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolheads.domain import Tool
from toolheads.rerank.heads import CatalogueScorer
from toolheads.rerank.keyword import KeywordIndex
from toolheads.rerank.llm.asking import Asked, ask
from toolheads.rerank.llm.chat import ChatModel
from toolheads.rerank.settings import Method, RerankSettings


@dataclass(frozen=True)
class Candidates:
    """What is chosen from, and for which text."""

    tools: Sequence[Tool]
    """The whole catalogue."""
    rows: tuple[int, ...]
    """Rows of the candidates, rising, at least one."""
    text: str
    words: KeywordIndex
    """The words of the whole catalogue."""


@dataclass(frozen=True)
class Choice:
    """Rows that a method chose, best first, and how."""

    rows: tuple[int, ...]
    method: Method
    matched: bool
    reason: str | None = None
    topped_up: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    reply: str | None = None


def by_keyword(
    candidates: Candidates, settings: RerankSettings, *, reason: str | None = None
) -> Choice:
    """The candidates that share the rarest words with the text."""
    ranking = candidates.words.ranking(candidates.text, candidates.rows)
    rows = ranking.rows[: settings.top_n]
    return Choice(rows, "keyword", ranking.matched > 0, reason)


def by_scorer(
    candidates: Candidates, settings: RerankSettings, scorer: CatalogueScorer | None
) -> Choice:
    """The candidates that a scorer ranks first."""
    if scorer is None:
        return by_keyword(candidates, settings, reason="no scorer is set")
    found = scorer.scored(candidates.text, candidates.rows, settings.top_n)
    if found.best is None:
        return by_keyword(candidates, settings, reason=found.reason)
    added, words_match = _topping_up(candidates, found.rows, settings.top_n)
    matched = settings.floor is None or found.best >= settings.floor or words_match
    return Choice((*found.rows, *added), "heads", matched, topped_up=added)


def by_llm(
    candidates: Candidates,
    settings: RerankSettings,
    chat: ChatModel | None,
    scorer: CatalogueScorer | None,
) -> Choice:
    """The candidates that a chat model names, topped up by shared words.

    Args:
        candidates: What is chosen from.
        settings: How many, and how the model is asked.
        chat: The model; None falls back.
        scorer: For a first stage by heads.
    """
    if chat is None:
        return by_keyword(candidates, settings, reason="no chat model is set")
    sent, stage = _first_stage(candidates, settings, scorer)
    shown = [candidates.tools[row] for row in sent]
    asked = ask(chat, shown, candidates.text, top_n=settings.top_n, settings=settings.llm)
    if asked.error is not None:
        notes = (f"the chat model failed: {asked.error}", "ranked by keyword instead")
        return replace(by_keyword(candidates, settings, reason=asked.error), notes=notes)
    chosen = tuple(sent[place] for place in asked.places)[: settings.top_n]
    added, words_match = _topping_up(candidates, chosen, settings.top_n)
    is_short = len(chosen) < settings.top_n
    return Choice(
        (*chosen, *added),
        "llm" if chosen else "keyword",
        bool(chosen) or words_match,
        None if chosen else "the reply of the chat model names no tool of the list",
        added,
        _notes(asked, len(sent), len(candidates.rows), stage, len(added) if is_short else None),
        asked.reply,
    )


def _first_stage(
    candidates: Candidates, settings: RerankSettings, scorer: CatalogueScorer | None
) -> tuple[tuple[int, ...], str]:
    """Rows that the model is shown, in this order, and what chose them if not all are."""
    most, order = settings.llm.most_candidates, settings.llm.order
    is_whole = len(candidates.rows) <= most
    if is_whole and order == "catalogue":
        return candidates.rows, ""
    ranked = candidates.words.ranking(candidates.text, candidates.rows).rows
    # Who shares no word is last, but there: the model may know more of a message than its words.
    stage, best = "keyword", tuple(dict.fromkeys([*ranked, *candidates.rows]))
    if settings.llm.first_stage == "heads" and scorer is not None:
        found = scorer.scored(candidates.text, candidates.rows, most)
        if found.best is not None:
            stage, best = "heads", tuple(dict.fromkeys([*found.rows, *best]))
    sent = best[:most] if order == "rank" else tuple(sorted(best[:most]))
    return sent, "" if is_whole else stage


def _topping_up(
    candidates: Candidates, chosen: tuple[int, ...], top_n: int
) -> tuple[tuple[int, ...], bool]:
    """Candidates that fill the list up, and whether one of them shares a word with the text."""
    if len(chosen) >= top_n:
        return (), False
    taken = frozenset(chosen)
    rest = [row for row in candidates.rows if row not in taken]
    ranking = candidates.words.ranking(candidates.text, rest)
    return ranking.rows[: top_n - len(chosen)], ranking.matched > 0


def _notes(asked: Asked, sent: int, of: int, stage: str, added: int | None) -> tuple[str, ...]:
    first = f"sent {sent} of {of} candidates" + (f", chosen by {stage}" if stage else "")
    usable = len(asked.places)
    notes = (first, f"reply: {asked.reply[:200]}", f"usable names in it: {usable}")
    return notes if added is None else (*notes, f"topped up by keyword: {added}")
