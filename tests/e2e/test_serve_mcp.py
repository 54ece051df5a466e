"""Real MCP clients on the server: streamable HTTP and stdio, both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading

import httpx
import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests import mcp_peer
from tests.e2e.serving import COMMAND, PATIENCE_S, WORDS, over_stdio, peer_catalogue, serving
from tests.in_thread import served
from tests.unit.serving.fakes import FakeCaller, a_retriever, fake_calls

import toolheads
from toolheads.serving import create_app, load_keys

pytestmark = pytest.mark.slow

HANDSHAKE = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return peer_catalogue(tmp_path_factory.mktemp("catalogue"))


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder, *WORDS) as server:
        yield server


async def searched_and_called(client):
    """What a client sees: names of tools, the first hit, and the answer of its call."""
    async with client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        found = await client.call_tool("search_tools", {"query": "a tool that can echo"})
        first = found.structured_content["tools"][0]["id"]
        arguments = {"name": first, "arguments": {"text": "hello"}}
        called = await client.call_tool("call_tool", arguments)
        assert not called.is_error
        assert called.structured_content["search_id"] == found.structured_content["search_id"]
        wrong = await client.call_tool("search_tools", {"query": 5})
        assert wrong.is_error
        return tools, first, called.content[0].text


def check(seen):
    tools, first, text = seen
    assert tools == ["search_tools", "call_tool"]
    assert first == "peer/echo"
    assert "hello" in text


def run(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_over_http_searches_and_calls(server, mode):
    check(run(searched_and_called(Client(f"{server.url}/mcp", mode=mode))))


def test_a_client_over_stdio_searches_and_calls_and_finds_what_others_find(server, folder):
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], str(folder), *WORDS, "--stdio"]
    )
    over_stdio = run(searched_and_called(Client(stdio_client(parameters))))
    check(over_stdio)
    with toolheads.Client(server.url) as client:
        over_rest = client.search("a tool that can echo")
    assert over_stdio[1] == over_rest.tools[0].id


def test_replicas_answer_alike_and_take_each_others_sessions():
    """A client of the handshake protocol may reach another one with each message."""
    headers = {"Accept": "application/json, text/event-stream"}
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    apps = [create_app(a_retriever(), fake_calls(FakeCaller())) for _ in range(2)]
    with served(apps[0]) as one, served(apps[1]) as other:
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        hello = httpx.post(f"{one}/mcp", json=message, headers=headers)
        headers["Mcp-Session-Id"] = hello.headers["mcp-session-id"]
        call = {"name": "search_tools", "arguments": {"query": "move an event"}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        urls = (f"{one}/mcp", f"{other}/mcp")
        answers = [httpx.post(url, json=message, headers=headers).json() for url in urls]
    shown = [answer["result"]["structuredContent"]["tools"] for answer in answers]
    assert shown[0] == shown[1] != []


def test_stdio_carries_nothing_but_the_protocol_and_ends_with_its_input(folder):
    messages = [*HANDSHAKE, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]
    with over_stdio(folder) as process:
        process.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        process.stdin.write("this is no message\n")
        process.stdin.flush()
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == 0
    assert [line["id"] for line in lines] == [1, 2]
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())


@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
def test_stdio_ends_at_once_when_it_is_told_to_with_its_events_written(tmp_path):
    peer_catalogue(tmp_path)
    with over_stdio(tmp_path) as process:
        for message in HANDSHAKE:
            process.stdin.write(json.dumps(message) + "\n")
        call = {"name": "search_tools", "arguments": {"query": "echo"}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [1, 2]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    (log,) = (tmp_path / "usage").glob("usage-*.jsonl")
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["via"] == "stdio"


def test_a_config_file_is_served_and_its_lists_are_followed(tmp_path):
    pages = [[mcp_peer.entry("echo"), mcp_peer.entry("set_pages")]]
    source = mcp_peer.command(pages=pages)
    config = {"mcpServers": {"peer": {n: source[n] for n in ("command", "args")}}}
    (tmp_path / "mcp.json").write_text(json.dumps(config))
    with (
        serving("--config", tmp_path / "mcp.json", *WORDS) as server,
        toolheads.Client(server.url) as client,
    ):
        assert {tool.name for tool in client.tools()} == {"echo", "set_pages"}
        new = [[*pages[0], mcp_peer.entry("zeppelin", description="Fetch the zeppelin.")]]
        assert client.call("set_pages", {"pages": new}).outcome == "ok"
        wait = threading.Event()
        for _ in range(int(PATIENCE_S / 0.1)):
            if not client.search("fetch the zeppelin").nothing_matches:
                break
            wait.wait(0.1)
        assert client.search("fetch the zeppelin").tools[0].id == "peer/zeppelin"


def test_a_client_with_a_key_is_let_in_and_one_without_is_told_why():
    async def listed(url, headers):
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return [tool.name for tool in (await client.list_tools()).tools]

    key = "a-key-of-the-tests-0123"
    keys = load_keys(environ={"TOOLHEADS_SERVER_KEY": key})
    with served(create_app(a_retriever(), fake_calls(FakeCaller()), keys=keys)) as server:
        url = f"{server}/mcp"
        names = run(listed(url, {"Authorization": f"bearer {key}"}))
        assert names == ["search_tools", "call_tool"]
        with pytest.raises(Exception, match=r"^.") as caught:
            run(listed(url, {}))
        assert "Authorization must be 'Bearer KEY'" in _told(caught.value)


def _told(error):
    inner = getattr(error, "exceptions", ())
    return " ".join([str(error), *(_told(one) for one in inner)])
