"""REST: what each route takes and answers."""

from __future__ import annotations

import jsonschema
import pytest
from tests.unit.serving.fakes import TOOLS, a_tool, tool_error
from tests.unit.serving.servers import error_of, served

from toolheads.calls import CallResult
from toolheads.serving import schemas

ANSWERS = schemas.answers()


@pytest.fixture(scope="module")
def running():
    with served() as server:
        yield server


@pytest.fixture
def server(running):
    running.caller.answer, running.caller.called, running.retriever.changes = None, [], {}
    running.retriever.searched.clear()
    return running


def fits(answer, name):
    """The JSON of an answer that keeps its schema in the OpenAPI document."""
    assert answer.status_code == 200, answer.text
    jsonschema.Draft202012Validator(ANSWERS[name]).validate(answer.json())
    return answer.json()


# Search


def test_a_search_gives_tools_best_first_with_all_that_a_call_needs(server):
    answer = fits(server.post("/v1/search", {"query": "move an event"}), "SearchAnswer")
    first = answer["tools"][0]
    assert (first["id"], first["api_name"]) == ("calendar/move_event", "calendar__move_event")
    assert first["input_schema"] == TOOLS[1].input_schema
    scores = [tool["score"] for tool in answer["tools"]]
    assert scores == sorted(scores, reverse=True)
    assert (answer["mode"], answer["reason"], answer["nothing_matches"]) == ("dense", None, False)


def test_a_search_that_no_tool_fits_says_so(server):
    answer = fits(server.post("/v1/search", {"query": "zzz"}), "SearchAnswer")
    assert (answer["tools"], answer["nothing_matches"]) == ([], True)
    assert answer["note"].startswith("No tool of this catalogue fits")


def test_k_and_conversation_reach_the_retriever(server):
    body = {"query": "event", "k": 1, "conversation": "c1"}
    assert len(fits(server.post("/v1/search", body), "SearchAnswer")["tools"]) == 1
    (asked,) = server.retriever.searched
    assert (asked["scope"], asked["conversation"]) == ("everyone", "everyone c1")


def test_searches_have_ids_of_their_own(server):
    answers = [server.post("/v1/search", {"query": "event"}).json() for _ in range(3)]
    assert len({answer["search_id"] for answer in answers}) == 3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "the body must have query, got none"),
        ([], "the body must be of type object, got []"),
        ("find", 'the body must be of type object, got "find"'),
        ({"query": 5}, "query must be of type string, got 5"),
        ({"query": ""}, "query must"),
        ({"query": " \n"}, "query must match"),
        ({"query": "x" * 8001}, "query must have at most 8000 characters"),
        ({"query": "x", "k": 0}, "k must be >= 1, got 0"),
        ({"query": "x", "k": 51}, "k must be <= 50, got 51"),
        ({"query": "x", "k": "3"}, 'k must be of type integer, got "3"'),
        ({"query": "x", "k": True}, "k must be of type integer, got true"),
        ({"query": "x", "k": 1.5}, "k must be of type integer, got 1.5"),
        ({"query": "x", "top": 3}, "the body must have query, k, schemas, conversation only"),
        ({"query": "x", "schemas": "long"}, "schemas must be one of"),
        ({"query": "x", "conversation": None}, "conversation must be of type string, got null"),
    ],
)
def test_a_wrong_type_or_an_unknown_field_is_said_and_not_guessed(server, body, said):
    answer = server.post("/v1/search", body)
    assert error_of(answer) == (400, "invalid_argument")
    assert said in answer.json()["error"]["message"]
    assert server.retriever.searched == []


def test_long_schemas_are_shortened_unless_asked_for():
    words = {f"field_{n}": {"type": "string", "description": "word " * 40} for n in range(30)}
    big = a_tool("shop", "order", "Order a thing.", schema={"type": "object", "properties": words})
    with served() as server:
        server.retriever.tools = (big,)
        short, full, none = (
            server.post("/v1/search", {"query": "order", "schemas": how}).json()["tools"][0]
            for how in ("short", "full", "none")
        )
    assert short["input_schema_is_short"]
    assert set(short["input_schema"]["properties"]) == set(words)
    assert full["input_schema"] == big.input_schema
    assert "input_schema_is_short" not in full
    assert "input_schema" not in none


# Rank

OPEN_AI = {"type": "function", "function": {"name": "send_mail", "description": "Send a mail."}}
MCP = {"name": "get_time", "description": "Get the time.", "inputSchema": {"type": "object"}}
ANTHROPIC = {"name": "move", "description": "Move a file.", "input_schema": {"type": "object"}}


def test_tools_of_the_client_are_ranked_whatever_their_form(server):
    body = {"query": "send a mail", "tools": [MCP, OPEN_AI, ANTHROPIC]}
    answer = fits(server.post("/v1/rank", body), "RankAnswer")
    ranked = [(tool["index"], tool["name"]) for tool in answer["tools"]]
    assert (ranked[0], len(ranked)) == ((1, "send_mail"), 3)


