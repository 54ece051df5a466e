"""Both clients, on a real server and on answers that are none."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import httpx
import pytest
from tests.in_thread import served
from tests.unit.serving.fakes import TOOLS, FakeCaller, a_retriever, fake_calls, tool_error

import toolheads
from toolheads.client import AsyncClient, Client
from toolheads.errors import ClientError, ConfigError
from toolheads.serving import create_app, load_keys

KEY = "a-key-of-the-tests-0123"


@pytest.fixture(scope="module")
def backend():
    return FakeCaller()


@pytest.fixture(scope="module")
def url(backend):
    with served(create_app(a_retriever(), fake_calls(backend))) as url:
        yield url


class InLine:
    """An `AsyncClient` whose methods are waited for, so that one test fits both."""

    def __init__(self, *arguments, **settings):
        self._loop = asyncio.new_event_loop()
        self._client = AsyncClient(*arguments, **settings)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    def __getattr__(self, name):
        method = getattr(self._client, name)

        def waited(*arguments, **named):
            found = method(*arguments, **named)
            if inspect.isasyncgen(found):
                return self._loop.run_until_complete(_list(found))
            return self._loop.run_until_complete(found)

        return waited


async def _list(generator):
    return [one async for one in generator]


BOTH = pytest.mark.parametrize("kind", [Client, InLine], ids=["sync", "async"])


@BOTH
def test_search_call_and_feedback(kind, url, backend):
    backend.answer = None
    with kind(url) as client:
        found = client.search("move an event", 1)
        assert [tool.id for tool in found.tools] == ["calendar/move_event"]
        assert found.tools[0].input_schema == TOOLS[1].input_schema
        assert (found.mode, found.nothing_matches) == ("dense", False)
        called = client.call("move_event", {"city": "Izmir"})
        assert (called.outcome, called.is_error, called.text) == ("ok", False, "called move_event")
        assert called.structured == {"given": {"city": "Izmir"}}
        assert called.search_id == found.search_id  # one session
        assert len(client.feedback("move_event", ok=True, took_ms=1.5)) == 24


@BOTH
def test_a_tool_that_fails_is_an_answer(kind, url, backend):
    backend.answer = tool_error("no such day")
    with kind(url) as client:
        answer = client.call("move_event", {"city": "x"})
    backend.answer = None
    assert (answer.is_error, answer.error) == (True, "no such day")


@BOTH
def test_tools_are_fetched_page_by_page(kind, url):
    with kind(url) as client:
        tools = list(client.tools(page_size=1))
        assert [tool.id for tool in tools] == sorted(tool.id for tool in TOOLS)
        assert [tool.name for tool in client.tools(server="mail", full=True)] == ["send_mail"]
        assert client.tool("mail/send_mail").input_schema == TOOLS[2].input_schema


@BOTH
def test_tools_of_ones_own_are_ranked(kind, url):
    with kind(url) as client:
        mine = [{"name": "get_time"}, TOOLS[2], {"name": "send", "inputSchema": {}}]
        ranking = client.rank("send a mail", mine)
        assert (ranking.tools[0].index, ranking.tools[0].name) == (1, "send_mail")
        by_id = client.rank("send a mail", ["calendar/move_event", "mail/send_mail"], k=1)
        assert [tool.index for tool in by_id.tools] == [1]


@BOTH
def test_health_says_how_the_server_is(kind, url):
    with kind(url) as client:
        health = client.health()
    assert (health.ready, health.mode, health.tools) == (True, "dense", 4)
    assert health.extra["circuit"] == "closed"


@BOTH
def test_a_refusal_is_an_error_with_its_code_and_status(kind, url):
    with kind(url) as client:
        with pytest.raises(ClientError, match="k must be <= 50, got 99") as caught:
            client.search("mail", 99)
        assert (caught.value.code, caught.value.status) == ("invalid_argument", 400)
        with pytest.raises(ClientError) as caught:
            client.tool("nothing")
        assert (caught.value.code, caught.value.status) == ("unknown_tool", 404)


@BOTH
def test_a_server_that_is_not_there_is_an_error_without_a_status(kind):
    with kind("http://127.0.0.1:9") as client, pytest.raises(ClientError) as caught:
        client.search("mail")
    assert (caught.value.code, caught.value.status) == ("unreachable", None)
    assert "http://127.0.0.1:9 must answer, got: " in str(caught.value)


def test_the_key_and_the_address_may_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLHEADS_SERVER_KEY", KEY)
    app = create_app(a_retriever(), fake_calls(FakeCaller()), keys=load_keys())
    with served(app) as url:
        monkeypatch.setenv("TOOLHEADS_URL", url + "/")
        with Client() as client:
            assert client.search("mail").tools
        with Client(key="another-key-of-the-tests") as client:
            with pytest.raises(ClientError) as caught:
                client.search("mail")
            assert caught.value.code == "unauthorized"


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="url must begin with http:// or https://, got 'local"):
        Client("localhost:8765")


GOOD: dict[str, object] = {
    "search_id": "s",
    "tools": [],
    "mode": "dense",
    "reason": None,
    "nothing_matches": False,
    "catalogue": "c",
    "took_ms": 1,
}


@pytest.mark.parametrize(
    ("status", "content", "code"),
    [
        (200, b"<html>", "bad_answer"),
        (200, b"[]", "bad_answer"),
        (200, b"{}", "bad_answer"),
        (200, b'{"search_id": "s", "tools": [{"id": 5}]}', "bad_answer"),
        (200, b'{"search_id": "s", "tools": 5}', "bad_answer"),
        (502, b"<html>bad gateway</html>", "bad_answer"),
        (500, b'{"error": "a string"}', "bad_answer"),
        (503, b'{"error": {"code": "unavailable", "message": "m"}}', "unavailable"),
        (302, b"", "bad_answer"),
    ],
)
def test_what_is_no_answer_of_a_server_is_an_error(status, content, code):
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=content))
    with Client(transport=transport) as client, pytest.raises(ClientError) as caught:
        client.search("mail")
    assert caught.value.code == code


def test_fields_of_a_later_server_are_passed_over():
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=GOOD | {"new": 1}))
    with Client(transport=transport) as client:
        assert client.search("mail").search_id == "s"


def test_an_id_is_put_into_a_path_as_it_is():
    paths = []

    def answer(request):
        paths.append(request.url.raw_path)
        return httpx.Response(404, json={"error": {"code": "unknown_tool", "message": "m"}})

    with Client(transport=httpx.MockTransport(answer)) as client, pytest.raises(ClientError):
        client.tool("a%2Fb/c d?e#f")
    assert paths == [b"/v1/tools/a%252Fb/c%20d%3Fe%23f"]


def test_both_clients_have_the_same_methods():
    def methods(kind):
        return {
            name: [str(p) for p in inspect.signature(method).parameters.values()]
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(Client) == methods(AsyncClient)


def test_the_package_has_both_without_loading_httpx():
    code = "import sys, toolheads; print(toolheads.Client, 'httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
    assert toolheads.AsyncClient is AsyncClient
