"""JSON objects to tools and queries and back. Knows no file.

Every rule a field breaks is collected, so that a line with three faults is mended once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from toolheads.data.jsonl import LineError, shown
from toolheads.domain import Query, Tool

SPLITS = ("train", "val", "test")
"""The splits a query may be in."""

_MCP_SCHEMA = "inputSchema"
"""The spelling of a tool listing of the Model Context Protocol."""

_TOOL_FIELDS = ("id", "server", "name", "description", "input_schema")
_QUERY_FIELDS = ("id", "text", "relevant", "split", "scores", "negatives", "teacher_scores")

T = TypeVar("T")


class RecordError(LineError):
    """A record breaks rules; `reasons` has one sentence for each."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


def to_tool(record: Mapping[str, Any]) -> Tool:
    """Read a tool; `inputSchema` is read where `input_schema` is absent.

    Raises:
        RecordError: If a field breaks a rule.
    """
    fields = _Fields(record)
    schema = "input_schema" if "input_schema" in record else _MCP_SCHEMA
    tool = Tool(
        id=fields.text("id"),
        name=fields.text("name"),
        server=fields.optional("server", str, "a string or null"),
        description=fields.optional("description", str, "a string or null") or "",
        input_schema=fields.optional(schema, dict, "an object or null"),
        extra=fields.rest(_TOOL_FIELDS),
    )
    fields.settle()
    return tool


def from_tool(tool: Tool) -> dict[str, Any]:
    """Write a tool with the fields of the data sets first, then those it has no name for.

    Raises:
        RecordError: If `extra` has a field of the tool itself.
    """
    record: dict[str, Any] = {
        "id": tool.id,
        "server": tool.server,
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
    }
    if tool.input_schema is not None and tool.extra.get(_MCP_SCHEMA) == tool.input_schema:
        del record["input_schema"]  # it came as inputSchema and is in `extra` under that name
    return record | _checked_extra(tool.extra, _TOOL_FIELDS)


def to_query(record: Mapping[str, Any]) -> Query:
    """Read a query.

    `relevant` is a list of tool ids, or a mapping tool id → grade. `scores`, a mapping too, adds
    grades to such a list. A grade is an integer >= 0; ids of the list have grade 1.

    Raises:
        RecordError: If a field breaks a rule.
    """
    fields = _Fields(record)
    relevance = _relevance(fields)
    negatives = tuple(fields.ids("negatives"))
    if both := [tool_id for tool_id in negatives if relevance.get(tool_id, 0) > 0]:
        fields.reasons.append(f"negatives must hold no relevant tool, got {shown(both[0])}")
    split = fields.optional("split", str, f"one of {', '.join(SPLITS)}")
    if split is not None and split not in SPLITS:
        fields.reasons.append(f"split must be one of {', '.join(SPLITS)}, got {shown(split)}")
    query = Query(
        id=fields.text("id"),
        text=fields.text("text"),
        relevance=relevance,
        split="test" if split is None else split,
        negatives=negatives,
        teacher_scores=fields.numbers("teacher_scores", _is_score, "a number"),
        extra=fields.rest(_QUERY_FIELDS),
    )
    fields.settle()
    return query


def from_query(query: Query) -> dict[str, Any]:
    """Write a query: `relevant` is always the list, `scores` is there if a grade is not 1.

    Raises:
        RecordError: If `extra` has a field of the query itself.
    """
    record: dict[str, Any] = {
        "id": query.id,
        "text": query.text,
        "relevant": list(query.relevant),
        "split": query.split,
    }
    if any(grade != 1 for grade in query.relevance.values()):
        record["scores"] = query.relevance
    if query.negatives:
        record["negatives"] = list(query.negatives)
    if query.teacher_scores:
        record["teacher_scores"] = query.teacher_scores
    return record | _checked_extra(query.extra, _QUERY_FIELDS)


class _Fields:
    """The fields of one record, with the rules they break."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.reasons: list[str] = []

    def text(self, name: str) -> str:
        value = self.record.get(name)
        if name not in self.record:
            self.reasons.append(f"{name} is missing")
        elif not isinstance(value, str):
            self.reasons.append(f"{name} must be a string, got {shown(value)}")
        elif not value.strip():
            self.reasons.append(f"{name} must not be empty, got {shown(value)}")
        else:
            return value
        return ""

    def optional(self, name: str, kind: type[T], rule: str) -> T | None:
        value = self.record.get(name)
        if value is None or isinstance(value, kind):
            return value
        self.reasons.append(f"{name} must be {rule}, got {shown(value)}")
        return None

    def ids(self, name: str) -> list[str]:
        value = self.record.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.reasons.append(f"{name} must be a list of tool ids, got {shown(value)}")
            return []
        if odd := [x for x in value if not isinstance(x, str) or not x]:
            self.reasons.append(f"{name} must hold tool ids, got {shown(odd[0])}")
            return []
        if len(set(value)) < len(value):
            twice = next(x for x in value if value.count(x) > 1)
            self.reasons.append(f"{name} must hold each tool once, got {shown(twice)} twice")
        return value

    def numbers(self, name: str, is_one: Callable[[Any], bool], rule: str) -> dict[str, Any]:
        value = self.record.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.reasons.append(f"{name} must map tool ids to numbers, got {shown(value)}")
            return {}
        for tool_id, number in value.items():
            if not is_one(number):
                self.reasons.append(
                    f"{name} of {shown(tool_id)} must be {rule}, got {shown(number)}"
                )
        return value

    def rest(self, known: tuple[str, ...]) -> dict[str, Any]:
        return {name: value for name, value in self.record.items() if name not in known}

    def settle(self) -> None:
        if self.reasons:
            raise RecordError(self.reasons)


def _relevance(fields: _Fields) -> dict[str, int]:
    grade_rule = "an integer >= 0"
    if isinstance(fields.record.get("relevant"), dict):
        listed: dict[str, int] = fields.numbers("relevant", _is_grade, grade_rule)
    else:
        listed = dict.fromkeys(fields.ids("relevant"), 1)
        if fields.record.get("relevant") is None and fields.record.get("scores") is None:
            fields.reasons.append("relevant is missing; an empty list says that no tool fits")
    scores = fields.numbers("scores", _is_grade, grade_rule)
    if denied := [tool_id for tool_id in scores if listed.get(tool_id) and scores[tool_id] == 0]:
        fields.reasons.append(
            f"scores must be > 0 for a relevant tool, got 0 for {shown(denied[0])}"
        )
    return listed | scores


def _is_grade(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_score(value: Any) -> bool:
    return type(value) in (int, float)


def _checked_extra(extra: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    if taken := [name for name in extra if name in known]:
        raise RecordError([f"extra must not hold {taken[0]}, a field of its own"])
    return dict(extra)
