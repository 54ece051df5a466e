"""The two events of a usage log, and the lines they are written as. Knows no file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolheads.data.jsonl import shown as as_shown
from toolheads.errors import ConfigError

VERSION = 1
"""Of the format of a line. A line of another version is not read."""


@dataclass(frozen=True)
class Search:
    """A request was made, and a list of tools was shown."""

    time: datetime
    """When; with a time zone."""
    search_id: str
    """Unique in the log."""
    session: str
    """What belongs together: one conversation, one connection."""
    shown: tuple[str, ...]
    """Tool ids, best first, each once; may be empty."""
    text: str | None = None
    """The request as it was typed; None where the operator keeps no texts."""
    digest: str = ""
    """Stands for the text in a log without texts; equal for equal texts, else opaque."""
    heads: str = ""
    """sha256 of the heads file that ranked; empty where no heads did."""
    mode: str = ""
    """How it was ranked, such as `dense` or `lexical`."""
    catalogue: str = ""
    """Digest of the tools that were searched."""
    client: str = ""
    """Name of the key that asked."""
    via: str = ""
    """The door it came through: `mcp`, `rest`, `stdio`."""
    took_ms: float | None = None


@dataclass(frozen=True)
class Call:
    """A tool was called."""

    time: datetime
    """When; with a time zone."""
    tool_id: str
    ok: bool
    """Whether the call came back without an error."""
    search_id: str = ""
    """The search that it followed, if that is known."""
    session: str = ""
    """The session it was made in; with it the search is found where `search_id` is empty."""
    error: str = ""
    """Kind of the error, such as `timeout`; empty if there was none."""
    call_id: str = ""
    """Unique, so that an answer and a line can be told to belong together."""
    arguments: str | None = None
    """As JSON; None where the operator keeps no texts."""
    arguments_digest: str = ""
    """Stands for the arguments in a log without texts."""
    client: str = ""
    """Name of the key that called."""
    via: str = ""
    """The door it came through: `mcp`, `rest`, `stdio`; `feedback` for a call made elsewhere."""
    took_ms: float | None = None


Event = Search | Call

TEXTS = ("text", "arguments")
"""Fields that hold what people wrote; left out where the operator keeps no texts."""

_SEARCH_OPTIONAL = ("text", "digest", "heads", "mode", "catalogue", "client", "via")
_CALL_OPTIONAL = (
    *("search_id", "session", "error", "call_id", "arguments", "arguments_digest"),
    *("client", "via"),
)


class EventError(ValueError):
    """One record is no event; `reasons` has one sentence for each rule it breaks."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


def text_digest(text: str) -> str:
    """sha256 of a text in UTF-8, hex. Whoever knows a text can find it in a log of digests."""
    return hashlib.sha256(text.encode()).hexdigest()


def to_record(event: Event) -> dict[str, Any]:
    """The JSON object of an event; times in UTC, empty fields left out.

    Raises:
        ConfigError: If the event breaks a rule, so that it could not be read back.
    """
    record: dict[str, Any] = {"version": VERSION, "time": _in_utc(event.time)}
    if isinstance(event, Search):
        record |= {"event": "search", "search_id": event.search_id, "session": event.session}
        record |= {"shown": list(event.shown)}
        names: tuple[str, ...] = _SEARCH_OPTIONAL
    else:
        record |= {"event": "call", "tool_id": event.tool_id, "ok": event.ok}
        names = _CALL_OPTIONAL
    optional = {name: getattr(event, name) for name in (*names, "took_ms")}
    record |= {name: value for name, value in optional.items() if value not in (None, "")}
    try:
        from_record(record)
    except EventError as e:
        msg = f"an event must be one that can be read back, got: {e}"
        raise ConfigError(msg) from e
    return record


def from_record(record: Mapping[str, Any]) -> Event:
    """Read an event. Fields this version has no name for are passed over.

    Raises:
        EventError: If a field is missing or breaks its rule.
    """
    fields = _Fields(record)
    version = record.get("version")
    if type(version) is not int or version != VERSION:
        raise EventError([f"version must be {VERSION}, got {as_shown(version)}"])
    time, kind = fields.time(), record.get("event")
    event: Event
    if kind == "search":
        event = Search(
            time=time,
            search_id=fields.text("search_id"),
            session=fields.text("session"),
            shown=fields.ids("shown"),
            text=fields.optional("text") or None,
            took_ms=fields.milliseconds(),
            **{name: fields.optional(name) for name in _SEARCH_OPTIONAL if name != "text"},
        )
        if event.text is None and not event.digest:
            fields.reasons.append("a search must have a text or a digest, got neither")
    elif kind == "call":
        event = Call(
            time=time,
            tool_id=fields.text("tool_id"),
            ok=fields.flag("ok"),
            arguments=fields.optional("arguments") or None,
            took_ms=fields.milliseconds(),
            **{name: fields.optional(name) for name in _CALL_OPTIONAL if name != "arguments"},
        )
        if not event.search_id and not event.session:
            fields.reasons.append("a call must have a search_id or a session, got neither")
    else:
        raise EventError([f"event must be search or call, got {as_shown(kind)}"])
    if fields.reasons:
        raise EventError(fields.reasons)
    return event


def _in_utc(time: datetime) -> str:
    if time.tzinfo is None:
        msg = f"time must have a time zone, got {time.isoformat()}"
        raise ConfigError(msg)
    return time.astimezone(UTC).isoformat()


class _Fields:
    """The fields of one record, with the rules they break."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.reasons: list[str] = []

    def text(self, name: str) -> str:
        value = self.record.get(name)
        if isinstance(value, str) and value.strip():
            return value
        self.reasons.append(f"{name} must be a string that is not empty, got {as_shown(value)}")
        return ""

    def optional(self, name: str) -> str:
        value = self.record.get(name)
        if value is None or isinstance(value, str):
            return value if value and value.strip() else ""
        self.reasons.append(f"{name} must be a string or null, got {as_shown(value)}")
        return ""

    def milliseconds(self) -> float | None:
        value = self.record.get("took_ms")
        if value is None or (type(value) in (int, float) and 0 <= value < math.inf):
            return None if value is None else float(value)
        self.reasons.append(f"took_ms must be a number >= 0 or null, got {as_shown(value)}")
        return None

    def flag(self, name: str) -> bool:
        value = self.record.get(name)
        if type(value) is not bool:
            self.reasons.append(f"{name} must be true or false, got {as_shown(value)}")
        return value is True

    def ids(self, name: str) -> tuple[str, ...]:
        value = self.record.get(name)
        if not isinstance(value, list) or not all(isinstance(x, str) and x for x in value):
            self.reasons.append(f"{name} must be a list of tool ids, got {as_shown(value)}")
            return ()
        if len(set(value)) < len(value):
            self.reasons.append(f"{name} must hold each tool once, got {as_shown(value)}")
        return tuple(value)

    def time(self) -> datetime:
        value = self.record.get("time")
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else None
            if time is not None and time.tzinfo is not None:
                return time.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        self.reasons.append(f"time must be ISO 8601 with a time zone, got {as_shown(value)}")
        return datetime.min.replace(tzinfo=UTC)
