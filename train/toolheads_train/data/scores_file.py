"""Files beside the data sets that say more of their queries: a teacher's scores, mined tools.

Both are JSONL with one line for each query, named by its data set and its id; queries that do not
train are passed over, and several lines of one query are a fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from toolheads.data.jsonl import LineError, parse_object, read_lines, to_line, write_lines
from toolheads.domain import Query
from toolheads.errors import DataError, Fault
from toolheads_train.data.selection import Selected, Selection

Key = tuple[str, str]
"""(data set, query id)."""

T = TypeVar("T")


@dataclass(frozen=True)
class Mined:
    """What mining found for one query."""

    negatives: tuple[str, ...]
    """Ids of hard negatives."""
    positives: tuple[str, ...] = ()
    """Ids of tools without a label that count as right."""


def read_teacher(path: str | Path) -> dict[Key, dict[str, float]]:
    """Read `{"data_set", "query_id", "scores": {tool id: score}}` lines.

    Raises:
        DataError: If a line breaks a rule; all faults are listed.
    """
    return _read(Path(path), ("scores",), _scores)


def write_teacher(path: str | Path, scores: Mapping[Key, Mapping[str, float]]) -> None:
    """Write what `read_teacher` reads, in the order given."""
    _write(path, ((key, {"scores": dict(one)}) for key, one in scores.items()))


def read_mined(path: str | Path) -> dict[Key, Mined]:
    """Read `{"data_set", "query_id", "negatives": [id], "positives": [id]}` lines.

    Raises:
        DataError: If a line breaks a rule; all faults are listed.
    """
    return _read(Path(path), ("negatives", "positives"), _mined)


def write_mined(path: str | Path, mined: Mapping[Key, Mined]) -> None:
    """Write what `read_mined` reads, in the order given."""
    _write(
        path,
        (
            (key, {"negatives": list(one.negatives), "positives": list(one.positives)})
            for key, one in mined.items()
        ),
    )


def with_files(
    selection: Selection, *, teacher: str | Path | None, mined: str | Path | None
) -> Selection:
    """Training queries with what the files say of them; it takes the place of their own.

    Raises:
        DataError: If a file breaks a rule, or names a tool that its data set does not have.
    """
    if teacher is not None:
        scores = read_teacher(teacher)
        selection = _each(
            selection,
            Path(teacher),
            scores,
            lambda query, one: (replace(query, teacher_scores=one), tuple(one)),
        )
    if mined is not None:
        selection = _each(selection, Path(mined), read_mined(mined), _with_mined)
    return selection


def _with_mined(query: Query, one: Mined) -> tuple[Query, Sequence[str]]:
    relevance = {**query.relevance, **dict.fromkeys(one.positives, 1)}
    right = {tool_id for tool_id, grade in relevance.items() if grade > 0}
    negatives = tuple(tool_id for tool_id in one.negatives if tool_id not in right)
    return (
        replace(query, relevance=relevance, negatives=negatives),
        (*one.negatives, *one.positives),
    )


def _each(
    selection: Selection,
    path: Path,
    found: Mapping[Key, T],
    change: Callable[[Query, T], tuple[Query, Sequence[str]]],
) -> Selection:
    def changed(one: Selected) -> Selected:
        name, tools = one.dataset.name, {tool.id for tool in one.dataset.tools}
        train = []
        for query in one.train:
            if (name, query.id) in found:
                query, named = change(query, found[name, query.id])
                unknown = next((tool_id for tool_id in named if tool_id not in tools), None)
                if unknown is not None:
                    msg = f"{path} must name tools of {name} for query {query.id}, got {unknown!r}"
                    raise DataError(msg)
            train.append(query)
        return replace(one, train=tuple(train))

    return replace(selection, datasets=tuple(map(changed, selection.datasets)))


def _read(
    path: Path, fields: Sequence[str], parse: Callable[[Mapping[str, Any]], T]
) -> dict[Key, T]:
    found: dict[Key, T] = {}
    faults: list[Fault] = []
    for number, line in read_lines(path):
        try:
            record = parse_object(line)
            key = _key(record, fields, found)
            found[key] = parse(record)
        except LineError as e:
            faults.append(Fault(str(path), number, str(e)))
    if faults:
        msg = f"{path} must have no faults, got {len(faults)}"
        raise DataError(msg, faults)
    return found


def _key(record: Mapping[str, Any], fields: Sequence[str], found: Mapping[Key, object]) -> Key:
    key = _text(record, "data_set"), _text(record, "query_id")
    known = ("data_set", "query_id", *fields)
    unknown = sorted(set(record) - set(known))
    if unknown:
        msg = f"a line must have the fields {', '.join(known)}, got {unknown[0]!r}"
        raise LineError(msg)
    if key in found:
        msg = f"a query must have one line, got a second one of {key[0]}, {key[1]!r}"
        raise LineError(msg)
    return key


def _write(path: str | Path, records: Iterable[tuple[Key, Mapping[str, Any]]]) -> None:
    write_lines(
        path,
        (
            to_line({"data_set": data_set, "query_id": query_id, **more})
            for (data_set, query_id), more in records
        ),
    )


def _scores(record: Mapping[str, Any]) -> dict[str, float]:
    scores = record.get("scores")
    is_number = isinstance(scores, dict) and all(
        isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)
        for x in scores.values()
    )
    if not is_number or not isinstance(scores, dict):
        msg = f"scores must be an object of numbers, got {scores!r:.60}"
        raise LineError(msg)
    return {str(tool_id): float(x) for tool_id, x in scores.items()}


def _mined(record: Mapping[str, Any]) -> Mined:
    return Mined(_ids(record, "negatives"), _ids(record, "positives"))


def _ids(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    ids = record.get(name, [])
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        msg = f"{name} must be a list of tool ids, got {ids!r:.60}"
        raise LineError(msg)
    return tuple(dict.fromkeys(ids))


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value:
        msg = f"{name} must be a string that is not empty, got {value!r:.60}"
        raise LineError(msg)
    return value
