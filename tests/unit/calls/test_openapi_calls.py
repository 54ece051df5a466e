"""Calls over HTTP against a real server on this machine."""

import asyncio
import json

import pytest
from tests.unit.calls.api_server import ApiServer

from toolheads.calls.openapi import HttpSettings, OpenApiCaller
from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.sources.openapi.operation import Body, Operation, Parameter

pytest.importorskip("httpx")


@pytest.fixture
def api():
    with ApiServer() as running:
        yield running


def tool(path="/echo", method="GET", **operation):
    call = Operation(method, path, **operation)
    return Tool("api/x", "x", "api", extra={"kind": "openapi", "http": call.to_extra()})


def source(url, **more):
    return {"api": {"kind": "openapi", "spec": "api.json", "base_url": url, **more}}


def run(sources, *tools, settings=None, resolve=None, timeout_s=20.0, headers=None, arguments=None):
    """Results of calls, one after the other."""

    async def calls():
        more = {"resolve": resolve} if resolve else {}
        caller = OpenApiCaller(sources, settings=settings, **more)
        try:
            return [
                await caller.call(one, arguments or {}, timeout_s=timeout_s, headers=headers)
                for one in tools
            ]
        finally:
            await caller.close()

    return asyncio.run(calls())


def resolve_to(*addresses):
    async def resolve(host, port):
        return list(addresses)

    return resolve


def test_an_answer_comes_as_text_and_as_json(api):
    (result,) = run(source(f"{api.url}/v1/"), tool("/echo"))
    assert (result.outcome, result.http_status) == ("ok", 200)
    assert result.structured["target"] == "/v1/echo"
    assert json.loads(result.text) == result.structured


def test_arguments_go_into_path_query_headers_and_body(api):
    one = tool(
        "/items/{id}",
        "PUT",
        parameters=(
            Parameter("id", "path", "id", True, "simple", False),
            Parameter("tag", "query", "tag"),
            Parameter("X-Trace", "header", "trace", style="simple", explode=False),
        ),
        body=Body("application/json"),
    )
    arguments = {"id": "a/b", "tag": ["x", "y"], "trace": "t", "name": {"first": "Ann"}}
    (result,) = run(
        source(api.url), one, settings=HttpSettings(allow_write=True), arguments=arguments
    )
    assert result.outcome == "ok"
    (seen,) = api.seen
    assert (seen["method"], seen["target"]) == ("PUT", "/items/a%2Fb?tag=x&tag=y")
    assert seen["headers"]["x-trace"] == "t"
    assert json.loads(seen["body"]) == {"name": {"first": "Ann"}}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_writing_methods_need_leave_of_the_server_or_the_source(api, method):
    one = tool("/echo", method)
    (refused,) = run(source(api.url), one)
    assert refused.outcome == "refused"
    assert f"must use GET or HEAD, got {method}" in refused.error
    assert api.seen == []
    (by_server,) = run(source(api.url), one, settings=HttpSettings(allow_write=True))
    (by_source,) = run(source(api.url, allow_write=True), one)
    assert (by_server.outcome, by_source.outcome) == ("ok", "ok")


def test_an_empty_path_parameter_never_reaches_the_collection(api):
    one = tool("/items/{id}", "DELETE", parameters=(Parameter("id", "path", "id", True, "simple"),))
    for value in ("", None, ".."):
        (result,) = run(source(api.url, allow_write=True), one, arguments={"id": value})
        assert result.outcome == "refused"
    assert api.seen == []


def test_redirects_are_not_followed(api):
    (result,) = run(source(api.url), tool("/redirect"))
    assert (result.outcome, result.http_status) == ("tool_error", 302)
    assert "a redirect to http://169.254.169.254/latest, not followed" in result.error
    assert len(api.seen) == 1


def test_no_cookie_is_kept_for_the_next_call(api):
    run(source(api.url), tool("/cookie"), tool("/echo"))
    assert "cookie" not in api.seen[1]["headers"]


def test_headers_of_the_source_and_of_the_call_are_sent_the_latter_first(api, monkeypatch):
    monkeypatch.setenv("THE_TOKEN", "secret")
    configured = source(api.url, headers={"Authorization": "Bearer ${THE_TOKEN}", "X-Org": "a"})
    run(configured, tool(), headers={"x-org": "b"})
    sent = api.seen[0]["headers"]
    assert (sent["authorization"], sent["x-org"]) == ("Bearer secret", "b")


