"""A call as an HTTP message: where each argument goes, and what is not sent."""

import json
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.calls.http_message import RefusedError, http_message
from toolheads.sources.openapi.operation import Body, Operation, Parameter

ID = Parameter("id", "path", "id", True, "simple", False)
ITEM = Operation("GET", "/customers/{id}", parameters=(ID,))


def message(operation, **arguments):
    return http_message(operation, arguments, most_bytes=1_000)


@pytest.mark.parametrize("value", ["", None, " ", [], {}, [""], [None]])
def test_an_empty_path_parameter_is_refused(value):
    with pytest.raises(RefusedError, match="id must not be empty, since it stands in the path"):
        message(ITEM, id=value)


def test_a_path_parameter_that_is_not_given_is_refused():
    with pytest.raises(RefusedError, match="id must not be empty"):
        message(ITEM)


@pytest.mark.parametrize(
    "value", [".", "..", "../admin", "a/../../b", "..\\x", "%2e%2e", "%252e.", ". ", "a/.."]
)
def test_dot_segments_in_a_path_parameter_are_refused(value):
    with pytest.raises(RefusedError, match="id must have no dot segments"):
        message(ITEM, id=value)


def test_dot_segments_made_of_two_parameters_are_refused():
    parts = tuple(Parameter(n, "path", n, True, "label", False) for n in ("a",))
    with pytest.raises(RefusedError, match="no dot segments"):
        message(Operation("GET", "/x/{a}", parameters=parts), a=".")


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("a b", "/customers/a%20b"),
        ("a/b?c#d", "/customers/a%2Fb%3Fc%23d"),
        ("100%", "/customers/100%25"),
        ("@evil.example", "/customers/%40evil.example"),
        ("\r\nX: y", "/customers/%0D%0AX%3A%20y"),
        (7, "/customers/7"),
        ("v1.2", "/customers/v1.2"),
    ],
)
def test_path_parameters_are_percent_encoded(value, target):
    assert message(ITEM, id=value).target == target


@given(st.text(min_size=1))
def test_a_path_parameter_stays_one_segment_and_is_read_back(value):
    try:
        target = message(ITEM, id=value).target
    except RefusedError:
        return
    start, _, rest = target.rpartition("/")
    assert start == "/customers"
    assert unquote(rest) == value
    assert urlsplit(f"http://host{target}").path == target


def test_query_and_header_parameters_go_where_they_belong():
    operation = Operation(
        "GET",
        "/search",
        parameters=(
            Parameter("page[size]", "query", "page_size"),
            Parameter("X-Trace", "header", "X-Trace", style="simple", explode=False),
        ),
    )
    sent = message(operation, page_size=5, **{"X-Trace": "abc"})
    assert sent.target == "/search?page%5Bsize%5D=5"
    assert sent.headers == {"X-Trace": "abc"}


@pytest.mark.parametrize("value", ["a\r\nHost: b", "a\nb", "é", " a"])
def test_what_would_break_out_of_a_header_is_refused(value):
    one = Parameter("X-Trace", "header", "trace", style="simple", explode=False)
    with pytest.raises(RefusedError, match="trace must be printable ASCII"):
        message(Operation("GET", "/", parameters=(one,)), trace=value)


def test_an_argument_that_the_tool_does_not_have_is_refused():
    with pytest.raises(RefusedError, match="got 'colour', which it does not have"):
        message(ITEM, id="1", colour="red")


def test_a_required_argument_that_is_missing_is_refused():
    operation = Operation("GET", "/", parameters=(Parameter("q", "query", "q", True),))
    with pytest.raises(RefusedError, match="arguments must have q, got none"):
        message(operation)


def test_a_body_is_one_argument_or_all_that_are_left():
    whole = Operation("POST", "/", body=Body("application/json", "body", True))
    flat = Operation("PUT", "/customers/{id}", parameters=(ID,), body=Body("application/json"))
    assert json.loads(message(whole, body={"a": None}).content) == {"a": None}
    sent = message(flat, id="1", name="Ann")
    assert json.loads(sent.content) == {"name": "Ann"}
    assert sent.headers == {"Content-Type": "application/json"}


def test_no_body_is_sent_where_there_is_none_to_send():
    for body in (Body("application/json"), Body("application/json", "body")):
        assert message(Operation("POST", "/", body=body)).content == b""
    with pytest.raises(RefusedError, match="arguments must have body"):
        message(Operation("POST", "/", body=Body("application/json", "body", True)))


def test_forms_are_encoded_with_objects_as_json():
    form = Operation("POST", "/", body=Body("application/x-www-form-urlencoded"))
    sent = message(form, a="x&y", b=[1, 2], c={"d": True}, e=None)
    assert sent.content == b"a=x%26y&b=1&b=2&c=%7B%22d%22%3Atrue%7D"


def test_bodies_and_targets_have_a_limit():
    whole = Operation("POST", "/", body=Body("text/plain", "body", True))
    with pytest.raises(RefusedError, match="the body must have at most 1,000 bytes, got 1,001"):
        message(whole, body="x" * 1_001)
    with pytest.raises(RefusedError, match="path and query must have at most"):
        message(ITEM, id="x" * 20_000)
