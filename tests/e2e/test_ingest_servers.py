"""Servers as people install them, from the command line to a call."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")
pytest.importorskip("filelock", reason="needs the extra [ingest]")

from toolheads.calls.mcp import McpCaller
from toolheads.catalogue import read_catalogue
from toolheads.entrypoints.cli import main
from toolheads.sources.mcp import McpSessions


def installed(command):
    found = shutil.which(command, path=str(Path(sys.executable).parent)) or shutil.which(command)
    if found is None:
        pytest.skip(f"needs {command}; pip install it")
    return found


@pytest.fixture
def repository(tmp_path):
    git = installed("git")
    folder = tmp_path / "repository"
    subprocess.run([git, "init", "-q", "-b", "trunk", folder], check=True)
    return folder


def call(folder, tool_id, arguments):
    async def scenario():
        catalogue = read_catalogue(folder)
        tool = next(tool for tool in catalogue.tools if tool.id == tool_id)
        caller = McpCaller(McpSessions(catalogue.sources))
        try:
            return await caller.call(tool, arguments, timeout_s=60)
        finally:
            await caller.close()

    return asyncio.run(scenario())


@pytest.mark.slow
def test_three_servers_are_ingested_and_their_tools_can_be_called(tmp_path, repository, capsys):
    servers = {
        "time": {"command": installed("mcp-server-time")},
        "git": {
            "command": installed("mcp-server-git"),
            "args": ["--repository", "${REPOSITORY:-" + str(repository) + "}"],
        },
        "fetch": {"command": installed("mcp-server-fetch"), "type": "stdio"},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    out = tmp_path / "catalogue"
    assert main(["ingest", "mcp", "--config", str(config), "--out", str(out)]) == 0
    by_id = {tool.id: tool for tool in read_catalogue(out).tools}
    assert {"time/get_current_time", "git/git_status", "fetch/fetch"} <= by_id.keys()
    schema = by_id["time/get_current_time"].input_schema or {}
    assert "timezone" in schema["properties"]
    assert main(["sync", str(out)]) == 0
    assert "added" not in capsys.readouterr().out.splitlines()[-1]

    zone = {"timezone": "Europe/Berlin"}
    assert "Europe/Berlin" in call(out, "time/get_current_time", zone).text
    assert call(out, "time/get_current_time", {"timezone": "Nowhere"}).outcome == "tool_error"
    status = call(out, "git/git_status", {"repo_path": str(repository)})
    assert "trunk" in status.text
    refused = call(out, "fetch/fetch", {"url": "http://127.0.0.1:9/"})
    assert refused.outcome in ("tool_error", "protocol_error")


@pytest.mark.slow
def test_six_ingests_at_once_lose_nothing(tmp_path):
    from tests.mcp_peer import command, entry

    out, running = tmp_path / "catalogue", []
    for n in range(6):
        config = tmp_path / f"{n}.json"
        entries = [entry(f"t{i}") for i in range(n + 1)]
        config.write_text(json.dumps({"mcpServers": {f"s{n}": command(pages=[entries])}}))
        words = ["ingest", "mcp", "--config", str(config), "--out", str(out)]
        running.append(
            subprocess.Popen([sys.executable, "-m", "toolheads.entrypoints.cli", *words])
        )
    assert [process.wait() for process in running] == [0] * 6
    catalogue = read_catalogue(out)
    assert set(catalogue.sources) == {f"s{n}" for n in range(6)}
    assert len(catalogue.tools) == 1 + 2 + 3 + 4 + 5 + 6


def test_without_the_sdk_the_extra_to_install_is_named(tmp_path):
    code = """
import sys
sys.modules["mcp"] = None
from toolheads.entrypoints.cli import main
sys.exit(main(["ingest", "mcp", "--server", "a=b", "--out", sys.argv[1]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "ingest mcp needs mcp; install it with: pip install 'toolheads[mcp]'" in done.stderr