def test_a_tool_that_is_given_twice_is_ranked_twice(server):
    body = {"query": "send a mail", "tool_ids": ["mail/send_mail"] * 2, "k": 5}
    answer = fits(server.post("/v1/rank", body), "RankAnswer")
    assert [tool["index"] for tool in answer["tools"]] == [0, 1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "must"),
        ({"tools": [MCP], "tool_ids": ["x"]}, "must fit exactly one"),
        ({"tools": []}, "tools must"),
        ({"tools": [{"description": "x"}]}, "tools[0] must"),
        ({"tools": [MCP] * 201}, "tools must have at most 200 items"),
        ({"tools": [{"name": "a", "description": 5}]}, "tools[0].description must be a string"),
        ({"tools": [{"name": "a", "inputSchema": []}]}, "tools[0].input_schema must be an object"),
    ],
)
def test_a_list_that_is_none_is_refused(server, fields, said):
    answer = server.post("/v1/rank", {"query": "x", **fields})
    assert error_of(answer) == (400, "invalid_argument")
    assert said in answer.json()["error"]["message"]


# Calls


def test_a_call_gives_what_the_tool_answered(server):
    body = {"name": "calendar/create_event", "arguments": {"city": "Izmir"}}
    answer = fits(server.post("/v1/call", body), "CallAnswer")
    assert (answer["outcome"], answer["is_error"]) == ("ok", False)
    assert answer["content"] == [{"type": "text", "text": "called create_event"}]
    assert answer["structured"] == {"given": {"city": "Izmir"}}


@pytest.mark.parametrize(
    "name", ["calendar/create_event", "calendar__create_event", "create_event"]
)
def test_a_tool_may_be_named_in_three_ways(server, name):
    answer = server.post("/v1/call", {"name": name, "arguments": {"city": "x"}}).json()
    assert answer["tool"] == "calendar/create_event"


def test_a_call_that_fails_is_answered_with_the_schema_of_the_tool(server):
    server.caller.answer = tool_error("no such day")
    body = {"name": "move_event", "arguments": {"city": "x"}}
    answer = fits(server.post("/v1/call", body), "CallAnswer")
    assert (answer["outcome"], answer["is_error"]) == ("tool_error", True)
    assert "no such day" in answer["content"][0]["text"]
    assert '"required": ["city"]' in answer["content"][-1]["text"]


def test_arguments_that_do_not_fit_are_not_sent(server):
    answer = server.post("/v1/call", {"name": "move_event", "arguments": {"city": 5}}).json()
    assert (answer["outcome"], server.caller.called) == ("refused", [])
    assert answer["error"] == "arguments.city must be of type string, got 5"


def test_a_tool_that_is_not_there_is_a_404(server):
    answer = server.post("/v1/call", {"name": "nothing"})
    assert error_of(answer) == (404, "unknown_tool")


def test_an_answer_that_is_no_json_is_made_valid(server):
    answer = CallResult("ok", ({"type": "text", "text": "a\ud800"},), {"x": float("nan")})
    server.caller.answer = answer
    body = {"name": "move_event", "arguments": {"city": "x"}}
    answer = fits(server.post("/v1/call", body), "CallAnswer")
    assert answer["content"][0]["text"] == "a\ufffd"
    assert answer["structured"] == {"x": None}


def test_a_call_is_linked_to_the_search_it_names(server):
    search_id = server.post("/v1/search", {"query": "event"}).json()["search_id"]
    server.post("/v1/search", {"query": "event"})
    body = {"name": "move_event", "arguments": {"city": "x"}, "search_id": search_id}
    assert server.post("/v1/call", body).json()["search_id"] == search_id


def test_a_call_without_one_is_linked_to_the_latest_search_of_its_session(server):
    def search(query, session):
        answer = server.post("/v1/search", {"query": query}, **{"X-Session-Id": session})
        return answer.json()["search_id"]

    wanted = search("event", "one")
    search("mail", "one")  # does not show the tool
    search("event", "two")  # is another session's
    body = {"name": "move_event", "arguments": {"city": "x"}}
    called = server.post("/v1/call", body, **{"X-Session-Id": "one"}).json()
    assert called["search_id"] == wanted
    lonely = server.post("/v1/call", body, **{"X-Session-Id": "three"}).json()
    assert lonely["search_id"] is None


# Feedback


def test_feedback_is_linked_as_a_call_is(server):
    search_id = server.post("/v1/search", {"query": "event"}).json()["search_id"]
    body = {"name": "move_event", "ok": False, "error": "timeout", "took_ms": 12.5}
    answer = fits(server.post("/v1/feedback", body), "FeedbackAnswer")
    assert (answer["tool"], answer["search_id"]) == ("calendar/move_event", search_id)


@pytest.mark.parametrize("took_ms", ["12", -1, 1e300, None, True])
def test_a_time_that_is_none_is_refused(server, took_ms):
    body = {"name": "move_event", "ok": True, "took_ms": took_ms}
    assert error_of(server.post("/v1/feedback", body)) == (400, "invalid_argument")


