"""Whatever is sent: no 500, valid JSON, and a server that lives on."""

from __future__ import annotations

import json
import logging

import httpx
import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")
pytest.importorskip("schemathesis", reason="needs schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.in_thread import served
from tests.unit.serving.fakes import FakeCaller, a_retriever, fake_calls

from toolheads.serving import create_app

pytestmark = pytest.mark.slow

EXAMPLES = 60
BOUNDED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["2.0", "tools/call", "search_tools", "call_tool", "event", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["jsonrpc", "id", "method", "params", "name", "arguments", "query", "k", "_meta"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)
META = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.sampled_from(["2026-07-28", "1", 5]),
        "io.modelcontextprotocol/clientCapabilities": JSON,
        "progressToken": JSON,
    },
)
MESSAGE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["tools/call", "tools/list", "ping"])},
    optional={
        "id": st.integers() | st.text(max_size=5) | JSON,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["search_tools", "call_tool", "x"]) | JSON,
                "arguments": JSON
                | st.fixed_dictionaries(
                    {}, optional={"query": JSON, "name": JSON, "arguments": JSON, "k": JSON}
                ),
                "_meta": META | JSON,
                "cursor": JSON,
            },
        )
        | JSON,
    },
)
VERSIONS = st.sampled_from([None, "2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28", "x"])
ACCEPTS = st.sampled_from(["application/json, text/event-stream", "application/json", "*/*", ""])
METHODS = st.sampled_from(["tools/call", "tools/list", "ping", "initialize", "x"])


@pytest.fixture(scope="module")
def url():
    # What clients send must not fill the log either.
    with served(create_app(a_retriever(), fake_calls(FakeCaller()))) as url:
        yield url


@pytest.fixture(scope="module")
def http(url):
    with httpx.Client(base_url=url, timeout=20.0) as client:
        yield client
        assert client.get("/healthz").json()["live"] is True


def sent(http, content, version, accept, method):
    headers = {"Content-Type": "application/json", "Accept": accept}
    if version:
        headers |= {"MCP-Protocol-Version": version, "Mcp-Method": method}
    return http.post("/mcp", content=content, headers=headers)


def check(response):
    assert response.status_code < 500, response.text
    if response.content:
        assert isinstance(response.json(), dict)
    assert "Traceback" not in response.text


@given(st.binary(max_size=300), VERSIONS, ACCEPTS, METHODS)
@BOUNDED
def test_any_bytes_to_mcp_are_answered(http, content, version, accept, method):
    check(sent(http, content, version, accept, method))


@given(JSON, VERSIONS, ACCEPTS, METHODS)
@BOUNDED
def test_any_json_to_mcp_is_answered(http, value, version, accept, method):
    check(sent(http, json.dumps(value).encode(), version, accept, method))


@given(MESSAGE, VERSIONS, ACCEPTS, METHODS)
@BOUNDED
def test_any_message_to_mcp_is_answered(http, message, version, accept, method):
    check(sent(http, json.dumps(message).encode(), version, accept, method))


@given(JSON, st.sampled_from(["search", "rank", "call", "feedback"]))
@BOUNDED
def test_any_json_to_rest_is_answered(http, value, route):
    content = json.dumps(value).encode()
    headers = {"Content-Type": "application/json"}
    check(http.post(f"/v1/{route}", content=content, headers=headers))


CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
RIGHT, WRONG = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


@pytest.mark.parametrize("mode", [RIGHT, WRONG], ids=["right", "wrong"])
def test_requests_by_the_document_are_never_a_500_and_answered_by_it(url, mode, caplog):
    """schemathesis makes them from the OpenAPI document."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    seen = set()
    for operation in _operations(schema):
        if mode is WRONG and not (operation.body or operation.query):
            continue  # there is nothing that could be wrong

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(BOUNDED, max_examples=20)
        def answered(case):
            seen.add(case.operation.label)
            case.call_and_validate(checks=CHECKS)

        answered()
    posts = {f"POST /v1/{route}" for route in ("search", "rank", "call", "feedback")}
    assert seen >= posts | {"GET /v1/tools"}
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


def _operations(schema):
    return [result.ok() for result in schema.get_all_operations()]
