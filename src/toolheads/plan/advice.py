"""Which way to show a catalogue, from its sizes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from toolheads.plan.evidence import Evidence, evidence_for
from toolheads.plan.settings import DEFAULT_SETTINGS, PlanSettings, check_count

Strategy = Literal["one_shot", "retrieve", "two_stage", "retrieve_then_menu"]

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
"""All tools in the prompt; the best k; a menu, then the one that was picked; a menu of the best."""


@dataclass(frozen=True)
class Advice:
    """A strategy, why, and what is published about it."""

    strategy: Strategy
    reason: str
    evidence: tuple[Evidence, ...]


def advise(
    n_tools: int,
    schema_tokens: int | None = None,
    *,
    context_tokens: int | None = None,
    budget_tokens: int | None = None,
    settings: PlanSettings = DEFAULT_SETTINGS,
) -> Advice:
    """Choose by sizes: `one_shot`, `retrieve` or `two_stage`.

    Only `plan_catalogue`, which sees the tools, knows what a menu of them takes, and chooses
    `retrieve_then_menu` where it does not fit.

    Args:
        n_tools: Tools of the catalogue.
        schema_tokens: What they take in one prompt; None where it is not known, and then only
            their number counts.
        context_tokens: What the model can read; None or 0 is not given.
        budget_tokens: What tools may take of it; None or 0 is not given.
        settings: Thresholds.

    Raises:
        ConfigError: If a number is below 0.
    """
    check_count(n_tools, "n_tools", least=0)
    checked_limits(context_tokens, budget_tokens)
    over = []
    if schema_tokens is not None:
        check_count(schema_tokens, "schema_tokens", least=0)
        over = what_is_exceeded(schema_tokens, context_tokens, budget_tokens, settings)
    strategy: Strategy
    if over:
        strategy, reason = "two_stage", f"all schemas take {schema_tokens:,} tokens, {over[0]}"
    elif n_tools >= settings.two_stage_from:
        strategy = "two_stage"
        reason = f"{n_tools:,} tools, and from {settings.two_stage_from} a menu comes first"
    elif n_tools >= settings.retrieve_from:
        strategy = "retrieve"
        reason = f"{n_tools} tools, and from {settings.retrieve_from} only the best are shown"
    else:
        strategy = "one_shot"
        reason = f"{n_tools} tool{'s'[: n_tools != 1]}, few enough to show all"
    return Advice(strategy, reason, tuple(evidence_for(strategy, n_tools)))


def what_is_exceeded(
    tokens: int, context_tokens: int | None, budget_tokens: int | None, settings: PlanSettings
) -> list[str]:
    """Each limit that so many tokens are above, in words."""
    over = []
    if budget_tokens and tokens > budget_tokens:
        over.append(f"more than the budget of {budget_tokens:,}")
    if context_tokens and tokens > settings.context_share * context_tokens:
        share = f"{settings.context_share:.0%} of the context of {context_tokens:,}"
        over.append(f"more than {share}")
    return over


def checked_limits(context_tokens: int | None, budget_tokens: int | None) -> None:
    """Refuse a context or a budget that is no number >= 0.

    Raises:
        ConfigError: If one is none.
    """
    for value, name in ((context_tokens, "context_tokens"), (budget_tokens, "budget_tokens")):
        if value is not None:
            check_count(value, name, least=0)