def test_a_time_that_is_no_number_never_reaches_the_metrics(server):
    before = server.get("/metrics").text
    content = b'{"name": "move_event", "ok": true, "took_ms": NaN}'
    headers = {"Content-Type": "application/json"}
    answer = server.client.post("/v1/feedback", content=content, headers=headers)
    assert error_of(answer) == (400, "invalid_json")
    assert "nan" not in server.get("/metrics").text.lower()
    assert "nan" not in before.lower()


# Tools


def test_pages_lead_through_all_tools_once(server):
    seen, cursor = [], None
    while True:
        query = "?limit=3" + (f"&cursor={cursor}" if cursor else "")
        page = fits(server.get(f"/v1/tools{query}"), "ToolsPage")
        seen += [tool["id"] for tool in page["tools"]]
        assert page["total"] == 4
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [tool.id for tool in server.retriever.tools]


def test_tools_of_one_server_can_be_listed_with_their_schemas(server):
    page = fits(server.get("/v1/tools?server=calendar&full=true"), "ToolsPage")
    assert {tool["server"] for tool in page["tools"]} == {"calendar"}
    assert page["tools"][0]["input_schema"] == TOOLS[0].input_schema
    assert "input_schema" not in server.get("/v1/tools").json()["tools"][0]


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=501", "limit=x", "limit=1.5", "limit=-1", "limit=%D9%A3"),
        *("cursor=%21", "cursor=_w", "full=yes", "page=2", "limit=1&limit=2"),
    ],
)
def test_a_parameter_that_is_wrong_or_unknown_is_refused(server, query):
    assert error_of(server.get(f"/v1/tools?{query}")) == (400, "invalid_argument")


def test_one_tool_is_told_whole(server):
    http = {"method": "GET", "path": "/forecast", "parameters": [{"name": "key"}]}
    server.retriever.tools = (*TOOLS, a_tool("a", "b/c d", title="C", http=http))
    try:
        answer = fits(server.get("/v1/tools/a/b/c%20d"), "Tool")
    finally:
        server.retriever.tools = tuple(sorted(TOOLS, key=lambda tool: tool.id))
    assert (answer["id"], answer["title"]) == ("a/b/c d", "C")
    assert answer["http"] == {"method": "GET", "path": "/forecast"}


def test_one_tool_that_is_not_there_is_a_404(server):
    assert error_of(server.get("/v1/tools/nothing/here")) == (404, "unknown_tool")


# Health and metrics


def test_health_says_what_is_degraded_and_why(server):
    server.retriever.changes = {
        "mode": "lexical",
        "degraded": True,
        "reason": "encoder openai must answer, got: connection refused",
        "reload_failures": 2,
        "reload_error": "tools.jsonl:7: invalid JSON",
    }
    health = fits(server.get("/healthz"), "Health")
    assert (health["live"], health["ready"], health["mode"]) == (True, True, "lexical")
    assert health["reason"].endswith("connection refused")
    assert (health["reload_failures"], health["reload_error"][:13]) == (2, "tools.jsonl:7")
    metrics = server.get("/metrics").text
    assert "toolheads_degraded 1.0" in metrics
    assert "toolheads_reload_failures_total 2.0" in metrics


def test_a_server_that_cannot_answer_yet_lives_and_is_not_ready(server):
    server.retriever.changes = {"ready": False}
    assert server.get("/healthz").status_code == 200
    assert server.get("/healthz").json()["ready"] is False
    assert server.get("/readyz").status_code == 503


def test_metrics_count_requests_searches_and_calls():
    with served() as server:
        server.post("/v1/search", {"query": "event"})
        server.post("/v1/search", {"query": "zzz"})
        server.post("/v1/call", {"name": "forecast", "arguments": {"city": "x"}})
        server.get("/v1/tools/mail/send_mail")
        server.get("/some/where/else")
        text = server.get("/metrics").text
    for line in (
        'toolheads_requests_total{method="POST",path="/v1/search",status="200"} 2.0',
        'toolheads_requests_total{method="GET",path="/v1/tools/{id}",status="200"} 1.0',
        'toolheads_requests_total{method="GET",path="other",status="404"} 1.0',
        'toolheads_search_seconds_count{mode="dense",via="rest"} 2.0',
        "toolheads_searches_without_match_total 1.0",
        'toolheads_call_seconds_count{kind="openapi",outcome="ok"} 1.0',
        'toolheads_circuit{state="closed"} 1.0',
        "toolheads_tools 4.0",
    ):
        assert line in text


# The document


def test_the_document_is_openapi_and_names_every_route(server):
    document = server.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    routes = {route.path for route in server.client.app.routes} - {"/mcp"}
    assert {path.replace("{name}", "{name:path}") for path in document["paths"]} == routes
    names = {schema["$ref"].rpartition("/")[2] for schema in _references(document)}
    assert names <= set(document["components"]["schemas"])


def test_every_schema_of_the_document_is_one(server):
    for schema in server.get("/openapi.json").json()["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def _references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
