"""TREC run and qrels files, as trec_eval reads them.

A run line is `query_id Q0 tool_id rank score tag`, a qrels line `query_id 0 tool_id relevance`;
fields stand between blanks. Ids of this package may hold blanks, so a line whose ids need it is
written percent-encoded and says so: its second field, which trec_eval ignores, ends in `%`. Files
of other programs have no such mark and are taken as they are, so `100%25` stays `100%25`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from toolheads.errors import DataError, Fault

_MARK = "%"
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f%]")
"""What an id cannot hold in a line: what any reader may split at, and the escape itself."""


def read_run(path: Path | str) -> dict[str, list[str]]:
    """Read a run, ordered as trec_eval orders it.

    trec_eval ignores the rank column and the order of lines: it sorts by score, highest first, and
    equal scores (compared as float32) by tool id as written, last first.

    Returns:
        query_id → tool ids, best first, in the order in which queries first occur.

    Raises:
        DataError: If a line has no 6 fields, a score is no finite number, or a tool occurs twice
            for a query; all faults are listed.
    """
    found: dict[str, list[tuple[np.float32, bytes, str]]] = {}
    seen: set[tuple[str, str]] = set()
    faults = []
    for number, fields in _lines(Path(path)):
        try:
            query_id, tool_id = _ids(fields, 6)
            found.setdefault(query_id, []).append((_score(fields[4]), fields[2].encode(), tool_id))
            _once(seen, query_id, tool_id)
        except ValueError as e:
            faults.append(Fault(str(path), number, str(e)))
    _refuse(path, faults)
    return {
        query_id: [tool_id for _, _, tool_id in sorted(hits, key=lambda h: h[:2], reverse=True)]
        for query_id, hits in found.items()
    }


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read judgements.

    Returns:
        query_id → {tool_id: relevance}. A relevance below 0 (TREC's mark for junk) becomes 0: for
        every metric here both mean not relevant.

    Raises:
        DataError: If a line has no 4 fields, a relevance is no whole number, or a tool occurs twice
            for a query; all faults are listed.
    """
    qrels: dict[str, dict[str, int]] = {}
    seen: set[tuple[str, str]] = set()
    faults = []
    for number, fields in _lines(Path(path)):
        try:
            query_id, tool_id = _ids(fields, 4)
            _once(seen, query_id, tool_id)
            qrels.setdefault(query_id, {})[tool_id] = max(_relevance(fields[3]), 0)
        except ValueError as e:
            faults.append(Fault(str(path), number, str(e)))
    _refuse(path, faults)
    return qrels


def write_run(
    path: Path | str, run: Mapping[str, Sequence[tuple[str, float]]], *, tag: str = "toolheads"
) -> None:
    """Write ranked tools with their scores, so that every reader orders them as given.

    Where a score does not fall below the one before (a tie, as float32), the next smaller float32
    is written instead: trec_eval would reorder a tie by id.

    Args:
        path: File to write; its folder must exist.
        run: query_id → (tool_id, score), best first.
        tag: Name of the system; blanks become `_`.

    Raises:
        DataError: If an id is empty or no text, a tool occurs twice, or a score is not finite or
            rises.
    """
    tag = re.sub(r"\s+", "_", tag) or "toolheads"
    _write(
        path, (line for query_id, hits in run.items() for line in _run_lines(query_id, hits, tag))
    )


def write_qrels(path: Path | str, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write judgements.

    Raises:
        DataError: If an id is empty or no text.
    """
    _write(
        path,
        (
            f"{query} 0{mark} {tool} {int(relevance)}"
            for query_id, judged in qrels.items()
            for tool_id, relevance in judged.items()
            for query, mark, tool in [_written(query_id, tool_id)]
        ),
    )


def _run_lines(query_id: str, hits: Sequence[tuple[str, float]], tag: str) -> Iterator[str]:
    last = np.float32(np.inf)
    seen: set[tuple[str, str]] = set()
    for rank, (tool_id, score) in enumerate(hits, start=1):
        single = _float32(score)
        if not np.isfinite(single):
            msg = f"scores of query {query_id!r} must be finite, got {score} for {tool_id!r}"
            raise DataError(msg)
        if rank > 1 and score > hits[rank - 2][1]:
            msg = f"scores of query {query_id!r} must not rise, got {score} at rank {rank}"
            raise DataError(msg)
        try:
            _once(seen, query_id, tool_id)
        except ValueError as e:
            raise DataError(str(e)) from e
        last = min(single, np.nextafter(last, np.float32(-np.inf)))
        query, mark, tool = _written(query_id, tool_id)
        # 9 significant digits give the same float32 back.
        yield f"{query} Q0{mark} {tool} {rank} {last:.9g} {tag}"


def _written(query_id: str, tool_id: str) -> tuple[str, str, str]:
    """Query id, mark and tool id as they stand in a line."""
    for name, value in (("query", query_id), ("tool", tool_id)):
        if not value or any("\ud800" <= c <= "\udfff" for c in value):
            msg = f"a {name} id must be text that is not empty, got {value!r}"
            raise DataError(msg)
    if not (_BLANKS.search(query_id) or _BLANKS.search(tool_id)):
        return query_id, "", tool_id
    return _escaped(query_id), _MARK, _escaped(tool_id)


def _escaped(value: str) -> str:
    return _BLANKS.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), value)


def _write(path: Path | str, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)  # built whole: a refused run leaves no file
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields of the lines that are not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        msg = f"{path} must be UTF-8, got byte {e.object[e.start]:#04x} at {e.start}"
        raise DataError(msg) from e
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if fields:
            yield number, fields


def _ids(fields: Sequence[str], count: int) -> tuple[str, str]:
    if len(fields) != count:
        msg = f"a line must have {count} fields, got {len(fields)}"
        raise ValueError(msg)
    if not fields[1].endswith(_MARK):
        return fields[0], fields[2]
    return unquote(fields[0], errors="strict"), unquote(fields[2], errors="strict")


def _score(field: str) -> np.float32:
    try:
        score = _float32(float(field))
    except ValueError:
        score = np.float32(np.nan)
    if not np.isfinite(score):
        msg = f"a score must be a finite number, got {field!r}"
        raise ValueError(msg)
    return score


def _float32(score: float) -> np.float32:
    with np.errstate(over="ignore"):  # a number beyond float32 becomes inf and is refused
        return np.float32(score)


def _relevance(field: str) -> int:
    try:
        return int(field)
    except ValueError as e:
        msg = f"a relevance must be a whole number, got {field!r}"
        raise ValueError(msg) from e


def _once(seen: set[tuple[str, str]], query_id: str, tool_id: str) -> None:
    if (query_id, tool_id) in seen:
        msg = f"query {query_id!r} must name each tool once, got {tool_id!r} twice"
        raise ValueError(msg)
    seen.add((query_id, tool_id))


def _refuse(path: Path | str, faults: list[Fault]) -> None:
    if faults:
        msg = f"{path} has {len(faults)} bad lines"
        raise DataError(msg, faults)
