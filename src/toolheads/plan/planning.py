"""How a catalogue is shown to a model: the plan, with what it takes and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.plan.advice import Strategy, advise, checked_limits, what_is_exceeded
from toolheads.plan.evidence import Evidence, evidence_for
from toolheads.plan.formats import Format, format_named
from toolheads.plan.lookup import checked_tools, kept_rows
from toolheads.plan.prompts import Prompts
from toolheads.plan.retrieval import Retrieval, retrieve
from toolheads.plan.settings import DEFAULT_SETTINGS, PlanSettings, check_count
from toolheads.plan.tokens import token_counter
from toolheads.plan.two_stage import Message, TwoStage
from toolheads.ports import Scorer


@dataclass(frozen=True)
class CataloguePlan:
    """A way to show a catalogue."""

    strategy: Strategy
    n_tools: int
    format_id: str
    schema_tokens: int
    """Of all tools in one block."""
    context_tokens: int | None
    budget_tokens: int | None
    reason: str
    """Why this strategy, on one line."""
    evidence: tuple[Evidence, ...]
    """What is published about it."""
    prompt_tokens: int
    """The most that the tools take in a prompt of this plan, with what is said around a menu and
    a definition. Without a query that of the largest tools that might be found."""
    fits: bool
    """Whether that is within the budget and the context's share."""
    menu_tokens: int | None = None
    """Of the prompt with the menu, where there is one."""
    menu_size: int | None = None
    """Lines of the menu, where there is one."""
    retrieval: Retrieval | None = None
    selection_messages: tuple[Message, ...] | None = None
    """The first stage for the query, where there is one and it has a menu."""
    menu: TwoStage | None = field(default=None, repr=False, compare=False)
    """Runs both stages, where there is a menu; without a query not of one that is retrieved."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "strategy": self.strategy,
            "reason": self.reason,
            "n_tools": self.n_tools,
            "format_id": self.format_id,
            "schema_tokens": self.schema_tokens,
            "context_tokens": self.context_tokens,
            "budget_tokens": self.budget_tokens,
            "prompt_tokens": self.prompt_tokens,
            "fits": self.fits,
            "menu_tokens": self.menu_tokens,
            "menu_size": self.menu_size,
            "evidence": [row.to_json() for row in self.evidence],
            "retrieval": None if self.retrieval is None else self.retrieval.to_json(),
            "selection_messages": None
            if self.selection_messages is None
            else [dict(message) for message in self.selection_messages],
        }


def plan_catalogue(
    tools: Sequence[Tool],
    *,
    format_id: str | Format = "xml_schema",
    context_tokens: int | None = None,
    budget_tokens: int | None = None,
    query: str | None = None,
    k: int = 8,
    keep: Iterable[str] = (),
    scorer: Scorer | str = "bm25",
    is_indexed: bool = False,
    tokenizer: Any = None,
    settings: PlanSettings = DEFAULT_SETTINGS,
) -> CataloguePlan:
    """Choose how to show a catalogue.

    - `one_shot`: all tools in the prompt.
    - `retrieve`: the best k for the query. Also for a catalogue of any size that is over the
      budget, if the best k are within all limits.
    - `two_stage`: a menu of all tools first, then the definition of the one that is picked. Also
      in place of `retrieve` where nothing matches the query.
    - `retrieve_then_menu`: the same with a menu of the best tools only, for a catalogue whose
      whole menu is over a limit.

    Args:
        tools: The catalogue.
        format_id: How definitions are written; one with parameters.
        context_tokens: What the model can read; None or 0 is not given.
        budget_tokens: What tools may take of it; None or 0 is not given.
        query: What is asked for; blank is none. `one_shot` does not look at it.
        k: How many tools `retrieve` shows, >= 1.
        keep: Names of tools that are among them in any case, see `find_tool`.
        scorer: Ranks tools for the query, see `retrieve`.
        is_indexed: Whether the scorer has indexed these very tools already.
        tokenizer: See `token_counter`; None estimates.
        settings: Thresholds.

    Raises:
        ConfigError: If there is no tool, two have one id, a number breaks its rule, a kept name is
            that of no tool, or there is no such format or scorer.
        DataError: If a schema is no JSON.
    """
    form = format_named(format_id, has_schemas=True)
    checked_limits(context_tokens, budget_tokens)
    catalogue = checked_tools(tools)
    if not catalogue:
        msg = "tools must hold at least one tool, got none"
        raise ConfigError(msg)
    kept = kept_rows(catalogue, keep)
    planner = _Planner(
        Prompts(catalogue, form, token_counter(tokenizer), settings),
        context_tokens or None,
        budget_tokens or None,
        query if query and query.strip() else None,
    )
    keep_ids = tuple(catalogue[row].id for row in kept)
    return planner.plan(k, keep_ids, scorer, is_indexed=is_indexed)


class _Planner:
    def __init__(
        self, prompts: Prompts, context: int | None, budget: int | None, query: str | None
    ) -> None:
        self._prompts, self._settings = prompts, prompts.settings
        self._context, self._budget, self._query = context, budget, query
        self._limit = self._settings.limit(context, budget)
        self._n = len(prompts.tools)

    def plan(
        self, k: int, keep: tuple[str, ...], scorer: Scorer | str, *, is_indexed: bool
    ) -> CataloguePlan:
        prompts, query = self._prompts, self._query
        whole = prompts.whole_tokens()
        advice = advise(
            self._n,
            whole,
            context_tokens=self._context,
            budget_tokens=self._budget,
            settings=self._settings,
        )
        if advice.strategy == "one_shot":
            return self._made("one_shot", advice.reason, whole)

        def found(count: int) -> Retrieval | None:
            if query is None:
                return None
            return retrieve(
                prompts.tools, query, k=count, keep=keep, scorer=scorer, is_indexed=is_indexed
            )

        is_over_budget = bool(self._budget and whole > self._budget)
        reason = advice.reason
        if advice.strategy == "retrieve" or is_over_budget:
            best = found(k)
            if best is None and advice.strategy == "retrieve":
                return self._made("retrieve", reason, prompts.largest_tokens(check_count(k, "k")))
            if best is not None and best.nothing_matches:
                reason += "; nothing matches the query, so that no tools can be retrieved for it"
            elif best is not None:
                tokens = prompts.block_tokens(best.tools)
                if self._is_within(tokens):
                    if advice.strategy != "retrieve":
                        reason += f"; the best {len(best.tools)} take {tokens:,}"
                    return self._made("retrieve", reason, tokens, retrieval=best)
                reason += f"; the best {len(best.tools)} take {tokens:,}, {self._over(tokens)}"
        menu = prompts.menu(prompts.tools)
        menu_tokens = prompts.menu_tokens(menu)
        if self._is_within(menu_tokens):
            tokens = max(menu_tokens, prompts.largest_call_tokens())
            return self._made("two_stage", reason, tokens, menu=menu, menu_tokens=menu_tokens)
        reason += f"; a menu of all takes {menu_tokens:,}, {self._over(menu_tokens)}"
        best = found(min(self._settings.menu_tools, self._n))
        return self._retrieved_menu(reason, best, frozenset(keep))

    def _retrieved_menu(
        self, reason: str, best: Retrieval | None, keep: frozenset[str]
    ) -> CataloguePlan:
        """A menu of kept tools and of as many of the best as fit, at least one line."""
        prompts, limit = self._prompts, self._limit
        assert limit is not None  # else a menu of all would have been within it
        if best is None:
            size, menu_tokens = prompts.largest_menu(limit)
            tokens = max(menu_tokens, prompts.largest_call_tokens())
            reason += f"; one of any {size} is within it"
            return self._made(
                "retrieve_then_menu", reason, tokens, menu_tokens=menu_tokens, menu_size=size
            )
        kept_first = sorted(best.tools, key=lambda tool: tool.id not in keep)
        menu = prompts.fitting_menu(kept_first, limit)
        menu_tokens = prompts.menu_tokens(menu)
        best = replace(best, tools=menu.tools)
        tokens = max(menu_tokens, prompts.largest_call_tokens(menu.tools))
        which = "first" if best.nothing_matches else "best"
        reason += f"; one of the {which} {len(menu.tools)} takes {menu_tokens:,}"
        if best.nothing_matches and "nothing matches" not in reason:
            reason += "; nothing matches the query"
        return self._made(
            "retrieve_then_menu",
            reason,
            tokens,
            retrieval=best,
            menu=menu,
            menu_tokens=menu_tokens,
        )

    def _made(
        self,
        strategy: Strategy,
        reason: str,
        tokens: int,
        *,
        retrieval: Retrieval | None = None,
        menu: TwoStage | None = None,
        menu_tokens: int | None = None,
        menu_size: int | None = None,
    ) -> CataloguePlan:
        fits = self._is_within(tokens)
        if not fits:
            reason += f"; its largest prompt takes {tokens:,}, {self._over(tokens)}"
        lines = len(menu.tools) if menu else menu_size
        messages = None
        if menu and self._query:
            messages = tuple(menu.selection_messages(self._query))
        return CataloguePlan(
            strategy=strategy,
            n_tools=self._n,
            format_id=self._prompts.form.id,
            schema_tokens=self._prompts.whole_tokens(),
            context_tokens=self._context,
            budget_tokens=self._budget,
            reason=reason,
            evidence=tuple(evidence_for(strategy, self._n, menu_tools=lines)),
            prompt_tokens=tokens,
            fits=fits,
            menu_tokens=menu_tokens,
            menu_size=lines,
            retrieval=retrieval,
            selection_messages=messages,
            menu=menu,
        )

    def _is_within(self, tokens: int) -> bool:
        return self._limit is None or tokens <= self._limit

    def _over(self, tokens: int) -> str:
        over = what_is_exceeded(tokens, self._context, self._budget, self._settings)
        return " and ".join(over)
