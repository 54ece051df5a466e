"""Judged requests: what the searches of one text say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from toolheads.data.leaks import text_key
from toolheads.usage.links import LinkedSearch


@dataclass(frozen=True)
class JudgedRequest:
    """One text that was asked for, once or often."""

    text: str
    """As it was typed the first time."""
    called: Mapping[str, int]
    """Tool that came back from a call → after how many searches; at least one tool."""
    skipped: Mapping[str, int]
    """Tool that stood above a called one and never was called → in how many searches."""
    shown: tuple[str, ...]
    """What its searches showed, each tool once; best first as far as they agree."""
    searches: int
    """How many searches it stands for."""
    first: datetime
    last: datetime


def merge(searches: Iterable[LinkedSearch]) -> list[JudgedRequest]:
    """Join the searches whose texts are equal but for wording (`toolheads.data.leaks.text_key`).

    A tool that was called after one of them, even if the call failed, is not held against any.

    Args:
        searches: Each with a text.

    Returns:
        In the order of the first search of each text.
    """
    together: dict[str, list[LinkedSearch]] = {}
    for one in searches:
        together.setdefault(text_key(_text(one)), []).append(one)
    return [_merged(alike) for alike in together.values()]


def _merged(alike: list[LinkedSearch]) -> JudgedRequest:
    called = Counter(tool_id for one in alike for tool_id in one.called)
    failed = {tool_id for one in alike for tool_id in one.failed}
    skipped = Counter(tool_id for one in alike for tool_id in one.skipped)
    times = [one.search.time for one in alike]
    return JudgedRequest(
        text=_text(alike[0]),
        called=dict(called),
        skipped={t: n for t, n in skipped.items() if t not in called and t not in failed},
        shown=tuple(dict.fromkeys(tool_id for one in alike for tool_id in one.search.shown)),
        searches=len(alike),
        first=min(times),
        last=max(times),
    )


def _text(one: LinkedSearch) -> str:
    return one.search.text or ""
