from __future__ import annotations

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolheads.catalogue import Changes, change, drop, read_catalogue, read_sources
from toolheads.catalogue.names import tool_id
from toolheads.domain import Tool
from toolheads.errors import ConfigError, DataError

SOURCE = {"kind": "mcp", "command": "server", "env": {"KEY": "${KEY}"}}


def tool(server, name, **fields):
    return Tool(tool_id(server, name), name, server, **fields)


def put(folder, server, *names, **options):
    tools = [tool(server, name) for name in names]
    return change(folder, server, tools, source=SOURCE, **options)


def ids(folder):
    return [one.id for one in read_catalogue(folder, allow_empty=True).tools]


def test_a_change_says_what_became_of_each_tool(tmp_path):
    put(tmp_path, "a", "x", "y", "z")
    new = [tool("a", "x"), tool("a", "y", description="other"), tool("a", "w")]
    changes = change(tmp_path, "a", new, source=SOURCE)
    assert changes == Changes(("a/w",), ("a/y",), ("a/z",), ("a/x",))
    assert ids(tmp_path) == ["a/x", "a/y", "a/w"]


def test_only_the_tools_of_the_source_are_replaced(tmp_path):
    put(tmp_path, "a", "x")
    put(tmp_path, "b", "x")
    put(tmp_path, "a", "y")
    assert sorted(ids(tmp_path)) == ["a/y", "b/x"]
    assert set(read_sources(tmp_path)) == {"a", "b"}


def test_a_source_keeps_its_references_to_variables(tmp_path):
    put(tmp_path, "a", "x")
    assert read_sources(tmp_path) == {"a": SOURCE}


def test_nothing_is_written_where_nothing_changes(tmp_path):
    put(tmp_path, "a", "x", "y")
    before = [(tmp_path / name).stat() for name in ("tools.jsonl", "sources.json")]
    assert not put(tmp_path, "a", "y", "x")
    after = [(tmp_path / name).stat() for name in ("tools.jsonl", "sources.json")]
    assert [(s.st_ino, s.st_mtime_ns) for s in before] == [(s.st_ino, s.st_mtime_ns) for s in after]


def test_another_order_of_a_schemas_properties_is_a_change(tmp_path):
    one: dict = {"properties": {"p": {}, "q": {}}}
    other: dict = {"properties": {"q": {}, "p": {}}}
    change(tmp_path, "a", [tool("a", "x", input_schema=one)], source=SOURCE)
    changes = change(tmp_path, "a", [tool("a", "x", input_schema=other)], source=SOURCE)
    assert changes.changed == ("a/x",)


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path):
    assert put(tmp_path / "new", "a", "x", dry_run=True).added == ("a/x",)
    assert not (tmp_path / "new").exists()


def test_lines_that_cannot_be_read_stay_as_they_are(tmp_path):
    put(tmp_path, "a", "x")
    bad = b'{"id": "b/x", "server": "b" \xff'
    with (tmp_path / "tools.jsonl").open("ab") as file:
        file.write(bad + b"\n")
    put(tmp_path, "a", "y")
    assert bad in (tmp_path / "tools.jsonl").read_bytes().splitlines()
    drop(tmp_path, "a")
    assert (tmp_path / "tools.jsonl").read_bytes() == bad + b"\n"


def test_dropping_a_source_removes_it_and_its_tools(tmp_path):
    put(tmp_path, "a", "x")
    put(tmp_path, "b", "x")
    assert drop(tmp_path, "a", dry_run=True).removed == ("a/x",)
    assert drop(tmp_path, "a").removed == ("a/x",)
    assert ids(tmp_path) == ["b/x"]
    assert set(read_sources(tmp_path)) == {"b"}


def test_dropping_what_is_not_there_names_what_is(tmp_path):
    put(tmp_path, "a", "x")
    with pytest.raises(ConfigError, match=r"the source must be one of .*: 'a', got 'c'"):
        drop(tmp_path, "c")
    with pytest.raises(ConfigError, match="none, got 'c'"):
        drop(tmp_path / "none", "c")
    assert not (tmp_path / "none").exists()


