from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from toolheads.errors import ConfigError
from toolheads.sources.mcp import read_client_config, server_argument


def config(tmp_path, content):
    path = tmp_path / "mcp.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_client_config(path)


def fault_of(tmp_path, entry):
    return str(config(tmp_path, {"mcpServers": {"x": entry}}).faults["x"])


def test_servers_are_read_as_most_clients_write_them(tmp_path):
    read = config(
        tmp_path,
        {
            "mcpServers": {
                "git": {"command": "uvx", "args": ["git"], "env": {"T": "${T}"}, "cwd": "/w"},
                "web": {"type": "http", "url": "https://x.dev/mcp", "headers": {"A": "b"}},
                "old": {"command": "x", "disabled": True},
                "off": {"command": "x", "enabled": False},
            }
        },
    )
    assert read.sources == {
        "git": {
            "kind": "mcp",
            "command": "uvx",
            "args": ["git"],
            "env": {"T": "${T}"},
            "cwd": "/w",
        },
        "web": {"kind": "mcp", "url": "https://x.dev/mcp", "headers": {"A": "b"}},
    }
    assert read.skipped == ("old", "off")
    assert not read.faults


def test_a_file_of_vs_code_may_hold_comments_and_trailing_commas(tmp_path):
    text = """// servers
    {"inputs": [], "servers": {
        /* the web */ "web": {"type": "http", "url": "https://x.dev//mcp, ]",},
    },}"""
    assert config(tmp_path, text).sources["web"]["url"] == "https://x.dev//mcp, ]"


def test_settings_of_vs_code_hold_the_servers_one_level_down(tmp_path):
    assert "a" in config(tmp_path, {"mcp": {"servers": {"a": {"command": "x"}}}}).sources


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", "streamable_http"])
def test_each_spelling_of_streamable_http_is_taken(tmp_path, kind):
    entry = {"type": kind, "url": "https://x.dev/mcp"}
    assert "x" in config(tmp_path, {"mcpServers": {"x": entry}}).sources


@pytest.mark.parametrize("field", ["url", "httpUrl", "serverUrl"])
def test_each_name_of_the_url_is_taken(tmp_path, field):
    read = config(tmp_path, {"mcpServers": {"x": {field: "https://x.dev/mcp"}}})
    assert read.sources["x"] == {"kind": "mcp", "url": "https://x.dev/mcp"}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"type": "sse", "url": "https://x.dev/sse"}, "streamable HTTP, got sse"),
        ({"type": "ws", "url": "wss://x.dev"}, "type of server 'x' must be stdio, http or"),
        ({"type": 5, "command": "x"}, "type of server 'x' must be"),
        ({}, "must have one of command, url, got none"),
        ({"command": ""}, "command of source 'x' must be text"),
        ({"command": "x", "args": "a b"}, "args of source 'x' must be a list of strings"),
        ({"command": "x", "env": {"A": 1}}, "env of source 'x' must map names to strings"),
        ({"command": "x", "envFile": ".env"}, "must have its variables in env"),
        ("npx server", "must be an object, got 'npx server'"),
    ],
)
def test_a_server_that_cannot_be_used_is_told_and_costs_no_other(tmp_path, entry, reason):
    read = config(tmp_path, {"mcpServers": {"x": entry, "y": {"command": "y"}}})
    assert reason in str(read.faults["x"])
    assert list(read.sources) == ["y"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "config must be JSON"),
        ("[]", "must have an object mcpServers or servers"),
        ({"mcpServers": []}, "must have an object mcpServers or servers"),
        ({}, "must have an object mcpServers or servers"),
        ({"mcpServers": {"a": {}}, "servers": {"a": {}}}, "each server once, got 'a' twice"),
        ("[" * 100_000, "config must be"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error(tmp_path, content, reason):
    with pytest.raises(ConfigError, match=reason):
        config(tmp_path, content)


def test_a_file_that_is_not_there_is_one_error(tmp_path):
    with pytest.raises(ConfigError, match=r"must be a file that can be read, got .*: No such file"):
        read_client_config(tmp_path / "none")


def test_an_argument_names_a_url_or_a_command():
    assert server_argument("w=https://x.dev/mcp?a=b") == (
        "w",
        {"kind": "mcp", "url": "https://x.dev/mcp?a=b"},
    )
    assert server_argument("g=uvx 'my server' --flag=1") == (
        "g",
        {"kind": "mcp", "command": "uvx", "args": ["my server", "--flag=1"]},
    )


@pytest.mark.parametrize("bad", ["uvx", "=uvx", "a=", "a='", "a= "])
def test_an_argument_that_is_neither_is_refused(bad):
    with pytest.raises(ConfigError, match="must be"):
        server_argument(bad)
