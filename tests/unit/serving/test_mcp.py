"""MCP over HTTP, message by message; real clients are in tests/e2e."""

from __future__ import annotations

import json

import jsonschema
import pytest
from tests.unit.serving.fakes import tool_error
from tests.unit.serving.servers import KEYS, MAIL_KEY, METRICS_KEY, SEARCH_KEY, served

from toolheads.calls import CallResult
from toolheads.decide import PickerSettings
from toolheads.serving import Aids

ACCEPT = {"Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"


class Mcp:
    """Sends messages as a client of the handshake protocol does."""

    def __init__(self, server, *, key=None, session=None):
        self.server, self.headers = server, dict(ACCEPT)
        if key:
            self.headers["Authorization"] = f"Bearer {key}"
        if session:
            self.headers["Mcp-Session-Id"] = session

    def send(self, method, params=None, **more):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **more}
        return self.server.client.post("/mcp", json=message, headers=self.headers)

    def result(self, method, params=None):
        response = self.send(method, params)
        assert response.status_code == 200, response.text
        return response.json()["result"]

    def call(self, name, /, **arguments):
        return self.result("tools/call", {"name": name, "arguments": arguments})

    def tools(self):
        return {tool["name"]: tool for tool in self.result("tools/list")["tools"]}


@pytest.fixture(scope="module")
def running():
    with served() as server:
        yield server


@pytest.fixture
def mcp(running):
    running.caller.answer, running.caller.called = None, []
    return Mcp(running)


def handshake(mcp):
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    return mcp.send("initialize", params)


def test_there_are_exactly_two_tools_annotated_with_schemas(mcp):
    tools = mcp.tools()
    assert list(tools) == ["search_tools", "call_tool"]
    for tool in tools.values():
        assert {"description", "inputSchema", "outputSchema", "annotations"} <= set(tool)
    assert tools["search_tools"]["annotations"]["readOnlyHint"] is True
    assert tools["call_tool"]["annotations"]["readOnlyHint"] is False
    assert tools["call_tool"]["annotations"]["destructiveHint"] is True


def test_a_search_answers_in_structure_and_in_text(mcp):
    answer = mcp.call("search_tools", query="move an event", k=1)
    schema = mcp.tools()["search_tools"]["outputSchema"]
    jsonschema.Draft202012Validator(schema).validate(answer["structuredContent"])
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    assert [tool["id"] for tool in answer["structuredContent"]["tools"]] == ["calendar/move_event"]


def test_a_call_answers_with_the_blocks_of_the_tool(mcp):
    answer = mcp.call("call_tool", name="move_event", arguments={"city": "x"})
    schema = mcp.tools()["call_tool"]["outputSchema"]
    jsonschema.Draft202012Validator(schema).validate(answer["structuredContent"])
    assert answer["content"] == [{"type": "text", "text": "called move_event"}]
    assert answer["structuredContent"]["structured"] == {"given": {"city": "x"}}


def test_a_call_that_fails_is_an_error_with_the_schema_of_the_tool(mcp):
    mcp.server.caller.answer = tool_error("no such day")
    answer = mcp.call("call_tool", name="move_event", arguments={"city": "x"})
    assert answer["isError"] is True
    assert '"required": ["city"]' in answer["content"][-1]["text"]


def test_every_kind_of_block_comes_through_and_what_is_none_is_shown_as_json(mcp):
    blocks = (
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource_link", "name": "r", "uri": "file:///r"},
        {"type": "hologram", "x": 1},
    )
    mcp.server.caller.answer = CallResult("ok", blocks, {"x": float("nan")})
    answer = mcp.call("call_tool", name="move_event", arguments={"city": "x"})
    assert [block["type"] for block in answer["content"]] == ["image", "resource_link", "text"]
    assert json.loads(answer["content"][2]["text"]) == blocks[2]
    assert answer["structuredContent"]["structured"] == {"x": None}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search_tools", {"query": 5}, "query must be of type string, got 5"),
        ("search_tools", {}, "arguments must have query, got none"),
        ("search_tools", {"query": "x", "k": "2"}, 'k must be of type integer, got "2"'),
        ("search_tools", {"query": "x", "why": 1}, "arguments must have query, k only"),
        ("call_tool", {"name": "x", "arguments": "{}"}, "arguments must be of type object"),
        ("call_tool", {"name": ""}, "name must"),
        ("call_tool", {"name": "nothing"}, "name must be that of a tool, got 'nothing'"),
    ],
)
def test_wrong_arguments_are_said_to_the_model_and_not_guessed(mcp, name, arguments, said):
    answer = mcp.call(name, **arguments)
    assert answer["isError"] is True
    assert said in answer["content"][0]["text"]
    assert answer["structuredContent"]["error"]["code"] in ("invalid_argument", "unknown_tool")


