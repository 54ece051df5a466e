"""From an empty folder to a call: three MCP servers and an API, over MCP, REST and stdio."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")
pytest.importorskip("starlette", reason="needs the extra [serve]")
pytest.importorskip("yaml", reason="needs the extra [openapi]")

from mcp import Client, StdioServerParameters, stdio_client
from tests.e2e.serving import COMMAND, serving

import toolheads
from toolheads.entrypoints.cli import main

pytestmark = pytest.mark.slow

SPEC = """
openapi: 3.1.0
info: {title: Library, version: "1"}
paths:
  /books/{isbn}:
    get:
      operationId: getBook
      summary: Look up a book of the library by its ISBN
      parameters:
        - {name: isbn, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: The book}}
"""
QUESTIONS = {
    "convert 9 o'clock in Izmir to the time in Tokyo": "time/convert_time",
    "show the log of commits of the repository": "git/git_log",
    "read the contents of a web page at an address": "fetch/fetch",
    "which book has this ISBN": "library/getBook",
}
NOON = {"source_timezone": "Europe/Istanbul", "time": "12:00", "target_timezone": "Asia/Tokyo"}


def installed(command):
    found = shutil.which(command, path=str(Path(sys.executable).parent)) or shutil.which(command)
    if found is None:
        pytest.skip(f"needs {command}; pip install it")
    return found


class Library(BaseHTTPRequestHandler):
    """One book, whatever its number."""

    def do_GET(self):
        body = json.dumps({"isbn": self.path.rsplit("/", 1)[-1], "title": "Tools"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def library():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Library)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory, library):
    """What two commands make of an empty folder."""
    here = tmp_path_factory.mktemp("nothing")
    repository = here / "repository"
    subprocess.run([installed("git"), "init", "-q", repository], check=True)
    servers = {
        "time": {"command": installed("mcp-server-time")},
        "git": {"command": installed("mcp-server-git"), "args": ["--repository", str(repository)]},
        "fetch": {"command": installed("mcp-server-fetch")},
    }
    (here / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (here / "library.yaml").write_text(SPEC, encoding="utf-8")
    out = ["--out", str(here / "catalogue")]
    assert main(["ingest", "mcp", "--config", str(here / "mcp.json"), *out]) == 0
    spec = ["ingest", "openapi", str(here / "library.yaml"), "--name", "library"]
    assert main([*spec, "--base-url", library, *out]) == 0
    return here / "catalogue"


@pytest.fixture(scope="module")
def server(catalogue):
    with serving(catalogue) as server:
        client = toolheads.Client(server.url)
        until = time.monotonic() + 120
        while client.health().mode != "dense":
            assert time.monotonic() < until, client.health()
            time.sleep(0.2)
        client.close()
        yield server


async def found_and_called(client):
    async with client:
        found = {}
        for question in QUESTIONS:
            answer = await client.call_tool("search_tools", {"query": question})
            found[question] = answer.structured_content["tools"][0]["id"]
        said = []
        for name, arguments in (
            ("time/convert_time", NOON),
            ("library/getBook", {"isbn": "978"}),
        ):
            words = {"name": name, "arguments": arguments}
            said.append((await client.call_tool("call_tool", words)).content[0].text)
        return found, said


def check(found, said):
    assert found == QUESTIONS
    assert "Asia/Tokyo" in said[0]
    assert '"title": "Tools"' in said[1]


def test_an_mcp_client_over_http_finds_and_calls_tools_of_all_sources(server):
    check(*asyncio.run(found_and_called(Client(f"{server.url}/mcp"))))


def test_an_mcp_client_over_stdio_finds_and_calls_tools_of_all_sources(catalogue):
    words = [*COMMAND[1:], str(catalogue), "--stdio"]
    command = StdioServerParameters(command=COMMAND[0], args=words)
    check(*asyncio.run(found_and_called(Client(stdio_client(command)))))


def test_the_rest_client_finds_and_calls_tools_of_all_sources(server):
    client = toolheads.Client(server.url)
    found = {question: client.search(question).tools[0].id for question in QUESTIONS}
    said = [
        client.call("time/convert_time", NOON).content[0]["text"],
        client.call("library/getBook", {"isbn": "978"}).content[0]["text"],
    ]
    client.close()
    check(found, said)
