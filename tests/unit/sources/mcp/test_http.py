from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")
pytest.importorskip("uvicorn", reason="needs uvicorn")

from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from tests.in_thread import served
from tests.mcp_http_peer import HttpPeer
from tests.mcp_peer import entry

from toolheads.sources.mcp import McpError, McpSessions, McpSettings

QUICK = McpSettings(start_timeout_s=20, list_timeout_s=20)


@pytest.fixture
def peer():
    return HttpPeer()


@pytest.fixture
def url(peer):
    with served(peer.app) as url:
        yield f"{url}/mcp"


@asynccontextmanager
async def sessions_of(url, **source):
    sessions = McpSessions({"peer": {"kind": "mcp", "url": url, **source}}, settings=QUICK)
    try:
        yield sessions
    finally:
        await sessions.close()


async def said(sessions, tool, headers=None, **arguments):
    answer = await sessions.call("peer", tool, arguments, headers=headers)
    return json.loads(answer.content[0].text)


def failure_of(url, peer, answer):
    async def scenario():
        async with sessions_of(url) as sessions:
            await said(sessions, "echo")
            peer.answer = answer
            with pytest.raises(McpError) as caught:
                await said(sessions, "echo")
            peer.answer = None
            assert await said(sessions, "echo", a=1) == {"a": 1}
        return caught.value

    return asyncio.run(scenario())


def test_calls_share_one_session_that_is_ended_at_the_close(peer, url):
    async def scenario():
        async with sessions_of(url) as sessions:
            assert await said(sessions, "echo", a=1) == {"a": 1}
            assert await said(sessions, "echo", b=2) == {"b": 2}
            assert len(peer.sessions) == 1

    asyncio.run(scenario())
    assert (peer.n_sessions, len(peer.sessions)) == (1, 0)


def test_headers_of_the_source_are_sent_with_each_request(peer, url, monkeypatch):
    monkeypatch.setenv("PEER_TOKEN", "s3cret")

    async def scenario():
        async with sessions_of(url, headers={"Authorization": "Bearer ${PEER_TOKEN}"}) as sessions:
            await said(sessions, "echo")

    asyncio.run(scenario())
    assert {headers["authorization"] for headers, _ in peer.requests} == {"Bearer s3cret"}


def test_headers_of_one_caller_are_never_sent_for_another(peer, url):
    async def scenario():
        async with sessions_of(url, headers={"Authorization": "own"}) as sessions:
            ann, bob = {"authorization": "ann", "x-more": "1"}, {"AUTHORIZATION": "bob"}
            seen = [await said(sessions, "headers", headers=h) for h in (ann, bob, None, ann)]
            assert [headers["authorization"] for headers in seen] == ["ann", "bob", "own", "ann"]
            assert ["x-more" in headers for headers in seen] == [True, False, False, True]

    asyncio.run(scenario())
    assert peer.n_sessions == 3


def test_no_cookie_is_kept(peer, url):
    async def scenario():
        async with sessions_of(url) as sessions:
            assert "cookie" not in await said(sessions, "headers")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answer", "reason", "status"),
    [
        (PlainTextResponse("no such key", 401), "HTTP 401 Unauthorized: no such key", 401),
        (JSONResponse({"detail": "down"}, 503), 'HTTP 503 Service Unavailable: {"detail"', 503),
        (Response(status_code=500), "HTTP 500 Internal Server Error", 500),
        (PlainTextResponse("<html>", 200), "Unexpected content type: text/plain", None),
        (JSONResponse({"a": 1}), "Failed to parse JSON response", None),
        (RedirectResponse("http://169.254.169.254/"), "not followed", None),
        (Response(status_code=202), "202 Accepted", None),
    ],
)
def test_an_answer_that_is_none_ends_that_call_alone(peer, url, answer, reason, status):
    error = failure_of(url, peer, answer)
    assert reason in str(error)
    assert error.http_status == status
    assert peer.n_sessions == 1


def test_a_session_that_the_server_forgot_costs_one_call_and_none_is_sent_twice(peer, url):
    async def scenario():
        async with sessions_of(url) as sessions:
            await said(sessions, "echo")
            peer.sessions.clear()
            with pytest.raises(McpError, match="HTTP 404 Not Found: Session not found"):
                await said(sessions, "echo")
            await said(sessions, "echo")

    asyncio.run(scenario())
    assert len(peer.calls("echo")) == 3
    assert peer.n_sessions == 2


def test_a_server_that_is_not_there_costs_no_call_in_flight_elsewhere():
    async def scenario():
        async with sessions_of("http://127.0.0.1:9/mcp") as sessions:
            with pytest.raises(McpError, match="must start, got: All connection attempts failed"):
                await said(sessions, "echo")

    asyncio.run(scenario())


def test_a_refusal_at_the_start_gives_its_status(peer, url):
    peer.answer = PlainTextResponse("who are you", 403)

    async def scenario():
        async with sessions_of(url) as sessions:
            with pytest.raises(McpError, match="HTTP 403 Forbidden: who are you") as caught:
                await said(sessions, "echo")
            assert caught.value.http_status == 403

    asyncio.run(scenario())


def test_a_call_that_is_given_up_leaves_the_session_usable(peer, url):
    async def scenario():
        async with sessions_of(url) as sessions:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(said(sessions, "hang"), 0.5)
            assert await said(sessions, "echo", a=1) == {"a": 1}

    asyncio.run(scenario())
    assert peer.n_sessions == 1


def test_a_change_of_the_list_is_told(peer, url):
    async def scenario():
        async with sessions_of(url) as sessions:
            told: asyncio.Queue[str] = asyncio.Queue()
            sessions.on_list_changed = told.put_nowait
            await said(sessions, "echo")
            while not peer.n_streams:
                await asyncio.sleep(0.01)
            peer.entries.append(entry("new"))
            peer.tell_change()
            assert await asyncio.wait_for(told.get(), 20) == "peer"
            assert "new" in [tool.name for tool in (await sessions.list("peer")).tools]

    asyncio.run(scenario())


def test_the_address_in_errors_has_no_credentials():
    async def scenario():
        async with sessions_of("http://ann:s3cret@127.0.0.1:9/mcp?key=s3cret") as sessions:
            with pytest.raises(McpError, match=r"\(http://127.0.0.1:9/mcp\)") as caught:
                await said(sessions, "echo")
            assert "s3cret" not in str(caught.value)

    asyncio.run(scenario())
