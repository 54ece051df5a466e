"""ToolRet: tools of three corpora and queries of 35 tasks, and its training set.

Shapes: `ToolRet-Tools/<corpus>/*.parquet` with id and documentation; `ToolRet-Queries/<task>/
*.parquet` with id, query, instruction, labels (JSON list of {id, doc, relevance}) and category;
`ToolRet-Training-20w` with id, query, prompt, and lists of documentations positive and negative.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from toolheads.data.releases.documentation import to_documented_tool
from toolheads.data.releases.release import Converted
from toolheads.data.releases.rows import files_below, parse_json, read_rows, whole_text
from toolheads.domain import Query, Tool
from toolheads.errors import DataError

_TOOL_COLUMNS = ("id", "documentation")
_QUERY_COLUMNS = ("id", "query", "instruction", "labels")
_TRAINING_COLUMNS = ("id", "query", "prompt", "positive", "negative")


def convert_toolret(folder: Path) -> Converted:
    """Read ToolRet's benchmark: `ToolRet-Tools` and `ToolRet-Queries` below a folder.

    All queries are test queries. `task` and `category` are kept beside a query with its
    `instruction`; the corpus and the documentation's text beside a tool.

    Raises:
        DataError: If the files are not the release's.
    """
    left_out: Counter[str] = Counter()
    tools = _toolret_tools(folder / "ToolRet-Tools", left_out)
    queries: dict[str, Query] = {}
    for path in files_below(folder / "ToolRet-Queries", "*/*"):
        task = path.parent.name
        for row in read_rows(path, _QUERY_COLUMNS):
            query = _toolret_query(row, task, f"{task} of ToolRet-Queries", tools)
            if not query.text.strip():
                left_out["queries without a text"] += 1
            elif query.id in queries:
                msg = f"{path} must have each query once, got {query.id!r} again"
                raise DataError(msg)
            else:
                queries[query.id] = query
    return Converted(list(tools.values()), list(queries.values()), left_out)


def convert_toolret_train(folder: Path) -> Converted:
    """Read ToolRet's training set.

    A tool is known by its documentation alone, so its id is the digest of that text. The mined
    negatives become `negatives`; one that is a positive as well counts as a positive.

    Raises:
        DataError: If the files are not the release's.
    """
    left_out: Counter[str] = Counter()
    tools: dict[str, Tool] = {}
    queries: list[Query] = []
    ids: Counter[str] = Counter()

    def tool_ids(documentations: Any, where: str) -> list[str]:
        if not isinstance(documentations, list):
            msg = f"{where} must be a list of documentations, got {documentations!r:.60}"
            raise DataError(msg)
        found: dict[str, None] = {}
        for documentation in documentations:
            text = documentation if isinstance(documentation, str) else json.dumps(documentation)
            tool_id = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]
            if tool_id not in tools:
                tools[tool_id] = to_documented_tool(tool_id, text)
            found[tool_id] = None
        return list(found)

    for path in files_below(folder):
        for row in read_rows(path, _TRAINING_COLUMNS):
            name = str(row["id"])
            positive = tool_ids(row["positive"], f"positive of {name!r} in {path}")
            negative = tool_ids(row["negative"], f"negative of {name!r} in {path}")
            text = whole_text(str(row["query"] or ""))
            if not text.strip() or not positive:
                left_out["queries without a text or a tool"] += 1
                continue
            ids[name] += 1
            queries.append(
                Query(
                    id=name if ids[name] == 1 else f"{name}#{ids[name]}",
                    text=text,
                    relevance=dict.fromkeys(positive, 1),
                    split="train",
                    negatives=tuple(one for one in negative if one not in set(positive)),
                    extra={"instruction": whole_text(str(row["prompt"] or ""))},
                )
            )
    return Converted(list(tools.values()), queries, left_out)


def _toolret_tools(folder: Path, left_out: Counter[str]) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    texts: dict[str, Any] = {}
    for path in files_below(folder, "*/*"):
        for row in read_rows(path, _TOOL_COLUMNS):
            tool_id, documentation = row["id"], row["documentation"]
            if not isinstance(tool_id, str) or not tool_id or not documentation:
                msg = f"{path} must have an id and a documentation in each row, got {row!r:.80}"
                raise DataError(msg)
            if tool_id not in tools:
                corpus = {"category": path.parent.name}
                tools[tool_id] = to_documented_tool(tool_id, documentation, **corpus)
                texts[tool_id] = documentation
            elif texts[tool_id] == documentation:
                left_out["tools that were there before"] += 1
            else:
                msg = f"{path} must have one documentation for a tool, got another of {tool_id!r}"
                raise DataError(msg)
    return tools


def _toolret_query(row: dict[str, Any], task: str, where: str, tools: dict[str, Tool]) -> Query:
    name = str(row["id"])
    labels = row["labels"]
    try:
        labels = parse_json(labels) if isinstance(labels, str) else labels
        relevance = {str(label["id"]): int(label.get("relevance", 1)) for label in labels}
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        msg = (
            f"labels of {name!r} in {where} must be a list of id and relevance, got {labels!r:.60}"
        )
        raise DataError(msg) from e
    if unknown := [tool_id for tool_id in relevance if tool_id not in tools]:
        msg = f"labels of {name!r} in {where} must name tools of ToolRet-Tools, got {unknown[0]!r}"
        raise DataError(msg)
    extra = {"task": task, "instruction": whole_text(str(row["instruction"] or ""))}
    if category := row.get("category"):
        extra["category"] = str(category)
    text = whole_text(str(row["query"] or ""))
    return Query(id=name, text=text, relevance=relevance, extra=extra)
