"""The server as a process: its port, its end, and clients that misbehave."""

from __future__ import annotations

import json
import signal
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

from tests.e2e.serving import PATIENCE_S, WORDS, peer_catalogue, serving

import toolheads
from toolheads.catalogue import change, tool_id
from toolheads.domain import Tool
from toolheads.entrypoints import cli
from toolheads.errors import ClientError

pytestmark = pytest.mark.slow

KEY = "a-key-of-the-tests-0123"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return peer_catalogue(tmp_path_factory.mktemp("catalogue"))


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder, *WORDS, "--rate", "0", "--call-timeout", "2") as server:
        yield server


@pytest.fixture
def client(server):
    with toolheads.Client(server.url) as client:
        yield client


def until(is_true):
    """Wait until something is true; False if it never gets so."""
    wait = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        if is_true():
            return True
        wait.wait(0.05)
    return False


def raw(server, content):
    """What the server answers to bytes, as far as it says something."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


# Starting


def refused(capsys, *arguments):
    """What a server that does not start says; nothing is printed beside it."""
    code = cli.main(["serve", *map(str, arguments)])
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("toolheads: ")
    assert said.err.count("\n") == 1
    return said.err.strip()


def test_the_address_is_said_once_it_answers(server):
    assert server.said.startswith("serving http://127.0.0.1:")
    assert "open to this machine" in server.said
    assert httpx.get(f"{server.url}/healthz").json()["live"] is True


def test_a_port_in_use_is_one_line_and_no_address(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(capsys, folder, *WORDS, "--port", port)
    wanted = f"port must be free on 127.0.0.1, got {port}: Address already in use"
    assert said == f"toolheads: {wanted}"


def test_other_machines_are_not_let_in_without_a_key(folder, capsys, monkeypatch):
    monkeypatch.delenv("TOOLHEADS_SERVER_KEY", raising=False)
    said = refused(capsys, folder, *WORDS, "--host", "0.0.0.0")
    assert "where there is no key, got 0.0.0.0; give --keys FILE" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "DIR, --config or --server must be given"),
        (("nowhere", *WORDS), "DIR must be a catalogue or a tools file, got none at nowhere"),
        ((".", *WORDS), "make one with toolheads ingest"),
        ((".", *WORDS, "--port", "70000"), "port must be between 0 and 65535"),
        ((".", *WORDS, "--host", "203.0.113.1"), "there is no key"),
        ((".", *WORDS, "--rate", "-1"), "serve.rate_per_minute must be >= 0"),
        ((".", *WORDS, "--keys", "nowhere.json"), "the keys file must be readable"),
        ((".", *WORDS, "--heads", "minilm"), "heads must be left out for scorer bm25"),
        (("--config", "nowhere.json"), "config must be a file that can be read"),
        (("--server", "peer"), "server must be NAME=URL or NAME=COMMAND"),
    ],
)
def test_what_cannot_be_served_is_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLHEADS_SERVER_KEY", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    assert said in refused(capsys, *arguments)
    assert signal.getsignal(signal.SIGTERM) is before


# Searching and calling


def test_a_tool_is_found_and_called(client):
    found = client.search("a tool that can echo")
    assert found.tools[0].id == "peer/echo"
    answer = client.call(found.tools[0].id, {"text": "hello"}, search_id=found.search_id)
    assert (answer.outcome, answer.search_id) == ("ok", found.search_id)
    assert "hello" in answer.text


def test_a_tool_that_fails_is_told_with_its_schema(client):
    answer = client.call("fail")
    assert answer.is_error
    assert "Input schema of fail" in answer.text


def test_a_call_that_hangs_ends_at_its_time_limit(client):
    assert client.call("hang").outcome == "timeout"
    assert client.call("echo").outcome == "ok"


def test_changes_of_the_catalogue_are_served_and_damage_is_not(tmp_path):
    """Also: `%` and `/` of an id come through HTTP as they were sent."""
    # No MCP server: what one lists while this runs would be written over the damage.
    echo = Tool(tool_id("peer", "echo"), "echo", "peer", "Tool that can echo.", None, {})
    change(tmp_path, "peer", [echo], source={"kind": "tools", "path": "peer.jsonl"})
    with serving(tmp_path, *WORDS) as server, toolheads.Client(server.url) as client:
        assert client.search("fetch the zeppelin").nothing_matches
        new = Tool(tool_id("a/b", "c d"), "c d", "a/b", "Fetch the zeppelin.", None, {})
        change(tmp_path, "a/b", [new], source={"kind": "tools", "path": "more.jsonl"})
        assert until(lambda: not client.search("fetch the zeppelin").nothing_matches)
        assert client.tool("a%2Fb/c d").id == "a%2Fb/c d"
        with pytest.raises(ClientError) as caught:
            client.tool("a/b/c d")
        assert (caught.value.code, caught.value.status) == ("unknown_tool", 404)
        (tmp_path / "tools.jsonl").write_text("")
        assert until(lambda: client.health().extra["reload_failures"] > 0)
        assert not client.search("fetch the zeppelin").nothing_matches


def test_a_damaged_list_of_sources_costs_the_calls_until_it_is_mended(tmp_path):
    peer_catalogue(tmp_path)
    sources = tmp_path / "sources.json"
    whole = sources.read_text("utf-8")
    sources.write_text("{", encoding="utf-8")
    with serving(tmp_path, *WORDS) as server, toolheads.Client(server.url) as client:
        assert client.search("echo").tools[0].id == "peer/echo"
        assert client.call("peer/echo").outcome != "ok"
        assert any("sources.json" in line for line in server.stderr)
        sources.write_text(whole, encoding="utf-8")
        assert until(lambda: client.call("peer/echo").outcome == "ok")


def test_keys_are_needed_where_there_are_some(folder, tmp_path):
    (tmp_path / "keys.json").write_text(json.dumps({"agent": "${KEY_OF_TESTS}"}))
    arguments = ("--host", "0.0.0.0", "--keys", tmp_path / "keys.json")
    with serving(folder, *WORDS, *arguments, KEY_OF_TESTS=KEY) as server:
        assert "a key is needed" in server.said
        with toolheads.Client(server.url, KEY) as client:
            assert client.search("echo").tools
        with toolheads.Client(server.url, "wrong") as client:
            with pytest.raises(ClientError) as caught:
                client.search("echo")
            assert (caught.value.code, caught.value.status) == ("unauthorized", 401)
            assert client.health().ready


# Clients that misbehave


def test_a_chunked_body_without_an_end_is_refused_at_the_limit(server):
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    answer = raw(server, head + (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 17)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"body_too_large"' in answer


def test_headers_without_an_end_are_not_taken_into_memory(server):
    """With the quicker parser, which these tests install, the server would take them all."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as connection:
        connection.sendall(b"GET /v1/tools HTTP/1.1\r\nHost: localhost\r\n")
        with pytest.raises(ConnectionError):
            connection.sendall(b"".join(b"X-%d: %b\r\n" % (n, b"a" * 8_000) for n in range(2_500)))
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_connection_is_kept_for_many_requests(server):
    with httpx.Client(base_url=server.url) as client:
        ports = set()
        for _ in range(5):
            response = client.get("/v1/tools")
            ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(ports) == 1


