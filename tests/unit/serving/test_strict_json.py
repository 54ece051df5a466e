"""JSON from outside, and JSON made fit to be sent."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.serving.api_error import ApiError
from toolheads.serving.strict_json import levels, parse_json, sendable

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_a_json_value_is_read_as_it_is(value):
    assert parse_json(json.dumps(value).encode(), max_levels=64) == value


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "must be JSON, got: Expecting property name"),
        (b'{"took_ms": NaN}', "NaN is no JSON number"),
        (b'{"took_ms": -Infinity}', "-Infinity is no JSON number"),
        (b'{"took_ms": 1e999}', "1e999 is beyond the range of a float"),
        (b'{"query": "bad \\ud800 char"}', "got a lone surrogate"),
        (b'{"\\udfff": 1}', "got a lone surrogate"),
        (b"\xff\xfe", "must be UTF-8, got ff fe at byte 0"),
        (b'{"a": 1, "b": 2, "a": 3}', "field 'a' is there twice"),
        (b"1" * 5000, "must be JSON, got: Exceeds the limit"),
        (b"[" * 65 + b"]" * 65, "at most 64 levels deep"),
        (b'{"query": "x", "z": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "64 levels deep"),
        (b'{"a":' * 100_000, "64 levels deep"),
    ],
)
def test_what_is_no_strict_json_is_refused_with_the_reason(body, said):
    with pytest.raises(ApiError, match=said) as caught:
        parse_json(body, max_levels=64)
    assert caught.value.code == "invalid_json"


def test_a_pair_of_surrogates_is_one_character():
    assert parse_json(b'"\\ud83d\\ude00"', max_levels=1) == "\U0001f600"


def test_nesting_is_counted_by_its_deepest_place():
    assert [levels(v) for v in (1, [], {"a": 1}, [[], {"a": [1]}])] == [0, 1, 1, 3]
    assert parse_json(b"[" * 64 + b"]" * 64, max_levels=64)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    with suppress(ApiError):
        parse_json(body, max_levels=8)


def test_what_is_fine_is_sent_as_it_is():
    value = {"a": [1, "é", None]}
    assert sendable(value) is value


def test_nan_is_sent_as_null_and_a_lone_surrogate_as_a_replacement():
    value = {"a\ud800": [math.nan, math.inf, 1.5, "b\udfff"], "c": (1, {"d": -math.inf})}
    sent = sendable(value)
    assert sent == {"a\ufffd": [None, None, 1.5, "b\ufffd"], "c": [1, {"d": None}]}
    json.dumps(sent, allow_nan=False).encode()