def test_an_argument_never_replaces_a_header_of_the_source(api):
    one = tool(parameters=(Parameter("x-org", "header", "org", style="simple", explode=False),))
    run(source(api.url, headers={"X-Org": "a"}), one, arguments={"org": "evil"})
    assert api.seen[0]["headers"]["x-org"] == "a"


def test_headers_of_one_call_are_not_sent_with_the_next(api):
    async def calls():
        caller = OpenApiCaller(source(api.url))
        await caller.call(tool(), {}, timeout_s=20, headers={"Authorization": "Bearer one"})
        await caller.call(tool(), {}, timeout_s=20)
        await caller.close()

    asyncio.run(calls())
    assert "authorization" not in api.seen[1]["headers"]


def test_a_variable_that_is_not_set_is_refused_before_anything_is_sent(api):
    (result,) = run(source(api.url, headers={"Authorization": "${NO_SUCH_VARIABLE}"}), tool())
    assert result.outcome == "refused"
    assert "NO_SUCH_VARIABLE must be set" in result.error
    assert api.seen == []


def own_server(url, **more):
    """A tool whose description names its own server, beside a source with credentials."""
    return tool(base_url=url, has_own_server=True, **more)


def test_credentials_go_to_the_base_address_alone(api):
    configured = source(f"{api.url}/v1", headers={"Authorization": "Bearer secret"})
    with ApiServer() as other:
        results = run(
            configured,
            own_server(f"{api.url}/v1/sub"),
            own_server(f"{api.url}/v10"),
            own_server(other.url),
            headers={"X-Key": "secret"},
        )
        assert [r.outcome for r in results] == ["ok", "refused", "refused"]
        assert other.seen == []
    (seen,) = api.seen
    assert seen["headers"]["authorization"] == "Bearer secret"
    assert seen["headers"]["x-key"] == "secret"


def test_an_address_that_only_the_description_names_is_called_without_credentials(api, monkeypatch):
    monkeypatch.setattr("toolheads.calls.openapi.is_public", lambda address: True)
    configured = source(f"{api.url}/v1", headers={"Authorization": "Bearer secret"})
    with ApiServer() as other:
        tools = (
            own_server(f"{api.url}/v10"),
            own_server(other.url),
            own_server(other.url, path="/status/401"),
        )
        near, far, denied = run(configured, *tools, headers={"X-Key": "secret"})
        assert (near.outcome, far.outcome, denied.http_status) == ("ok", "ok", 401)
        assert "the headers of the source were not sent" in denied.error
        for seen in (*api.seen, *other.seen):
            assert seen["headers"].keys().isdisjoint({"authorization", "x-key"})


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "[::ffff:169.254.169.254]",
        "10.0.0.5",
    ],
)
def test_a_server_that_only_the_description_names_must_be_public(api, host):
    sources = {"api": {"kind": "openapi", "spec": "api.json"}}
    (result,) = run(sources, tool(base_url=f"http://{host}:{api.port}"))
    assert result.outcome == "refused"
    assert "must have a public address, got" in result.error
    assert api.seen == []


def test_an_address_in_octal_is_refused(api):
    sources = {"api": {"kind": "openapi", "spec": "api.json"}}
    (result,) = run(sources, tool(base_url=f"http://0177.0.0.1:{api.port}"))
    assert result.outcome == "refused"
    assert api.seen == []


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["64:ff9b::7f00:1"], []]
)
def test_a_name_that_leads_to_a_private_address_is_refused(addresses):
    sources = {"api": {"kind": "openapi", "spec": "api.json"}}
    (result,) = run(sources, tool(base_url="https://api.example"), resolve=resolve_to(*addresses))
    assert result.outcome == "refused"
    assert "api.example must have a public address" in result.error


def test_the_connection_goes_to_the_address_that_was_judged(api, monkeypatch):
    """The name cannot be looked up here at all, so nothing but that address can have been used."""
    monkeypatch.setattr("toolheads.calls.openapi.is_public", lambda address: True)
    sources = {"api": {"kind": "openapi", "spec": "api.json"}}
    base = f"http://api.invalid:{api.port}"
    (result,) = run(sources, tool(base_url=base), resolve=resolve_to("127.0.0.1"))
    assert result.outcome == "ok"
    assert api.seen[0]["headers"]["host"] == f"api.invalid:{api.port}"


