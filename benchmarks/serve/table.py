"""From measurements to one table with ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.ancestor.table import markdown

CALLBUS, OURS = "callbus", "toolheads"
_Row = Mapping[str, Any]


def render(found: Mapping[str, Any]) -> str:
    """Markdown: what is measured, both sides, callbus / toolheads."""
    return "\n\n".join((_heading(found), _table(found["rows"], found["searched"]), *_notes(found)))


def _heading(found: Mapping[str, Any]) -> str:
    m = found["machine"]
    quick = " QUICK RUN: sizes too small for figures." if found["quick"] else ""
    return (
        f"{m['cpu']}, {m['cpus']} CPUs, Python {m['python']}; load {m['load_1_min']:.1f} at the "
        f"start; data: {found['data']}.{quick}"
    )


def _table(rows: Sequence[_Row], searched: int) -> str:
    lines: list[list[str]] = []

    def add(name: str, digits: int, value: Callable[[_Row], float], /, **about: Any) -> None:
        sides = [
            [value(r) for r in rows if r["system"] == system and about.items() <= r.items()]
            for system in (CALLBUS, OURS)
        ]
        if not any(sides):
            return
        theirs, ours = (statistics.median(side) if side else None for side in sides)
        ratio = f"{theirs / ours:.2f}x" if theirs is not None and ours else "-"
        shown = ["-" if x is None else f"{x:,.{digits}f}" for x in (theirs, ours)]
        lines.append([name, *shown, ratio])

    for count in sorted({row["tools"] for row in rows if row["what"] == "start"}):
        for kind in ("cold", "warm"):
            about = {"what": "start", "tools": count, "kind": kind}
            name = f"{kind} start, {count:,} tools"
            add(f"{name}, s to the first answer", 2, lambda r: r["answer_s"], **about)
            add(f"{name}, s to all vectors", 2, lambda r: r["ready_s"], **about)
            add(f"{name}, CPU s", 2, lambda r: r["cpu_s"], **about)
            add(f"{name}, MB resident", 0, lambda r: r["rss_mb"], **about)
            add(f"{name}, MB at the peak", 0, lambda r: r["peak_mb"], **about)
    for kind in ("cached", "new"):
        for clients in sorted({row["clients"] for row in rows if row["what"] == "search"}):
            about = {"what": "search", "clients": clients, "kind": kind}
            name = f"{kind} queries, {clients} client{'s' * (clients > 1)}"
            add(f"{name}, p50 ms", 2, lambda r: r["p50_ms"], **about)
            add(f"{name}, p99 ms", 2, lambda r: r["p99_ms"], **about)
            add(f"{name}, CPU ms a search", 2, lambda r: r["cpu_ms"], **about)
    add("MB resident after these searches", 0, lambda r: r["mb"], what="memory")
    name = f"one of {searched:,} tools changed"
    add(f"{name}, s until found", 2, lambda r: r["seconds"], what="change")
    add(f"{name}, CPU s", 2, lambda r: r["cpu_s"], what="change")
    add(f"{name}, slowest search beside it, ms", 1, lambda r: r["slowest_ms"], what="change")
    add(f"{name}, MB at the peak", 0, lambda r: r["peak_mb"], what="change")
    return markdown(["", CALLBUS, OURS, "ratio"], lines)


def _notes(found: Mapping[str, Any]) -> list[str]:
    searches = [row for row in found["rows"] if row["what"] == "search"]
    notes = [
        "Ratio: callbus / toolheads, above 1 toolheads takes less. Searches: "
        f"{found['searched']:,} tools, k 10, {found['seconds']:g} s of each load, clients that "
        "keep their connection and wait for nothing between two searches."
    ]
    if searches:
        size = {
            system: statistics.mean(r["answer_bytes"] for r in searches if r["system"] == system)
            for system in (CALLBUS, OURS)
            if any(r["system"] == system for r in searches)
        }
        notes[0] += " Mean answer: " + ", ".join(
            f"{system} {n / 1e3:.1f} kB" for system, n in size.items()
        )
        notes[0] += "."
    odd = [
        f"{row['system']}, {row['kind']} queries, {row['clients']} clients: of {row['searches']:,} "
        f"searches {row['by_words']:,} answered by words, {row['failures']:,} failed"
        + (f" ({row['first_failure']})" if row["failures"] else "")
        for row in searches
        if row["by_words"] or row["failures"]
    ]
    return notes + (["\n".join(f"- {line}." for line in odd)] if odd else [])