def test_another_tool_is_an_error_of_the_protocol(mcp):
    error = mcp.send("tools/call", {"name": "move_event", "arguments": {}}).json()["error"]
    assert error["code"] == -32602
    assert error["message"] == "name must be search_tools or call_tool, got 'move_event'"


def test_a_fault_of_the_server_is_told_without_its_details(mcp):
    mcp.server.retriever.error = RuntimeError("secret detail")
    try:
        answer = mcp.call("search_tools", query="event")
    finally:
        mcp.server.retriever.error = None
    assert answer["structuredContent"]["error"]["code"] == "internal_error"
    assert "secret" not in json.dumps(answer)


def test_a_handshake_names_a_session_that_any_server_takes(mcp):
    answer = handshake(mcp)
    session = answer.headers["mcp-session-id"]
    assert answer.json()["result"]["serverInfo"]["name"] == "toolheads"
    assert handshake(mcp).headers["mcp-session-id"] != session
    other = Mcp(mcp.server, session="made-by-another-replica")
    assert "tools" in other.call("search_tools", query="event")["structuredContent"]


def test_a_call_is_linked_to_the_latest_search_of_its_session(mcp):
    one, two = (Mcp(mcp.server, session=name) for name in ("one", "two"))
    wanted = one.call("search_tools", query="event")["structuredContent"]["search_id"]
    two.call("search_tools", query="event")
    called = one.call("call_tool", name="move_event", arguments={"city": "x"})
    assert called["structuredContent"]["search_id"] == wanted


def test_a_message_of_the_newest_protocol_is_answered(mcp):
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    mcp.headers |= {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "search_tools",
    }
    params = {"name": "search_tools", "arguments": {"query": "event"}, "_meta": meta}
    assert mcp.result("tools/call", params)["structuredContent"]["mode"] == "dense"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_stream_to_keep_open(mcp, method):
    answer = mcp.server.client.request(method, "/mcp", headers=ACCEPT)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["data"] == {"code": "method_not_allowed"}


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"[]", 400),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400),
        (b'"ping"', 400),
        (b"{}", 400),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 202),  # taken for a notification
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', 202),
    ],
)
@pytest.mark.parametrize("version", ["2025-06-18", MODERN, "1999-01-01"])
def test_what_is_no_message_is_refused(mcp, content, status, version):
    headers = {**ACCEPT, "Content-Type": "application/json", "MCP-Protocol-Version": version}
    answer = mcp.server.client.post("/mcp", content=content, headers=headers)
    assert answer.status_code in (status, 400)
    if answer.status_code == 400:
        assert set(answer.json()["error"]) >= {"code", "message"}


def test_an_accept_without_json_is_refused_with_json(mcp):
    for version in ("2025-06-18", MODERN):
        headers = {"Accept": "text/html", "MCP-Protocol-Version": version}
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = mcp.server.client.post("/mcp", json=message, headers=headers)
        assert answer.status_code == 406
        assert answer.json()["error"]["message"]


