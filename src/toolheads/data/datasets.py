"""A data set: a folder with `tools.jsonl` and, unless it is a catalogue only, `queries.jsonl`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from toolheads.data.files import OnFaults, Scan, scan_file, settle
from toolheads.data.jsonl import shown
from toolheads.data.records import to_query, to_tool
from toolheads.domain import Query, Tool
from toolheads.durable import file_sha256
from toolheads.errors import DataError, Fault

TOOLS_FILE = "tools.jsonl"
QUERIES_FILE = "queries.jsonl"


@dataclass(frozen=True)
class Dataset:
    """Tools, the queries that ask for them, and the digests of the files they came from."""

    name: str
    """Name of the folder."""
    tools: tuple[Tool, ...]
    queries: tuple[Query, ...]
    """Empty for a catalogue."""
    digest: dict[str, str]
    """File name → sha256, hex."""

    def split(self, name: str) -> tuple[Query, ...]:
        """The queries of one split, in file order."""
        return tuple(query for query in self.queries if query.split == name)


def read_dataset(
    folder: str | os.PathLike[str], *, skip_bad: bool = False, on_faults: OnFaults | None = None
) -> Dataset:
    """Read a data set.

    Args:
        folder: Holds `tools.jsonl` and, optionally, `queries.jsonl`.
        skip_bad: Carry on without the lines that have faults; a query that names a tool which
            is not there, or was left out, is such a line.
        on_faults: Called with the faults of the lines that were left out, if any.

    Raises:
        DataError: If there is a fault and `skip_bad` is off, or a file cannot be used at all.
    """
    root = Path(folder)
    tools = scan_file(tools_file(root), to_tool)
    has_queries = (root / QUERIES_FILE).exists()
    queries = scan_file(root / QUERIES_FILE, to_query) if has_queries else None
    if queries and (skip_bad or not tools.faults):  # else each fault would be told twice
        _refuse_unknown_tools(queries, {tool.id for tool in tools.items})
    settle([tools, *([queries] if queries else [])], skip_bad=skip_bad, on_faults=on_faults)
    files = [TOOLS_FILE, *([QUERIES_FILE] if has_queries else [])]
    return Dataset(
        name=root.resolve().name,
        tools=tuple(tools.items),
        queries=tuple(queries.items if queries else ()),
        digest={name: file_sha256(root / name) for name in files},
    )


def tools_file(folder: Path) -> Path:
    """The tools of a data set.

    Raises:
        DataError: If there is no such folder, or it has no tools.
    """
    path = folder / TOOLS_FILE
    if not path.exists():
        raise DataError(_no_dataset(folder))
    return path


def read_datasets(
    where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    skip_bad: bool = False,
    on_faults: OnFaults | None = None,
) -> list[Dataset]:
    """Read several data sets.

    Args:
        where: A data set, a folder of data sets (read in order of name), or a list of these.
        skip_bad: As in `read_dataset`.
        on_faults: As in `read_dataset`; called once for each data set that has faults.

    Raises:
        DataError: With the faults of all data sets, if there are any and `skip_bad` is off; if
            there is no data set; or if two have one name.
    """
    datasets: list[Dataset] = []
    faults: list[Fault] = []
    messages: list[str] = []
    for folder in dataset_folders(where):
        try:
            datasets.append(read_dataset(folder, skip_bad=skip_bad, on_faults=on_faults))
        except DataError as e:
            faults += e.faults
            messages.append(str(e).splitlines()[0])
    if len(messages) == 1:
        raise DataError(messages[0], faults)
    if messages:
        msg = f"{len(messages)} data sets have faults, the first: {messages[0]}"
        raise DataError(msg, faults)
    return datasets


def dataset_folders(
    where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[Path]:
    """The folders of the data sets in `where`, see `read_datasets`.

    Raises:
        DataError: If there is none, or two have one name.
    """
    roots = [where] if isinstance(where, str | os.PathLike) else list(where)
    folders = [folder for root in roots for folder in _folders_of(Path(root))]
    if not folders:
        msg = "there must be at least one data set, got an empty list"
        raise DataError(msg)
    by_name: dict[str, Path] = {}
    for folder in folders:
        other = by_name.setdefault(folder.resolve().name, folder)
        if other is not folder:
            msg = f"data sets must have different names, got {other} and {folder}"
            raise DataError(msg)
    return folders


def _folders_of(root: Path) -> list[Path]:
    if (root / TOOLS_FILE).exists():
        return [root]
    if not root.is_dir():
        raise DataError(_no_dataset(root))
    inner = sorted(folder for folder in root.iterdir() if (folder / TOOLS_FILE).exists())
    if not inner:
        msg = f"{root} must be a data set or hold some, got no {TOOLS_FILE} in it or below it"
        raise DataError(msg)
    return inner


def _no_dataset(root: Path) -> str:
    there = "a folder without it" if root.is_dir() else "a file"
    got = there if root.exists() else "no such folder"
    return f"a data set must be a folder with {TOOLS_FILE}, got {got}: {root}"


def _refuse_unknown_tools(queries: Scan[Query], known: set[str]) -> None:
    """Move the queries that name a tool which is not there to the faults."""
    kept: list[Query] = []
    lines: list[int] = []
    for query, line in zip(queries.items, queries.lines, strict=True):
        unknown = [
            f"{name} must name tools of {TOOLS_FILE}, got {shown(tool_id)}"
            for name, ids in (
                ("relevant", query.relevance),
                ("negatives", query.negatives),
                ("teacher_scores", query.teacher_scores),
            )
            for tool_id in ids
            if tool_id not in known
        ]
        for reason in unknown:
            queries.refuse(line, reason)
        if not unknown:
            kept.append(query)
            lines.append(line)
    queries.items, queries.lines = kept, lines
    queries.faults.sort(key=lambda fault: fault.line)  # stable: the order within a line stays
