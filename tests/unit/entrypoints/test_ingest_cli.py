from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")
pytest.importorskip("filelock", reason="needs the extra [ingest]")

from tests.mcp_peer import command, entry

from toolheads.catalogue import read_catalogue, read_sources
from toolheads.entrypoints.cli import main


def write_config(tmp_path, **servers):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {n: {**s, "kind": 0} for n, s in servers.items()}}))
    return str(path)


def peer(*names, **behaviour):
    return command(pages=[[entry(name) for name in names]], **behaviour)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "catalogue"


def ids(folder):
    return sorted(tool.id for tool in read_catalogue(folder, allow_empty=True).tools)


def ingest(tmp_path, out, *options, **servers):
    return main(
        [
            "ingest",
            "mcp",
            "--config",
            write_config(tmp_path, **servers),
            "--out",
            str(out),
            *options,
        ]
    )


def test_the_servers_of_a_config_become_a_catalogue(tmp_path, out, capsys):
    assert ingest(tmp_path, out, a=peer("x", "y"), b=peer("x")) == 0
    assert ids(out) == ["a/x", "a/y", "b/x"]
    assert capsys.readouterr().out == "a: 2 added\nb: 1 added\n"
    assert set(read_sources(out)) == {"a", "b"}


def test_running_again_changes_only_what_changed(tmp_path, out, capsys):
    ingest(tmp_path, out, a=peer("x", "y"), b=peer("x"))
    before = (out / "tools.jsonl").stat().st_ino
    assert ingest(tmp_path, out, a=peer("x", "y"), b=peer("x")) == 0
    assert (out / "tools.jsonl").stat().st_ino == before
    capsys.readouterr()
    assert ingest(tmp_path, out, a=peer("x", "z")) == 0
    assert capsys.readouterr().out == "a: 1 added, 1 removed, 1 kept\n"
    assert ids(out) == ["a/x", "a/z", "b/x"]


def test_a_dry_run_shows_each_tool_that_would_change(tmp_path, out, capsys):
    ingest(tmp_path, out, a=peer("x", "y"))
    capsys.readouterr()
    changed = command(pages=[[entry("x", description="new"), entry("z")]])
    assert ingest(tmp_path, out, "--dry-run", a=changed) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a: 1 added, 1 changed, 1 removed (dry run)",
        "  + a/z",
        "  ~ a/x",
        "  - a/y",
    ]
    assert ids(out) == ["a/x", "a/y"]


def test_a_server_that_fails_keeps_its_tools_and_the_exit_code_says_so(tmp_path, out, capsys):
    ingest(tmp_path, out, a=peer("x"), b=peer("x"))
    assert ingest(tmp_path, out, a=peer(exit=1, stderr="no key"), b=peer("y")) == 1
    assert ids(out) == ["a/x", "b/y"]
    said = capsys.readouterr().err.splitlines()
    assert "it last wrote: no key; its 1 tool of before stay" in said[0]
    assert said[1] == "toolheads: 1 source of 2 failed"


def test_a_server_that_cannot_be_used_costs_no_other(tmp_path, out, capsys):
    sse = {"type": "sse", "url": "https://x.dev/sse"}
    assert ingest(tmp_path, out, a=sse, b=peer("x")) == 1
    assert ids(out) == ["b/x"]
    assert "server 'a' must speak stdio or streamable HTTP, got sse" in capsys.readouterr().err


def test_junk_is_left_out_and_told(tmp_path, out, capsys):
    odd = command(pages=[[entry("x", description="one\u2028two"), {"name": 5}]])
    assert ingest(tmp_path, out, a=odd) == 0
    assert ids(out) == ["a/x"]
    assert "toolheads: a: left out: entry 2: name must be" in capsys.readouterr().err


def test_a_server_that_lists_nothing_any_more_keeps_its_tools_unless_it_is_allowed(
    tmp_path, out, capsys
):
    ingest(tmp_path, out, a=peer("x"))
    assert ingest(tmp_path, out, a=peer()) == 1
    assert "a must list a tool, as it did before, got none" in capsys.readouterr().err
    assert ids(out) == ["a/x"]
    assert ingest(tmp_path, out, "--allow-empty", a=peer()) == 0
    assert ids(out) == []


def test_servers_that_are_not_named_any_more_go_where_it_is_asked(tmp_path, out):
    ingest(tmp_path, out, a=peer("x"), b=peer("x"))
    assert ingest(tmp_path, out, "--prune", b=peer("x")) == 0
    assert ids(out) == ["b/x"]
    assert set(read_sources(out)) == {"b"}


def test_only_the_servers_that_are_asked_for_are_taken(tmp_path, out, capsys):
    assert ingest(tmp_path, out, "--only", "b", a=peer("x"), b=peer("x")) == 0
    assert ids(out) == ["b/x"]
    assert ingest(tmp_path, out, "--only", "c", a=peer("x")) == 2
    assert "only must name servers of the config, a, got c" in capsys.readouterr().err


def test_a_secret_is_used_and_never_stored(tmp_path, out, monkeypatch):
    monkeypatch.setenv("PEER_KEY", "s3cret")
    assert ingest(tmp_path, out, a=peer("x") | {"env": {"KEY": "${PEER_KEY}"}}) == 0
    assert "s3cret" not in (out / "sources.json").read_text()
    assert read_sources(out)["a"]["env"] == {"KEY": "${PEER_KEY}"}