def test_a_key_sees_the_tools_that_its_scopes_allow(tmp_path):
    with served(keys=KEYS, tmp_path=tmp_path) as server:
        assert list(Mcp(server, key=SEARCH_KEY).tools()) == ["search_tools"]
        assert list(Mcp(server, key=METRICS_KEY).tools()) == []
        answer = Mcp(server, key=SEARCH_KEY).call("call_tool", name="send_mail")
        assert answer["structuredContent"]["error"]["code"] == "forbidden"
        mailer = Mcp(server, key=MAIL_KEY)
        found = mailer.call("search_tools", query="event mail")["structuredContent"]["tools"]
        assert [tool["id"] for tool in found] == ["mail/send_mail"]
        answer = mailer.call("call_tool", name="move_event", arguments={"city": "x"})
        assert answer["structuredContent"]["error"]["code"] == "unknown_tool"
        assert server.caller.called == []


def test_a_client_without_a_key_is_told_in_json_rpc(tmp_path):
    with served(keys=KEYS, tmp_path=tmp_path) as server:
        answer = Mcp(server).send("tools/list")
        assert answer.status_code == 401
        assert answer.json()["error"]["data"] == {"code": "unauthorized"}


THRESHOLDS = PickerSettings(similarity_floor=0.5, margin=0.1, score_unit=4)
"""Scores of the fake are counts of words."""


@pytest.fixture(scope="module")
def deciding():
    offered = ("resolve", "search", "call")
    with served(mcp_tools=offered, aids=Aids(thresholds=THRESHOLDS)) as server:
        yield Mcp(server)


def test_a_tool_that_decides_is_offered_where_it_is_asked_for(deciding):
    tools = deciding.tools()
    assert list(tools) == ["search_tools", "call_tool", "resolve_tool"]
    assert tools["resolve_tool"]["annotations"]["readOnlyHint"] is True


@pytest.mark.parametrize(
    ("need", "outcome", "first"),
    [
        ("send a mail to a person", "bind", "mail/send_mail"),
        ("an event", "ambiguous", "calendar/create_event"),
        ("fold a paper crane", "absent", None),
    ],
)
def test_a_need_is_resolved_as_over_rest(deciding, need, outcome, first):
    answer = deciding.call("resolve_tool", need=need, shortlist=2)
    found = answer["structuredContent"]
    schema = deciding.tools()["resolve_tool"]["outputSchema"]
    jsonschema.Draft202012Validator(schema).validate(found)
    assert json.loads(answer["content"][0]["text"]) == found
    assert found["outcome"] == outcome
    body = {"need": need, "shortlist": 2}
    over_rest = deciding.server.post("/v1/decide", body).json()
    for name in ("tools", "shortlist"):
        assert [(t["id"], t["score"]) for t in found[name]] == [
            (t["id"], t["score"]) for t in over_rest[name]
        ]
    if first:
        assert found["tools"][0]["id"] == first
        assert found["tools"][0]["input_schema"]["required"] == ["city"]


@pytest.mark.parametrize("arguments", [{}, {"need": " "}, {"need": "x", "settings": {}}])
def test_a_need_that_cannot_be_read_is_an_error_for_the_model(deciding, arguments):
    answer = deciding.call("resolve_tool", **arguments)
    assert answer["isError"] is True
    assert answer["structuredContent"]["error"]["code"] == "invalid_argument"


def test_a_tool_that_is_not_offered_cannot_be_called(mcp):
    answer = mcp.send("tools/call", {"name": "resolve_tool", "arguments": {"need": "x"}}).json()
    assert "name must be search_tools or call_tool" in answer["error"]["message"]


def test_a_key_resolves_among_its_own_sources_alone(tmp_path):
    options = {"mcp_tools": ("resolve",), "aids": Aids(thresholds=THRESHOLDS)}
    need = "weather forecast of a city"
    with served(keys=KEYS, tmp_path=tmp_path, **options) as server:
        answers = {
            key: Mcp(server, key=key).call("resolve_tool", need=need)["structuredContent"]
            for key in (SEARCH_KEY, MAIL_KEY)
        }
        assert Mcp(server, key=METRICS_KEY).tools() == {}
        refused = Mcp(server, key=METRICS_KEY).call("resolve_tool", need=need)
    assert answers[SEARCH_KEY]["outcome"] == "bind"
    assert answers[MAIL_KEY]["outcome"] == "absent"
    assert refused["structuredContent"]["error"]["code"] == "forbidden"
