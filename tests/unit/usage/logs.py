"""Small logs for tests: times are minutes after a fixed moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from toolheads.usage import Call, Search, UsageLog

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def at(minutes):
    return START + timedelta(minutes=minutes)


def search(number, minutes, shown="abc", *, session="v", text="", **more):
    found = {"text": f"request number {number}" if text == "" else text, "digest": "d", **more}
    return Search(at(minutes), f"s{number}", session, tuple(shown), **found)


def call(tool_id, minutes, *, of=None, session="v", ok=True, **more):
    found = {"search_id": f"s{of}"} if of is not None else {"session": session}
    return Call(at(minutes), tool_id, ok, error="" if ok else "timeout", **found, **more)


def log_of(*events, faults=()):
    return UsageLog(
        tuple(sorted((e for e in events if isinstance(e, Search)), key=lambda e: e.time)),
        tuple(sorted((e for e in events if isinstance(e, Call)), key=lambda e: e.time)),
        tuple(faults),
        lines=len(events) + len(faults),
        files=1,
        digest="0" * 64,
    )
