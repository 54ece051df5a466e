"""What a line of a usage log is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.errors import ConfigError
from toolheads.usage import Call, Search, text_digest
from toolheads.usage.events import EventError, from_record, to_record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = st.text(min_size=1, max_size=8).filter(lambda text: text.strip())
TIMES = st.datetimes(
    min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
)
SEARCHES = st.builds(
    Search,
    time=TIMES,
    search_id=NAMES,
    session=NAMES,
    shown=st.lists(NAMES, unique=True, max_size=4).map(tuple),
    text=st.none() | NAMES,
    digest=NAMES,
    heads=st.just("") | NAMES,
    mode=st.sampled_from(["", "dense", "lexical"]),
    client=st.just("") | NAMES,
    took_ms=st.none() | st.floats(0, 1e9),
)
CALLS = st.builds(
    Call,
    time=TIMES,
    tool_id=NAMES,
    ok=st.booleans(),
    search_id=NAMES,
    session=NAMES,
    error=NAMES,
    call_id=st.just("") | NAMES,
    arguments=st.none() | NAMES,
    arguments_digest=st.just("") | NAMES,
    took_ms=st.none() | st.floats(0, 1e9),
)


def search_record(**changed):
    return {
        "version": 1,
        "time": "2026-03-01T12:00:00Z",
        "event": "search",
        "search_id": "s",
        "session": "v",
        "shown": ["a", "b"],
        "text": "book a flight",
        **changed,
    }


def call_record(**changed):
    record = {"version": 1, "time": "2026-03-01T12:00:00+00:00", "event": "call"}
    return record | {"tool_id": "a", "ok": True, "search_id": "s"} | changed


@given(SEARCHES | CALLS)
def test_an_event_is_read_back_as_it_was_written(event):
    assert from_record(to_record(event)) == event


def test_times_are_compared_across_time_zones():
    istanbul = timezone(timedelta(hours=3))
    event = Search(NOON.astimezone(istanbul), "s", "v", ("a",), "text")
    assert to_record(event)["time"] == "2026-03-01T12:00:00+00:00"
    assert from_record(search_record(time="2026-03-01T15:00:00+03:00")).time == NOON


def test_fields_without_a_name_here_are_passed_over():
    assert from_record(search_record(region="eu")) == from_record(search_record())


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (search_record(version=2), "version must be 1, got 2"),
        (search_record(version=True), "version must be 1"),
        (search_record(event="click"), "event must be search or call"),
        (search_record(time="2026-03-01T12:00:00"), "time must be ISO 8601 with a time zone"),
        (search_record(time="yesterday"), "time must be ISO 8601"),
        (search_record(time=1767225600), "time must be ISO 8601"),
        (search_record(search_id=""), "search_id must be a string that is not empty"),
        (search_record(session=None), "session must be a string"),
        (search_record(shown="a"), "shown must be a list of tool ids"),
        (search_record(shown=["a", "a"]), "shown must hold each tool once"),
        (search_record(text=None), "a search must have a text or a digest, got neither"),
        (search_record(text=7), "text must be a string or null"),
        (call_record(ok="yes"), "ok must be true or false"),
        (call_record(tool_id=" "), "tool_id must be a string that is not empty"),
        (call_record(search_id=None), "a call must have a search_id or a session, got neither"),
    ],
)
def test_a_record_that_breaks_a_rule_says_which(record, reason):
    with pytest.raises(EventError, match=reason):
        from_record(record)


def test_all_faults_of_a_record_are_told_at_once():
    with pytest.raises(EventError) as caught:
        from_record(call_record(ok=None, tool_id=3))
    assert len(caught.value.reasons) == 2


@pytest.mark.parametrize(
    "event",
    [
        Search(NOON.replace(tzinfo=None), "s", "v", ("a",), "text"),
        Search(NOON, "", "v", ("a",), "text"),
        Search(NOON, "s", "v", ("a", "a"), "text"),
        Call(NOON, "a", ok=True),
    ],
    ids=["no time zone", "no id", "twice", "of nothing"],
)
def test_an_event_that_could_not_be_read_back_is_not_written(event):
    with pytest.raises(ConfigError):
        to_record(event)


def test_equal_texts_have_one_digest():
    assert text_digest("é") == text_digest("é") != text_digest("e")
    assert len(text_digest("")) == 64
