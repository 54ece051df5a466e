"""Small files in the shapes of the real releases; every text is made up here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    arrow = pytest.importorskip("pyarrow", reason="needs the extra [data]")
    import pyarrow.parquet as parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.Table.from_pylist(rows), path)


def toolret_tools() -> dict[str, list[dict[str, Any]]]:
    """Corpus → rows; one tool for each way parameters are written."""
    web = {
        "category_name": "Tea",
        "tool_name": "TeaShop",
        "api_name": "Brew",
        "api_description": "Brews a cup.",
        "required_parameters": [{"name": "leaf", "type": "STRING", "description": "Which leaf"}],
        "optional_parameters": [{"name": "cups", "type": "NUMBER", "default": 1}],
        "method": "GET",
    }
    code = {
        "name": "steep_time",
        "description": "Minutes to steep.",
        "parameters": {"leaf": {"type": "str, optional", "description": "Leaf", "default": ""}},
    }
    custom = {
        "name": "pour",
        "description": "Pours.",
        "doc_arguments": {"type": "object", "properties": {"ml": {"type": "integer"}}},
    }
    return {
        "web": [{"id": "toolbench_tool_0", "documentation": json.dumps(web)}],
        "code": [{"id": "apigen_tool_0", "documentation": json.dumps(code)}],
        "customized": [
            {"id": "gta_tool_0", "documentation": json.dumps(custom)},
            {"id": "gta_tool_1", "documentation": "A spoon that stirs."},
        ],
    }


def toolret_queries() -> dict[str, list[dict[str, Any]]]:
    """Task → rows; a label has the whole documentation again, with a bare NaN in it."""
    labels = '[{"id": "toolbench_tool_0", "doc": {"name": "Brew", "price": NaN}, "relevance": 1}]'
    row = {
        "id": "toolbench_query_0",
        "query": "Make me a tea",
        "instruction": "Given a wish, find what fulfils it",
        "labels": labels,
        "category": "web",
    }
    return {
        "toolbench": [row],
        "mnms": [row | {"id": "mnms_query_17", "query": ""}],
    }


def write_toolret(folder: Path) -> Path:
    for corpus, rows in toolret_tools().items():
        write_parquet(folder / f"ToolRet-Tools/{corpus}/tools-00000-of-00001.parquet", rows)
    for task, rows in toolret_queries().items():
        write_parquet(folder / f"ToolRet-Queries/{task}/queries-00000-of-00001.parquet", rows)
    return folder


def training_row(**change: object) -> dict[str, Any]:
    brew = json.dumps({"name": "brew", "description": "Brews."})
    wash = json.dumps({"name": "wash", "description": "Washes."})
    row = {
        "id": "train_0",
        "query": "Tea please",
        "prompt": "Given a wish, find what fulfils it",
        "positive": [brew],
        "negative": [wash, brew],
    }
    return row | change


def live_tools() -> list[dict[str, Any]]:
    def entry(name: str, key: str, *tools: str) -> dict[str, Any]:
        listed = [
            {
                "name": tool,
                "description": None if tool == "grind" else f"Can {tool}.",
                "inputSchema": {"type": "object", "properties": {"at": {"type": "string"}}},
                "annotations": None,
            }
            for tool in tools
        ]
        server = {"server_name": key, "version": "0.1.0", "tools": listed}
        return {"name": name, "config": {}, "category": "Kitchen", "tools": {key: server}}

    return [entry("Mill Server", "mill", "grind", "clean"), entry("Pot", "pot", "brew", "clean")]


def live_task(number: int, *names: str) -> dict[str, Any]:
    listed = "\n".join(f"{i}. {name}" for i, name in enumerate(names, 1))
    return {
        "task_id": f"task-{number}",
        "Question": f"Wish number {number}",
        "answers": "",
        "category": "Kitchen",
        "file_name": "",
        "Annotator Metadata": {"Steps": "1. do", "Tools": listed, "Number of tools": "2"},
    }


def write_livemcpbench(folder: Path) -> Path:
    write_json(folder / "tools/tools.json", live_tools())
    write_json(
        folder / "tasks/tasks.json", [live_task(0, "grind", "clean", "fly"), live_task(1, "fly")]
    )
    return folder


def zero_server(**change: object) -> dict[str, Any]:
    tool = {
        "name": "brew",
        "description": "Brews.",
        "description_embedding": [0.5, 0.25],
        "parameter": {"leaf": "(string) Which leaf", "cups": "(Optional, number) How many"},
    }
    server = {
        "server_name": "tea/pot",
        "server_summary": "Tea.",
        "server_description": "A pot.",
        "summary_embedding": [0.5],
        "tools": [tool],
    }
    return server | change
