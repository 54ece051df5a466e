"""The benchmark of text formats: which requests and tools it measures."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.text_formats.run import unseen

from toolheads.data import read_dataset


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    tools = [{"id": f"t{n}", "name": f"tool {n}", "description": "does it"} for n in range(3)]
    queries = [
        {"id": "a", "text": "first", "relevant": ["t0"], "split": "test", "part": "test_in_domain"},
        {
            "id": "b",
            "text": "other",
            "relevant": ["t1"],
            "split": "test",
            "part": "test_out_domain",
        },
        {"id": "c", "text": "third", "relevant": ["t2"], "split": "train"},
    ]
    for file, lines in (("tools.jsonl", tools), ("queries.jsonl", queries)):
        (folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_all_test_requests_and_all_tools_of_an_unseen_catalogue_count(tmp_path: Path) -> None:
    dataset = read_dataset(_folder(tmp_path, "mcp_bench"))
    queries, tools = unseen(dataset, tmp_path)
    assert [query.id for query in queries] == ["a", "b"]
    assert len(tools) == 3


def test_of_seal_tools_only_the_requests_of_unseen_fields_count(tmp_path: Path) -> None:
    dataset = read_dataset(_folder(tmp_path, "seal_tools"))
    assert [query.id for query in unseen(dataset, tmp_path)[0]] == ["b"]