def test_a_source_that_is_gone_is_not_brought_back_by_its_list(tmp_path):
    put(tmp_path, "a", "x")
    change(tmp_path, "a", [tool("a", "y")], source=None)
    assert ids(tmp_path) == ["a/y"]
    drop(tmp_path, "a")
    assert not change(tmp_path, "a", [tool("a", "z")], source=None)
    assert ids(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"version": 2, "sources": {}}',
        '{"version": 1, "sources": []}',
        '{"version": 1, "sources": {"a": {"kind": "ftp"}}}',
        '{"version": 1, "sources": {"a": {"kind": "mcp"}}}',
        '{"version": 1, "sources": {"a": {"kind": "mcp", "command": "c", "url": "u"}}}',
        '{"version": 1, "sources": {"a": {"kind": "mcp", "command": "c", "args": "x"}}}',
        '{"version": 1, "sources": {"a": {"kind": "mcp", "command": "c", "env": {"A": 1}}}}',
        '{"version": 1, "sources": {"": {"kind": "mcp", "command": "c"}}}',
    ],
)
def test_a_damaged_list_of_sources_is_one_error_and_is_not_written_over(tmp_path, content):
    put(tmp_path, "a", "x")
    (tmp_path / "sources.json").write_text(content)
    for attempt in (lambda: put(tmp_path, "b", "x"), lambda: drop(tmp_path, "a")):
        with pytest.raises(DataError, match="must be readable as the sources of a catalogue"):
            attempt()
    assert (tmp_path / "sources.json").read_text() == content
    assert ids(tmp_path) == ["a/x"]


def test_tools_that_could_not_be_read_back_are_refused_before_anything_is_written(tmp_path):
    tools = [
        tool("a", "x"),
        tool("a", "x"),
        tool("b", "y"),
        tool("a", "z", description="\ud800"),
        tool("a", "w", extra={"n": float("nan")}),
    ]
    with pytest.raises(DataError, match="must be fit to be written") as caught:
        change(tmp_path, "a", tools, source=SOURCE)
    reasons = " ".join(fault.reason for fault in caught.value.faults)
    assert len(caught.value.faults) == 4
    assert "duplicate id 'a/x'" in reasons
    assert "'b/y' must be of this source" in reasons
    assert not (tmp_path / "tools.jsonl").exists()


def test_an_id_that_another_source_has_is_refused(tmp_path):
    put(tmp_path, "a", "x")
    stolen = Tool("a/x", "x", "b")
    with pytest.raises(DataError, match="must have an id of its own"):
        change(tmp_path, "b", [stolen], source=SOURCE)


def test_a_source_cannot_take_the_name_of_one_of_another_kind(tmp_path):
    put(tmp_path, "a", "x")
    with pytest.raises(ConfigError, match="source 'a' must stay of kind mcp, got openapi"):
        change(tmp_path, "a", [], source={"kind": "openapi", "spec": "s.json"})
    assert ids(tmp_path) == ["a/x"]


def test_the_sources_are_for_their_owner_alone_unless_their_mode_says_otherwise(tmp_path):
    put(tmp_path, "a", "x")
    path = tmp_path / "sources.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    put(tmp_path, "b", "x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_second_line_of_one_id_goes_with_the_first_change(tmp_path):
    put(tmp_path, "a", "x")
    path = tmp_path / "tools.jsonl"
    path.write_bytes(path.read_bytes() * 2)
    put(tmp_path, "a", "x", "y")
    assert ids(tmp_path) == ["a/x", "a/y"]
    assert not read_catalogue(tmp_path).faults


def test_changes_at_once_lose_nothing(tmp_path):
    names = [f"api{n}" for n in range(6)]

    def grow(name):
        for n in range(3):
            put(tmp_path, name, *(str(i) for i in range(n + 1)))

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(grow, names))
    assert set(read_sources(tmp_path)) == set(names)
    assert len(ids(tmp_path)) == 6 * 3


@pytest.mark.slow
def test_changes_at_once_from_six_processes_lose_nothing(tmp_path):
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from toolheads.catalogue import change
from toolheads.domain import Tool
name = sys.argv[1]
for round in range(5):
    tools = [Tool(f"{{name}}/{{n}}", str(n), name) for n in range(round + 2)]
    change({str(tmp_path)!r}, name, tools, source={SOURCE!r})
"""
    names = [f"api{n}" for n in range(6)]
    running = [subprocess.Popen([sys.executable, "-c", code, name]) for name in names]
    assert [process.wait() for process in running] == [0] * 6
    assert set(read_sources(tmp_path)) == set(names)
    assert len(ids(tmp_path)) == 6 * 6


def test_a_kill_between_the_two_files_is_mended_by_the_next_change(tmp_path, monkeypatch):
    import toolheads.catalogue.changes as changes

    def killed(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(changes, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            put(tmp_path, "a", "x")
    assert set(read_sources(tmp_path)) == {"a"}
    assert put(tmp_path, "a", "x").added == ("a/x",)
