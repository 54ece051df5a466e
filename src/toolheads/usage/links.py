"""Calls joined to the searches they followed."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from toolheads.usage.events import Call, Search
from toolheads.usage.files import UsageLog


@dataclass(frozen=True)
class LinkedSearch:
    """A search that a known tool was called after."""

    search: Search
    """Shows tools of the catalogue only."""
    called: tuple[str, ...]
    """Tools of which a call came back, each once, in the order of the first such call."""
    failed: tuple[str, ...] = ()
    """Tools that were called and only failed."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Tools shown above the last called one that were not called, best first.

        Who called the third tool has most likely looked at the first two and found them wanting
        ("click > skip above", Joachims 2002, https://doi.org/10.1145/775047.775067, section 2.3);
        what stands below may not have been looked at.
        """
        places = [self.search.shown.index(tool_id) for tool_id in self.called]
        above = self.search.shown[: max(places, default=0)]
        return tuple(t for t in above if t not in self.called and t not in self.failed)


@dataclass(frozen=True)
class Links:
    """Searches with a successful call, and what became of all other events."""

    searches: tuple[LinkedSearch, ...]
    """In the order of their times."""
    counts: dict[str, int]
    """What → how many; each call has one entry, and so has each search."""


def link(log: UsageLog, catalogue: Collection[str]) -> Links:
    """Join each call to its search.

    A call that names its search belongs to it, if that search showed the tool, and not later. A
    call without a search_id belongs to the latest search of its session, up to its time, that
    showed the tool. No other call says anything about a request.

    Args:
        log: The events.
        catalogue: Ids of the tools there are now; calls of others are left out, and they are
            taken out of the lists that were shown.
    """
    known = frozenset(catalogue)
    searches = _Searches(log)
    ok: dict[str, list[str]] = defaultdict(list)
    failed: dict[str, list[str]] = defaultdict(list)
    why = (
        *("calls used", "calls that failed", "calls of a tool that is not in the catalogue"),
        *("calls of a search that is not in the log", "calls before their search"),
        *("calls of a tool that their search did not show", "calls without a search"),
    )
    counts = dict.fromkeys(why, 0)
    for call in log.calls:
        found = searches.of(call) if call.tool_id in known else why[2]
        if isinstance(found, str):
            counts[found] += 1
        else:
            counts["calls used" if call.ok else "calls that failed"] += 1
            (ok if call.ok else failed)[found.search_id].append(call.tool_id)
    linked = []
    reasons = (
        *("searches used", "searches without a call", "searches of which all calls failed"),
        "searches without a text",
    )
    counts |= dict.fromkeys(reasons, 0)
    for search in log.searches:
        called = tuple(dict.fromkeys(ok[search.search_id]))
        lost = tuple(t for t in dict.fromkeys(failed[search.search_id]) if t not in called)
        if not called:
            counts[reasons[2] if lost else reasons[1]] += 1
        elif search.text is None:
            counts["searches without a text"] += 1
        else:
            counts["searches used"] += 1
            linked.append(LinkedSearch(_of_catalogue(search, known), called, lost))
    return Links(tuple(linked), counts)


class _Searches:
    """The searches by id, and by session and tool."""

    def __init__(self, log: UsageLog) -> None:
        self._by_id = {search.search_id: search for search in log.searches}
        self._showing: dict[tuple[str, str], list[Search]] = defaultdict(list)
        for search in log.searches:  # by time, so each list is
            for tool_id in search.shown:
                self._showing[search.session, tool_id].append(search)

    def of(self, call: Call) -> Search | str:
        """The search of a call, or why there is none."""
        if call.search_id:
            search = self._by_id.get(call.search_id)
            if search is None:
                return "calls of a search that is not in the log"
            if call.time < search.time:
                return "calls before their search"
            is_shown = call.tool_id in search.shown
            return search if is_shown else "calls of a tool that their search did not show"
        listed = self._showing.get((call.session, call.tool_id), [])
        at = bisect_right(listed, call.time, key=_time)
        return listed[at - 1] if at else "calls without a search"


def _time(search: Search) -> datetime:
    return search.time


def _of_catalogue(search: Search, known: frozenset[str]) -> Search:
    shown = tuple(tool_id for tool_id in search.shown if tool_id in known)
    return replace(search, shown=shown)