def test_a_variable_that_is_not_set_is_named(tmp_path, out, capsys):
    assert ingest(tmp_path, out, a=peer("x") | {"env": {"KEY": "${NO_SUCH_VARIABLE}"}}) == 1
    assert "NO_SUCH_VARIABLE must be set in the environment" in capsys.readouterr().err


def test_a_server_can_be_named_on_the_command_line(tmp_path, out):
    source = peer("x")
    words = " ".join([source["command"], *(f"'{arg}'" for arg in source["args"])])
    assert main(["ingest", "mcp", "--server", f"a={words}", "--out", str(out)]) == 0
    assert ids(out) == ["a/x"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "config or server must name a server, got neither"),
        (["--server", "a=x", "--server", "a=y"], "each server must be named once, got a twice"),
        (["--server", "a"], "server must be NAME=URL or NAME=COMMAND, got 'a'"),
        (["--config", "/none"], "config must be a file that can be read"),
        (["--server", "a=x", "--only", "a", "--prune"], "prune must be left out with only"),
    ],
)
def test_options_that_cannot_be_used_are_one_line(out, capsys, options, reason):
    assert main(["ingest", "mcp", *options, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_the_tools_of_a_file_become_a_source_and_bad_lines_are_told(tmp_path, out, capsys):
    file = tmp_path / "some.jsonl"
    file.write_text('{"id": "t1", "name": "x", "server": "s"}\n{\n{"id": "t2", "name": "x"}\n')
    assert main(["ingest", "tools", str(file), "--name", "mine", "--out", str(out)]) == 0
    first, second = read_catalogue(out).tools
    assert (first.id, first.name, first.server) == ("mine/t1", "x", "mine")
    assert first.extra == {"kind": "tools", "origin": "s"}
    assert second.id == "mine/t2"
    assert "some.jsonl:2: invalid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "function", "function": {"name": "x", "description": "d"}}, 5],
        [{"type": "function", "name": "x", "description": "d", "parameters": {}}, 5],
        [{"name": "x", "description": "d", "input_schema": {"type": "object"}}, 5],
        {"tools": [{"name": "x", "description": "d", "inputSchema": {"type": "object"}}, 5]},
    ],
    ids=["openai chat", "openai responses", "anthropic", "mcp"],
)
def test_a_list_as_providers_take_it_becomes_a_source(tmp_path, out, capsys, content):
    file = tmp_path / "some.json"
    file.write_text(json.dumps(content))
    assert main(["ingest", "tools", str(file), "--name", "mine", "--out", str(out)]) == 0
    (tool,) = read_catalogue(out).tools
    assert (tool.id, tool.name, tool.description) == ("mine/x", "x", "d")
    assert "mine: left out: " in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "5", None])
def test_a_file_that_is_no_list_is_told(tmp_path, out, capsys, content):
    file = tmp_path / "some.json"
    if content is not None:
        file.write_text(content)
    assert main(["ingest", "tools", str(file), "--name", "mine", "--out", str(out)]) == 1
    assert "some.json cannot be used" in capsys.readouterr().err


def test_a_catalogue_is_no_source_of_itself(tmp_path, out, capsys):
    ingest(tmp_path, out, a=peer("x"))
    words = ["ingest", "tools", str(out / "tools.jsonl"), "--name", "a", "--out", str(out)]
    assert main(words) == 2
    assert "must not be that of the catalogue itself" in capsys.readouterr().err


def test_sources_can_be_dropped_also_where_lines_are_bad(tmp_path, out, capsys):
    ingest(tmp_path, out, a=peer("x"), b=peer("x"))
    with (out / "tools.jsonl").open("a") as file:
        file.write("[1, 2]\n")
    assert main(["ingest", "drop", "a", "--out", str(out)]) == 0
    assert ids(out) == ["b/x"]
    assert "tools.jsonl:3: a line must be a JSON object" in capsys.readouterr().err
    assert main(["ingest", "drop", "a", "--out", str(out)]) == 2


def test_a_sync_asks_every_source_again(tmp_path, out, capsys):
    file = tmp_path / "some.jsonl"
    file.write_text('{"id": "t1", "name": "x"}\n')
    ingest(tmp_path, out, a=peer("x"))
    main(["ingest", "tools", str(file), "--name", "mine", "--out", str(out)])
    file.write_text('{"id": "t2", "name": "x"}\n')
    capsys.readouterr()
    assert main(["sync", str(out), "--dry-run"]) == 0
    assert ids(out) == ["a/x", "mine/t1"]
    assert main(["sync", str(out)]) == 0
    assert ids(out) == ["a/x", "mine/t2"]
    assert "a: 1 kept\nmine: 1 added, 1 removed\n" in capsys.readouterr().out


def test_a_sync_of_some_sources_leaves_the_others(tmp_path, out, capsys):
    file = tmp_path / "some.jsonl"
    file.write_text('{"id": "t1", "name": "x"}\n')
    main(["ingest", "tools", str(file), "--name", "mine", "--out", str(out)])
    file.unlink()
    assert main(["sync", str(out)]) == 1
    assert ids(out) == ["mine/t1"]
    assert "its 1 tool of before stay" in capsys.readouterr().err
    assert main(["sync", str(out), "--only", "other"]) == 2


@pytest.mark.parametrize("content", [None, "{", '{"version": 1, "sources": {}}'])
def test_a_sync_without_sources_is_one_clear_error(out, capsys, content):
    out.mkdir()
    if content is not None:
        (out / "sources.json").write_text(content)
    assert main(["sync", str(out)]) == 2
    assert "sources" in capsys.readouterr().err