def test_bytes_that_are_no_http_and_clients_that_hang_up_leave_no_trace(folder):
    with serving(folder, *WORDS, "--call-timeout", "1") as server:
        head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        for content in (b"\x00\xff\r\n\r\n", head + b"{", head, b"", b"GET / HTTP/1.1\r\nHo"):
            raw(server, content)
        parts = urlsplit(server.url)
        body = json.dumps({"name": "hang"}).encode()
        for _ in range(3):
            with socket.create_connection((parts.hostname, parts.port)) as connection:
                connection.sendall(
                    b"POST /v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                    b"\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                )
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        assert server.terminate() == 0
    assert server.stderr == []


# Ending


def test_a_server_ends_with_its_requests_answered_and_its_events_written(tmp_path):
    peer_catalogue(tmp_path)
    with serving(tmp_path, *WORDS, "--call-timeout", "3") as server:
        answers = []

        def call():
            with toolheads.Client(server.url) as client:
                answers.append(client.call("hang").outcome)

        with toolheads.Client(server.url) as client:
            for _ in range(20):
                client.search("echo")
        caller = threading.Thread(target=call)
        caller.start()
        threading.Event().wait(1.0)  # the call is under way
        code = server.terminate()
        caller.join(PATIENCE_S)
    assert (code, answers) == (0, ["timeout"])
    assert server.stderr == []
    (log,) = (tmp_path / "usage").glob("usage-*.jsonl")
    assert len(log.read_text().splitlines()) == 21
