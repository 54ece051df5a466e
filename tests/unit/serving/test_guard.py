"""What stands before every route: hosts, keys, rates, sizes, deadlines, and errors as JSON."""

from __future__ import annotations

import asyncio
import logging

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from tests.unit.serving.servers import (
    FULL_KEY,
    KEYS,
    MAIL_KEY,
    METRICS_KEY,
    SEARCH_KEY,
    error_of,
    served,
)

from toolheads.serving import Keys, ServeSettings
from toolheads.serving.api_error import ApiError
from toolheads.serving.guard import guarded
from toolheads.serving.guard.hosts import Hosts
from toolheads.serving.guard.rates import Rates

QUERY = {"query": "send a mail"}
EVERY_PATH = ["/v1/search", "/v1/rank", "/v1/call", "/v1/feedback", "/mcp"]


@pytest.fixture(scope="module")
def open_server():
    with served() as server:
        yield server


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    with served(keys=KEYS, tmp_path=tmp_path_factory.mktemp("keys")) as server:
        yield server


# Keys


@pytest.mark.parametrize("path", ["/v1/tools", "/v1/tools/x", "/metrics", "/nothing/here"])
def test_nothing_is_told_without_a_key(locked, path):
    response = locked.get(path)
    assert error_of(response) == (401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", EVERY_PATH)
def test_nothing_is_done_without_a_key(locked, path):
    assert locked.post(path, QUERY).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_probes_and_the_document_need_no_key(locked, path):
    assert locked.get(path).status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "  bEaReR"])
def test_the_scheme_may_be_written_in_any_case(locked, scheme):
    """RFC 9110, section 11.1: schemes are case-insensitive."""
    answer = locked.post("/v1/search", QUERY, Authorization=f"{scheme} {SEARCH_KEY}")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", f"Basic {SEARCH_KEY}", SEARCH_KEY, f"Bearer {SEARCH_KEY}x"]
)
def test_another_form_or_another_key_is_refused(locked, header):
    answer = locked.post("/v1/search", QUERY, Authorization=header)
    assert error_of(answer) == (401, "unauthorized")


def test_two_authorizations_are_refused(locked):
    headers = [("Authorization", f"Bearer {SEARCH_KEY}"), ("Authorization", "Bearer x")]
    assert locked.client.post("/v1/search", json=QUERY, headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/call", {"name": "send_mail"}),
        ("/v1/feedback", {"name": "send_mail", "ok": True}),
    ],
)
def test_a_key_does_only_what_its_scopes_allow(locked, path, body):
    answer = locked.post(path, body, key=SEARCH_KEY)
    assert error_of(answer) == (403, "forbidden")
    assert "must have scope" in answer.json()["error"]["message"]


def test_metrics_need_their_own_scope(locked):
    assert locked.get("/metrics", key=SEARCH_KEY).status_code == 403
    assert locked.get("/metrics", key=METRICS_KEY).status_code == 200
    assert locked.post("/v1/search", QUERY, key=METRICS_KEY).status_code == 403


def test_tools_of_a_source_that_a_key_may_not_use_do_not_exist_for_it(locked):
    ask = {"key": MAIL_KEY}
    found = locked.post("/v1/search", {"query": "create an event, send a mail"}, **ask).json()
    assert [tool["id"] for tool in found["tools"]] == ["mail/send_mail"]
    page = locked.get("/v1/tools", **ask).json()
    assert ([tool["id"] for tool in page["tools"]], page["total"]) == (["mail/send_mail"], 1)
    hidden = "calendar/create_event"
    refused = [
        locked.get(f"/v1/tools/{hidden}", **ask),
        locked.post("/v1/call", {"name": hidden, "arguments": {"city": "x"}}, **ask),
        locked.post("/v1/rank", {**QUERY, "tool_ids": [hidden]}, **ask),
        locked.post("/v1/feedback", {"name": hidden, "ok": True}, **ask),
    ]
    assert {error_of(answer) for answer in refused} == {(404, "unknown_tool")}
    missing = locked.get("/v1/tools/calendar/create_evemt", key=FULL_KEY).json()
    assert refused[0].json()["error"]["message"] == missing["error"]["message"].replace(
        "emt", "ent"
    )
    assert locked.caller.called == []


# Hosts and origins


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765", "localhost."]
)
def test_a_local_server_answers_to_the_names_of_its_machine(open_server, host):
    assert open_server.get("/v1/tools", Host=host).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example"])
