"""Making a catalogue fit a budget of tokens: shorter where it can be, smaller where it must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolheads.domain import Tool
from toolheads.plan.formats import Format, format_named
from toolheads.plan.lookup import checked_tools, kept_rows
from toolheads.plan.reduction import Reduction, Step
from toolheads.plan.retrieval import made_scorer, ranked_rows
from toolheads.plan.settings import check_count
from toolheads.plan.tokens import TokenCounter, token_counter
from toolheads.plan.trimming import optional_descriptions
from toolheads.ports import Scorer

DropKind = Literal["description", "rank", "tail"]

_REASONS: dict[DropKind, str] = {
    "description": "description of an optional parameter",
    "rank": "lowest for the query",
    "tail": "end of the list",
}


@dataclass(frozen=True)
class Dropped:
    """One thing that was left out to make the rest fit."""

    tool_id: str
    kind: DropKind
    reason: str
    tokens: int
    """What it saved. With a tokenizer that of its own lines, so the sum may be off by a few."""
    parameter: str | None = None
    """The parameter whose description it is; None for a whole tool."""


@dataclass(frozen=True)
class Fit:
    """A catalogue that was made to fit, and how."""

    format_id: str
    budget_tokens: int
    tokens_before: int
    tokens_after: int
    tools: tuple[Tool, ...] = field(repr=False)
    """What is left, in the order of the catalogue."""
    dropped: tuple[Dropped, ...]
    """In the order they went."""
    steps: tuple[str, ...]
    """A line for the start, one for each kind of step that was taken, one for the end."""

    @property
    def fits(self) -> bool:
        """Whether the budget holds what is left."""
        return self.tokens_after <= self.budget_tokens

    @property
    def kept(self) -> tuple[str, ...]:
        """Ids of the tools that are left."""
        return tuple(tool.id for tool in self.tools)

    def to_json(self) -> dict[str, Any]:
        """JSON types only, without the tools themselves."""
        return {
            "format_id": self.format_id,
            "budget_tokens": self.budget_tokens,
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "fits": self.fits,
            "kept": list(self.kept),
            "dropped": [dict(vars(item)) for item in self.dropped],
            "steps": list(self.steps),
        }


def fit_to_budget(
    tools: Sequence[Tool],
    format_id: str | Format,
    budget_tokens: int,
    *,
    query: str | None = None,
    keep: Iterable[str] = (),
    scorer: Scorer | str = "bm25",
    is_indexed: bool = False,
    tokenizer: Any = None,
) -> Fit:
    """Leave out as little as makes a catalogue fit.

    First descriptions of optional parameters at the top level go, the longest first, or with a
    query those of the tools it needs least. Then tools go, from the end of the list, or with a
    query those it needs least. With a query what still fits comes back: tools, then descriptions,
    those it needs most first.

    Args:
        tools: The catalogue.
        format_id: How it is written.
        budget_tokens: What it may take, >= 1.
        query: What the tools are wanted for; blank is none.
        keep: Names of tools that stay, see `find_tool`. One tool stays in any case.
        scorer: Ranks tools for the query, see `retrieve`.
        is_indexed: Whether the scorer has indexed these very tools already.
        tokenizer: See `token_counter`; None estimates.

    Raises:
        ConfigError: If the budget is below 1, a kept name is that of no tool, or there is no such
            format or scorer.
        DataError: If a schema is no JSON.
    """
    check_count(budget_tokens, "budget_tokens")
    form = format_named(format_id)
    catalogue = checked_tools(tools)
    kept = set(kept_rows(catalogue, keep))
    counter = token_counter(tokenizer)
    asked = query if query and query.strip() else None
    ranking: list[int] | None = None
    is_ranked = False
    if asked:
        scored = ranked_rows(catalogue, asked, made_scorer(scorer), is_indexed=is_indexed)
        ranking, is_ranked = [row for row, _ in scored], any(score for _, score in scored)
    return _Fitting(catalogue, form, budget_tokens, kept, counter).fit(ranking, is_ranked=is_ranked)


class _Fitting:
    def __init__(
        self,
        catalogue: tuple[Tool, ...],
        form: Format,
        budget: int,
        kept: set[int],
        counter: TokenCounter,
    ) -> None:
        self._catalogue, self._form, self._budget, self._kept = catalogue, form, budget, kept
        self._now = Reduction(catalogue, form, counter)

    def fit(self, ranking: list[int] | None, *, is_ranked: bool) -> Fit:
        now, budget = self._now, self._budget
        before = now.counted()
        steps = [f"{len(self._catalogue):,} tools take {before:,} tokens as {self._form.id}"]
        if before > budget:
            steps += self._less(ranking, is_ranked=is_ranked)
            if ranking is not None:
                steps += self._more(ranking)
        after = now.counted()
        left = f"{len(now.tools()):,} tools take {after:,} tokens"
        steps.append(f"{left}, {'within' if after <= budget else 'over'} the budget of {budget:,}")
        return Fit(
            self._form.id,
            budget,
            before,
            after,
            now.tools(),
            tuple(self._dropped(ranking is not None)),
            tuple(steps),
        )

    def _less(self, ranking: list[int] | None, *, is_ranked: bool) -> list[str]:
        """Take steps until it fits or none is left."""
        now = self._now
        order = list(range(len(self._catalogue))) if ranking is None else ranking
        last_first = [row for row in reversed(order) if row not in self._kept]
        trims = optional_descriptions(self._catalogue, ranking)
        now.reduce_to(
            self._budget,
            [*(Step(row, name) for row, name in trims), *(Step(row, None) for row in last_first)],
        )
        steps = []
        if now.trimmed:
            steps.append(f"left out {len(now.trimmed):,} descriptions of optional parameters")
        if now.gone:
            how = "from the end of the list"
            if ranking is not None:
                how = "lowest for the query first"
                if not is_ranked:
                    how = "from the end of the list, since nothing matches the query"
            steps.append(f"left out {len(now.gone):,} tools, {how}")
        return steps

    def _more(self, ranking: list[int]) -> list[str]:
        """Bring back what still fits, best first."""
        now = self._now
        steps = []
        if back := now.bring_back(ranking, self._budget):
            steps.append(f"brought back {back:,} smaller tools that still fit")
        if restored := now.restore(ranking, self._budget):
            steps.append(f"brought back {restored:,} descriptions that still fit")
        return steps

    def _dropped(self, is_query: bool) -> list[Dropped]:
        items = []
        for step in self._now.taken:
            kind: DropKind = "description" if step.parameter else "rank" if is_query else "tail"
            tool_id = self._catalogue[step.row].id
            items.append(Dropped(tool_id, kind, _REASONS[kind], step.saved, step.parameter))
        return items
