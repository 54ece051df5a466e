from __future__ import annotations

import json

import pytest

from toolheads.catalogue import change, read_catalogue, tools_digest
from toolheads.domain import Tool
from toolheads.errors import DataError

GOOD = b'{"id": "a/x", "server": "a", "name": "x"}'
OTHER = b'{"id": "a/y", "server": "a", "name": "y"}'


def folder_of(tmp_path, *lines):
    (tmp_path / "tools.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return tmp_path


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"id": "a/z", "name"', "invalid JSON"),
        (b"[1, 2]", "must be a JSON object"),
        (b'{"name": "z"}', "id is missing"),
        (b'{"id": "a/z", "name": "z", "description": "\\ud800"}', "lone surrogate"),
        (b'{"id": "a/z", "name": "z", "n": NaN}', "NaN is no JSON number"),
        (b"\xff\xfe", "invalid UTF-8"),
        (GOOD, "duplicate id 'a/x', first on line 1"),
        (b'{"id": 1, "name": "z"}', "id must be a string"),
        (b"[" * 100_000, "nest at most"),
    ],
)
def test_a_bad_line_costs_that_line(tmp_path, bad, reason):
    catalogue = read_catalogue(folder_of(tmp_path, GOOD, bad, OTHER))
    assert [tool.id for tool in catalogue.tools] == ["a/x", "a/y"]
    (fault,) = catalogue.faults
    assert fault.line == 2
    assert reason in fault.reason


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\u0085", "\x0b", "\r"])
def test_an_odd_line_break_in_a_description_costs_nothing(tmp_path, odd):
    tool = Tool("a/x", "x", "a", description=f"one{odd}two")
    change(tmp_path, "a", [tool], source={"kind": "mcp", "command": "c"})
    catalogue = read_catalogue(tmp_path)
    assert catalogue.tools == (tool,)
    assert not catalogue.faults


def test_a_tools_file_alone_is_a_catalogue_without_sources(tmp_path):
    catalogue = read_catalogue(folder_of(tmp_path, GOOD) / "tools.jsonl")
    assert len(catalogue.tools) == 1
    assert catalogue.sources == {}


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_tools_file_is_refused_unless_it_is_allowed(tmp_path, content):
    (tmp_path / "tools.jsonl").write_bytes(content)
    with pytest.raises(DataError, match="at least one tool, got none"):
        read_catalogue(tmp_path)
    assert read_catalogue(tmp_path, allow_empty=True).tools == ()


def test_a_file_of_bad_lines_alone_is_refused_with_each_of_them(tmp_path):
    with pytest.raises(DataError, match="must have a line without faults") as caught:
        read_catalogue(folder_of(tmp_path, b"{", b"["))
    assert [fault.line for fault in caught.value.faults] == [1, 2]


def test_a_missing_catalogue_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_catalogue(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        read_catalogue(tmp_path / "none")


def test_a_damaged_list_of_sources_is_a_fault_and_the_tools_are_still_there(tmp_path):
    (folder_of(tmp_path, GOOD) / "sources.json").write_text("{")
    catalogue = read_catalogue(tmp_path)
    assert len(catalogue.tools) == 1
    assert catalogue.sources == {}
    assert "sources.json" in catalogue.faults[0].path


def test_the_digest_knows_what_is_in_a_tool_and_not_the_order_of_tools(tmp_path):
    one = read_catalogue(folder_of(tmp_path, GOOD, OTHER)).digest
    spaced = json.dumps(json.loads(GOOD), indent=None, separators=(" ,  ", ":")).encode()
    other_order = read_catalogue(folder_of(tmp_path, OTHER, spaced)).digest
    changed = read_catalogue(folder_of(tmp_path, GOOD, OTHER.replace(b"}", b', "n": 1}'))).digest
    assert one == other_order != changed
    assert tools_digest([]) != one
    assert len(one) == 64