def test_the_next_address_is_tried_where_one_cannot_be_reached(api, monkeypatch):
    monkeypatch.setattr("toolheads.calls.openapi.is_public", lambda address: True)
    sources = {"api": {"kind": "openapi", "spec": "api.json"}}
    one = tool(base_url=f"http://api.invalid:{api.port}")
    (result,) = run(sources, one, resolve=resolve_to("127.0.0.2", "127.0.0.1"))
    assert result.outcome == "ok"
    assert len(api.seen) == 1


def test_a_description_fetched_from_a_private_address_may_name_that_address(api):
    sources = {"api": {"kind": "openapi", "spec": f"{api.url}/openapi.json", "headers": {"X": "1"}}}
    (result,) = run(sources, tool(base_url=api.url))
    assert result.outcome == "ok"
    assert api.seen[0]["headers"]["x"] == "1"


def test_errors_of_the_api_are_tool_errors_that_say_what_it_said(api):
    results = run(source(api.url), tool("/status/404"), tool("/status/500"))
    assert [(r.outcome, r.http_status) for r in results] == [
        ("tool_error", 404),
        ("tool_error", 500),
    ]
    assert results[0].error == "HTTP 404: no such item"
    assert results[0].structured == {"detail": "no such item"}


def test_an_answer_that_is_too_long_is_cut_with_a_note(api):
    settings = HttpSettings(most_response_bytes=10_000, most_response_characters=1_000)
    (result,) = run(source(api.url), tool("/big"), settings=settings)
    assert result.outcome == "ok"
    assert result.structured is None
    assert result.text.endswith("\n[cut: 1,000 characters of more]")
    (whole,) = run(source(api.url), tool("/big"), settings=HttpSettings(most_response_characters=9))
    assert whole.text == '{"text": \n[cut: 9 characters of 300,012]'


def test_bytes_that_are_no_text_are_shown_as_what_they_are(api):
    image, pdf, empty = run(source(api.url), tool("/image"), tool("/pdf"), tool("/empty"))
    assert image.content == ({"type": "image", "data": "iVBORwA=", "mimeType": "image/png"},)
    assert pdf.text == "[6 bytes of application/pdf]"
    assert empty.text == "HTTP 204, no content"


@pytest.mark.parametrize("path", ["/hang", "/drip"])
def test_a_server_that_never_ends_is_given_up(api, path):
    (result,) = run(source(api.url), tool(path), timeout_s=0.3)
    assert result.outcome == "timeout"


def test_a_server_that_speaks_no_http_is_a_protocol_error_and_is_asked_once(api):
    (result,) = run(source(api.url), tool("/broken"))
    assert result.outcome == "protocol_error"
    assert len(api.seen) == 1


def test_a_server_that_is_not_there_is_a_protocol_error():
    with ApiServer() as gone:
        url = gone.url
    (result,) = run(source(url), tool())
    assert result.outcome == "protocol_error"
    assert "cannot be reached" in result.error


def test_a_call_that_is_given_up_leaves_the_server_usable(api):
    async def calls():
        caller = OpenApiCaller(source(api.url))
        first = await caller.call(tool("/hang"), {}, timeout_s=0.2)
        second = await caller.call(tool("/echo"), {}, timeout_s=20)
        await caller.close()
        return first.outcome, second.outcome

    assert asyncio.run(calls()) == ("timeout", "ok")


@pytest.mark.parametrize(
    "http",
    [None, {}, {"method": "GET"}, {"method": "TRACE", "path": "/", "parameters": []}, [], "x"],
)
def test_a_tool_without_a_usable_description_of_its_call_is_refused(api, http):
    broken = Tool("api/x", "x", "api", extra={"kind": "openapi", "http": http})
    (result,) = run(source(api.url), broken)
    assert result.outcome == "refused"
    assert "http of a tool must" in result.error


def test_other_sources_count_from_the_next_call_on(api):
    async def calls():
        caller = OpenApiCaller({})
        first = await caller.call(tool(), {}, timeout_s=20)
        caller.use(source(api.url))
        second = await caller.call(tool(), {}, timeout_s=20)
        await caller.close()
        return first.outcome, second.outcome

    assert asyncio.run(calls()) == ("unknown_tool", "ok")


def test_a_proxy_of_the_environment_is_not_used(api, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    (result,) = run(source(api.url), tool())
    assert result.outcome == "ok"


def test_settings_without_a_limit_are_refused():
    with pytest.raises(ConfigError, match=r"http\.most_response_bytes must be >= 1, got 0"):
        HttpSettings(most_response_bytes=0)
