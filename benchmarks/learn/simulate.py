"""People who use one catalogue, and the log that a server would keep of them.

A searcher shows tools; a person calls the right one if it is there, and errs now and then. What
the log says is therefore neither complete (only shown tools can be called) nor clean.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from toolheads.domain import Query
from toolheads.usage import Call, Search, UsageWriter, text_digest

BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)

Show = Callable[[Sequence[str]], list[list[str]]]
"""Texts → the tools that are shown for each, best first."""


@dataclass(frozen=True)
class Habits:
    """How people use what they are shown."""

    days: int = 30
    repeats: float = 0.4
    """Mean number of times that a request is made again later."""
    silent: float = 0.1
    """Share of searches after which nothing is called, though the right tool was there."""
    wrong: float = 0.1
    """Share of searches after which another of the shown tools is called."""
    lost: float = 0.2
    """The same where no right tool was shown; else nothing is called."""
    fails: float = 0.05
    """Share of calls that fail."""
    by_session: float = 0.5
    """Share of calls that do not name their search."""
    is_random: bool = False
    """Whether any of the shown tools is called, whatever was asked for."""


def simulate(
    queries: Sequence[Query], show: Show, *, heads: str, habits: Habits, seed: int
) -> list[Search | Call]:
    """The events of some weeks, in order.

    Args:
        queries: What is asked for, with what is right.
        show: The searcher.
        heads: sha256 of its heads.
        habits: What people do.
        seed: Of everything random.
    """
    rng = np.random.default_rng(seed)
    lists = dict(zip([q.id for q in queries], show([q.text for q in queries]), strict=True))
    asked: list[tuple[datetime, Query]] = []
    for query in queries:
        first = float(rng.uniform(0, habits.days))
        again = rng.uniform(first, habits.days, size=rng.poisson(habits.repeats))
        asked += [(BEGIN + timedelta(days=day), query) for day in (first, *again.tolist())]
    asked.sort(key=lambda one: (one[0], one[1].id))
    events: list[Search | Call] = []
    session, left = 0, 0
    for number, (time, query) in enumerate(asked):
        if not left:
            session, left = session + 1, int(rng.integers(1, 5))
        left -= 1
        search = Search(
            time=time,
            search_id=f"s{number}",
            session=f"visit-{session}",
            shown=tuple(lists[query.id]),
            text=query.text,
            digest=text_digest(query.text),
            heads=heads,
        )
        events.append(search)
        for place, tool_id in enumerate(_called(query, search.shown, habits, rng)):
            failed = rng.random() < habits.fails
            names = rng.random() >= habits.by_session
            events.append(
                Call(
                    time=time + timedelta(seconds=20 * (place + 1)),
                    tool_id=tool_id,
                    ok=not failed,
                    search_id=search.search_id if names else "",
                    session=search.session,
                    error="timeout" if failed else "",
                )
            )
    return events


def _called(
    query: Query, shown: Sequence[str], habits: Habits, rng: np.random.Generator
) -> list[str]:
    if habits.is_random:
        return [shown[int(rng.integers(len(shown)))]] if shown else []
    right = [tool_id for tool_id in shown if tool_id in query.relevant]
    others = [tool_id for tool_id in shown if tool_id not in query.relevant]
    if rng.random() < habits.silent:
        return []
    slips = rng.random() < (habits.wrong if right else habits.lost)
    if slips and others:
        return [others[int(rng.integers(len(others)))]]
    return right


# -- logs that nothing should be learnt from ---------------------------------------------------


def shuffled_ids(
    events: Sequence[Search | Call], tools: Sequence[str], *, seed: int
) -> list[Search | Call]:
    """Every id stands for another tool, all through the log: a log of another catalogue."""
    order = np.random.default_rng(seed).permutation(len(tools))
    other = {tool: tools[at] for tool, at in zip(tools, order.tolist(), strict=True)}
    return [
        replace(one, shown=tuple(other[t] for t in one.shown))
        if isinstance(one, Search)
        else replace(one, tool_id=other[one.tool_id])
        for one in events
    ]


def shuffled_calls(events: Sequence[Search | Call], *, seed: int) -> list[Search | Call]:
    """Each call is of a tool that was called after another search."""
    tools = [one.tool_id for one in events if isinstance(one, Call)]
    order = iter(np.random.default_rng(seed).permutation(len(tools)).tolist())
    return [
        one if isinstance(one, Search) else replace(one, tool_id=tools[next(order)])
        for one in events
    ]


def shuffled_texts(events: Sequence[Search | Call], *, seed: int) -> list[Search | Call]:
    """Each search has the text of another one."""
    texts = [one.text for one in events if isinstance(one, Search)]
    order = iter(np.random.default_rng(seed).permutation(len(texts)).tolist())
    return [
        replace(one, text=texts[next(order)]) if isinstance(one, Search) else one for one in events
    ]


def first_searches(events: Sequence[Search | Call], count: int) -> list[Search | Call]:
    """The first so many searches that a call names, with their calls."""
    named = [one.search_id for one in events if isinstance(one, Call) and one.ok]
    kept = set([name for name in dict.fromkeys(named) if name][:count])
    return [one for one in events if one.search_id in kept]


def write_log(folder: Path, events: Sequence[Search | Call], *, keep_texts: bool = True) -> None:
    """Write events as a server would, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    writer = UsageWriter(folder, keep_texts=keep_texts)
    for event in events:
        writer.write(event)


def cut_lines(folder: Path, share: float, *, seed: int) -> None:
    """Cut a share of all lines in half, as a full disk or a kill does."""
    rng = np.random.default_rng(seed)
    for path in sorted(folder.glob("usage-*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line[: len(line) // 2] if rng.random() < share else line for line in lines]
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")
