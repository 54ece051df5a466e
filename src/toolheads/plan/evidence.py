"""What is published about ways to show a catalogue: the rows that stand behind a plan.

The numbers are those of the toolform study (its package 0.0.1, evidence of 2026-09-25): 51 to 53
models, generated tools, tables `tab_count` and `tab_disclosure_v2`. They were measured with the
format JSON Schema; retrieval is BM25 over 128 tools, the right one not forced in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

COUNT_TABLE = "paper:tab_count"
DISCLOSURE_TABLE = "paper:tab_disclosure_v2"

_GAIN = {
    4: (5.17, (1.23, 8.58)),
    16: (1.88, (-1.99, 5.32)),
    64: (11.24, (6.42, 16.64)),
    256: (26.72, (18.32, 34.98)),
}
"""Tools → points that a menu of names and descriptions gains on one prompt, 95 % interval."""

_EMPTY = {1: 0.0, 2: 0.0, 4: 0.0, 8: 0.0, 16: 0.5, 32: 2.48, 64: 4.95, 128: 18.57, 256: 40.77}
"""Tools → percent of turns in which models said nothing at all, all schemas in one prompt."""

_WHOLE, _RETRIEVED, _PANEL, _TOP = 12.70, 31.19, 128, 8


@dataclass(frozen=True)
class Evidence:
    """One published number."""

    source: str
    """Table it is from."""
    label: str
    value: float
    unit: str
    """`%` of turns, or `points` of them."""
    interval: tuple[float, float] | None = None
    """95 % interval, where one is published."""
    note: str = ""
    """How far the setting is from the one that is planned for."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self) | {"interval": None if self.interval is None else list(self.interval)}


def evidence_for(strategy: str, n_tools: int, *, menu_tools: int | None = None) -> list[Evidence]:
    """The rows for a strategy.

    Args:
        strategy: One of `toolheads.plan.STRATEGIES`.
        n_tools: Tools of the catalogue.
        menu_tools: Tools of the menu, where it does not list them all.
    """
    rows: list[Evidence] = []
    if strategy in ("retrieve", "retrieve_then_menu"):
        rows += _retrieval_rows(n_tools)
    rows.append(_gain_row(n_tools if menu_tools is None else menu_tools))
    if strategy in ("two_stage", "retrieve_then_menu"):
        rows += _empty_rows(n_tools)
    return rows


def nearest(n: int, measured: tuple[int, ...]) -> int:
    """The measured count that is nearest to n by its logarithm, the larger one of two."""
    for low, high in pairwise(measured):
        if n * n < low * high:  # below the geometric mean: exact, where logarithms round
            return low
    return measured[-1]


def _retrieval_rows(n_tools: int) -> list[Evidence]:
    note = f"measured on {_PANEL} tools, this catalogue has {n_tools:,}"
    return [
        Evidence(COUNT_TABLE, f"right calls, all {_PANEL} tools shown", _WHOLE, "%", note=note),
        Evidence(COUNT_TABLE, f"right calls, the best {_TOP} shown", _RETRIEVED, "%", note=note),
    ]


def _gain_row(n_tools: int) -> Evidence:
    count = nearest(n_tools, tuple(_GAIN))
    value, interval = _GAIN[count]
    label = f"gain of a menu over one prompt at {count} tools"
    return Evidence(DISCLOSURE_TABLE, label, value, "points", interval, _measured(count, n_tools))


def _empty_rows(n_tools: int) -> list[Evidence]:
    count = nearest(n_tools, tuple(_EMPTY))
    if not _EMPTY[count]:
        return []
    label = f"turns without any answer, {count} tools in one prompt"
    return [Evidence(COUNT_TABLE, label, _EMPTY[count], "%", note=_measured(count, n_tools))]


def _measured(count: int, n_tools: int) -> str:
    return "" if count == n_tools else f"measured at {count} tools, this has {n_tools:,}"