def test_a_name_that_was_made_to_resolve_here_is_refused(open_server, host):
    assert error_of(open_server.get("/v1/tools", Host=host)) == (421, "host_not_allowed")
    over_mcp = open_server.post("/mcp", {}, Host=host)
    assert (over_mcp.status_code, over_mcp.json()["error"]["data"]) == (
        421,
        {"code": "host_not_allowed"},
    )


def test_a_probe_comes_by_address(open_server):
    assert open_server.get("/healthz", Host="10.1.2.3:8765").status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://u@localhost", "file://"]
)
def test_a_page_of_another_site_is_refused_everywhere(open_server, origin):
    for path in ("/v1/tools", "/healthz", "/mcp"):
        answer = open_server.get(path, Origin=origin)
        assert answer.status_code == 403
        assert "origin_not_allowed" in answer.text


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8765"])
def test_a_page_of_this_machine_is_let_in(open_server, origin):
    assert open_server.get("/v1/tools", Origin=origin).status_code == 200


async def asked(app, **scope):
    """What an app makes of a request: the answer, or the error's code."""
    sent = []
    found = {
        "type": "http",
        "method": "GET",
        "path": "/v1/tools",
        "query_string": b"",
        "headers": [],
        "client": ("10.0.0.9", 1),
        **scope,
    }

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(found, receive, send)
    return sent[0]["status"]


async def waited(app, scope, receive, send):
    await app({**scope, "headers": [(b"host", b"localhost")]}, receive, send)


async def fine(scope, receive, send):
    await PlainTextResponse("fine")(scope, receive, send)


def test_hosts_and_origins_that_are_named_are_let_in():
    app = guarded(
        fine,
        ServeSettings(allowed_hosts=("tools.example",), allowed_origins=("https://App.example/",)),
        Keys(),
    )
    client = TestClient(app, base_url="http://tools.example")
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"Origin": "https://app.example"}).status_code == 200
    assert client.get("/", headers={"Origin": "https://tools.example"}).status_code == 200
    assert client.get("/", headers={"Host": "other.example"}).status_code == 421


def test_a_server_of_any_name_still_refuses_pages_of_other_names():
    client = TestClient(Hosts(fine, hosts=("*",), origins=(), free=()), base_url="http://x.example")
    assert client.get("/").status_code == 200
    with pytest.raises(Exception, match="Origin must be an allowed one"):
        client.get("/", headers={"Origin": "http://x.example"})


@pytest.mark.parametrize("headers", [[], [(b"host", b"localhost"), (b"host", b"evil.example")]])
def test_a_request_without_one_host_is_refused(headers):
    app = Hosts(fine, hosts=(), origins=(), free=())
    with pytest.raises(Exception, match="Host must be a name of this server"):
        asyncio.run(asked(app, headers=headers))


# Bodies


def test_a_body_that_is_too_large_is_refused_before_it_is_read(open_server):
    answer = open_server.post("/v1/search", {"query": "x" * 2_000_000})
    assert error_of(answer) == (413, "body_too_large")


@pytest.mark.parametrize("path", EVERY_PATH)
def test_a_body_sent_in_chunks_is_counted(open_server, path):
    def chunks():
        for _ in range(300):
            yield b" " * 10_000

    headers = {"Content-Type": "application/json"}
    answer = open_server.client.post(path, content=chunks(), headers=headers)
    assert "content-length" not in answer.request.headers
    assert answer.status_code == 413
    assert "body_too_large" in answer.text


def test_a_length_that_is_no_number_does_not_let_a_large_body_through(open_server):
    headers = {"Content-Type": "application/json", "Content-Length": "-1"}
    content = b"1" * 1_100_000
    answer = open_server.client.post("/v1/search", content=content, headers=headers)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "content",
    [
        b'{"query":"x","z":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"query":"bad \\ud800 char"}',
        b'{"query":"x","k":NaN}',
        b"{",
        b"\x00",
    ],
)
@pytest.mark.parametrize("path", EVERY_PATH)
def test_what_is_no_strict_json_is_a_400(open_server, path, content):
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    answer = open_server.client.post(path, content=content, headers=headers)
    assert answer.status_code == 400
    assert "invalid_json" in answer.text


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_only_json_is_taken(open_server, media_type):
    """A form of another site's page could be sent without asking first."""
    headers = {"Content-Type": media_type}
    answer = open_server.client.post("/v1/search", content=b'{"query":"x"}', headers=headers)
    assert error_of(answer) == (415, "unsupported_media_type")


def test_json_with_a_character_set_is_taken(open_server):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = open_server.client.post("/v1/search", content=b'{"query":"mail"}', headers=headers)
    assert answer.status_code == 200


