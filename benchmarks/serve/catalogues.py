"""The same tools in the formats of both sides, and queries to search them with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolheads.catalogue import change
from toolheads.data import read_queries, read_tools, write_tools
from toolheads.domain import Tool
from toolheads.texts import TextSettings, format_tool

SOURCE = "data"
"""Name of the one source that all tools are of."""


def drawn_tools(root: Path, count: int | None, seed: int = 0) -> list[Tool]:
    """Tools of all data sets below a folder, in random order, with ids that are theirs alone."""
    found: list[Tool] = []
    for file in sorted(root.rglob("tools.jsonl")):
        for tool in read_tools(file):
            name = f"{file.parent.name}/{tool.id}"
            found.append(replace(tool, id=f"{SOURCE}/{name}", name=name, server=SOURCE))
    if not found:
        msg = f"DATA_DIR must hold tools.jsonl, got none in {root} or below it"
        raise ValueError(msg)
    order = np.random.default_rng(seed).permutation(len(found))[:count]
    return [found[row] for row in order]


def drawn_queries(root: Path, seed: int = 0) -> Iterator[str]:
    """Queries of all data sets in random order, none twice; numbered ones follow without an end."""
    texts: dict[str, None] = {}
    for file in sorted(root.rglob("queries.jsonl")):
        for query in read_queries(file):
            text = " ".join(query.text.split())[:400]
            texts[text] = None
    known = list(texts) or ["find a tool"]
    order = np.random.default_rng(seed).permutation(len(known))
    yield from (known[row] for row in order)
    number = 0
    while True:
        yield f"{known[order[number % len(known)]]} no. {number}"
        number += 1


def write_catalogues(folder: Path, tools: Sequence[Tool]) -> None:
    """`folder/toolheads` and `folder/callbus`, each with its own tools.jsonl."""
    write_toolheads(folder / "toolheads", tools)
    write_callbus(folder / "callbus", tools)


def write_toolheads(folder: Path, tools: Sequence[Tool]) -> None:
    """A catalogue as `toolheads ingest tools` makes it."""
    file = folder.parent / "source.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    write_tools(file, tools)
    change(folder, SOURCE, tools, source={"kind": "tools", "path": str(file)})


def write_callbus(folder: Path, tools: Sequence[Tool]) -> None:
    """With the text that toolheads embeds, so that both embed the same. Replaced as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tools.jsonl"
    part = file.with_suffix(".part")
    with part.open("w", encoding="utf-8") as lines:
        for tool in tools:
            lines.write(callbus_line(tool))
    part.replace(file)


def callbus_line(tool: Tool) -> str:
    record = {
        "id": tool.id,
        "doc": {
            "server": tool.server,
            "name": tool.name,
            "description": tool.description,
            "inputSchema": dict(tool.input_schema or {}),
        },
        "documentation": format_tool(tool, TextSettings()),
        "category": tool.server or "",
    }
    return json.dumps(record, ensure_ascii=True) + "\n"  # its reader cuts lines at U+2028, too
