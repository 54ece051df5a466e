from __future__ import annotations

from toolheads.data import read_tools, write_tools
from toolheads.domain import Tool


def test_two_pairs_that_one_joined_string_would_make_are_two_tools(tmp_path):
    """Server `a` with tool `b/c`, and server `a/b` with tool `c`."""
    tools = [Tool("1", "b/c", "a"), Tool("2", "c", "a/b"), Tool("3", "a/b/c")]
    assert len({tool.identity for tool in tools}) == 3
    write_tools(tmp_path / "tools.jsonl", tools)
    assert [tool.identity for tool in read_tools(tmp_path / "tools.jsonl")] == [
        ("a", "b/c"),
        ("a/b", "c"),
        (None, "a/b/c"),
    ]