def test_a_post_without_a_body_is_a_400(open_server):
    for path in EVERY_PATH:
        assert open_server.client.post(path).status_code == 400


def test_a_url_that_is_too_long_is_refused(open_server):
    answer = open_server.get("/v1/tools?server=" + "x" * 9000)
    assert error_of(answer) == (414, "url_too_long")


# Errors


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/nothing", (404, "not_found")),
        ("GET", "/v1/tools/", (404, "unknown_tool")),
        ("GET", "/v1/search", (405, "method_not_allowed")),
        ("DELETE", "/v1/tools", (405, "method_not_allowed")),
        ("GET", "/v1/search/", (404, "not_found")),
        ("OPTIONS", "/v1/search", (405, "method_not_allowed")),
    ],
)
def test_errors_of_routing_are_json_too(open_server, method, path, wanted):
    assert error_of(open_server.client.request(method, path)) == wanted


def test_a_method_that_is_not_allowed_names_those_that_are(open_server):
    assert open_server.get("/v1/search").headers["allow"] == "POST"
    assert open_server.get("/mcp").headers["allow"] == "POST"


def test_a_fault_of_the_server_is_told_without_its_details(open_server, caplog):
    open_server.retriever.error = RuntimeError("secret detail")
    try:
        with caplog.at_level(logging.ERROR):
            answer = open_server.post("/v1/search", QUERY)
    finally:
        open_server.retriever.error = None
    assert error_of(answer) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "secret detail" in caplog.text


def test_a_request_ends_at_its_deadline():
    async def hangs(scope, receive, send):
        await asyncio.Event().wait()

    app = guarded(hangs, ServeSettings(deadline_s=0.05), Keys())
    answer = TestClient(app, base_url="http://localhost").get("/v1/tools")
    assert error_of(answer) == (504, "deadline_exceeded")


def test_a_body_that_does_not_come_ends_at_the_deadline():
    app = guarded(fine, ServeSettings(deadline_s=0.05), Keys())
    told = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        told.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/search", "query_string": b""}
    asyncio.run(waited(app, scope, receive, send))
    assert told[0]["status"] == 504


def test_a_client_that_hangs_up_causes_no_log(caplog):
    app = guarded(fine, ServeSettings(), Keys())

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        raise OSError("the connection is closed")

    scope = {"type": "http", "method": "POST", "path": "/v1/search", "query_string": b""}
    for waiting in (receive, None):

        async def no_body():
            return {"type": "http.request", "body": b"", "more_body": False}

        asyncio.run(waited(app, scope, waiting or no_body, send))
    assert caplog.records == []


# Rates


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def limited():
    clock = Clock()
    return Rates(fine, per_minute=60, burst=2, free=("/healthz",), clock=clock), clock


def status(app, **scope):
    try:
        return asyncio.run(asked(app, **scope))
    except ApiError as e:
        return e.status, e.headers["Retry-After"]


def test_requests_beyond_the_burst_are_refused_until_the_rate_allows_them(limited):
    app, clock = limited
    assert [status(app) for _ in range(3)] == [200, 200, (429, "1")]
    clock.now += 1.0
    assert [status(app) for _ in range(2)] == [200, (429, "1")]
    clock.now += 3600.0
    assert [status(app) for _ in range(3)] == [200, 200, (429, "1")]


def test_each_address_has_its_own_rate_and_probes_have_none(limited):
    app, _ = limited
    assert [status(app) for _ in range(3)][-1] == (429, "1")
    assert status(app, client=("10.0.0.10", 1)) == 200
    assert status(app, path="/healthz") == 200


def test_each_key_has_its_own_rate_wherever_it_comes_from(tmp_path):
    with served(keys=KEYS, tmp_path=tmp_path, rate_per_minute=1, rate_burst=1) as server:
        answers = [server.post("/v1/search", QUERY, key=key) for key in (FULL_KEY, FULL_KEY)]
        assert error_of(answers[1]) == (429, "rate_limited")
        assert int(answers[1].headers["retry-after"]) > 0
        assert server.post("/v1/search", QUERY, key=SEARCH_KEY).status_code == 200
        assert server.get("/healthz").status_code == 200


def test_clients_are_forgotten_before_they_fill_the_memory(limited, monkeypatch):
    monkeypatch.setattr("toolheads.serving.guard.rates._MOST_CLIENTS", 3)
    app, _ = limited
    for last in range(10):
        status(app, client=(f"10.0.0.{last}", 1))
    assert len(app._buckets) == 3
