"""Parts of a log by time, without a request that two of them share."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.usage.logs import at, call, log_of, search

from toolheads.data.leaks import text_key
from toolheads.errors import ConfigError
from toolheads.usage import PartSettings, link, split_by_time
from toolheads.usage.parts import PARTS

HALVES = PartSettings(validation=0.25, held_out=0.25, min_jaccard=1.0)


def linked(*asked):
    """(minutes, session, text) of searches whose first tool was called."""
    events = []
    for number, (minutes, session, text) in enumerate(asked):
        events.append(search(number, minutes, session=session, text=text))
        events.append(call("a", minutes, of=number))
    return link(log_of(*events), "abc").searches


def texts_of(parts):
    return [[one.text for one in getattr(parts, part)] for part in PARTS]


def test_the_latest_requests_are_held_out():
    searches = linked(*((n * 100, f"v{n}", f"text{n}") for n in range(8)))
    assert texts_of(split_by_time(searches, HALVES)) == [
        ["text0", "text1", "text2", "text3"],
        ["text4", "text5"],
        ["text6", "text7"],
    ]


def test_a_request_that_was_made_before_is_no_held_out_request():
    asked = [(n * 100, f"v{n}", f"text{n}") for n in range(6)]
    searches = linked(*asked, (600, "v6", "TEXT0!"), (700, "v7", "text7"))
    parts = split_by_time(searches, HALVES)
    assert texts_of(parts)[2] == ["text7"]
    assert parts.counts["requests seen before (equal)"] == 1


def test_nor_is_one_that_shares_most_words_with_an_earlier_one():
    long = "please move my meeting with the whole sales team to friday"
    asked = [(0, "v0", long), *((n * 100, f"v{n}", f"text{n}") for n in range(1, 7))]
    searches = linked(*asked, (700, "v7", f"{long} morning"))
    parts = split_by_time(searches, PartSettings(0.25, 0.25))
    assert texts_of(parts)[2] == ["text6"]
    assert parts.counts["requests seen before (words)"] == 1


def test_nor_is_one_whose_vector_is_near_that_of_an_earlier_one():
    searches = linked(*((n * 100, f"v{n}", f"text{n}") for n in range(8)))
    rows = {f"text{n}": np.eye(8, dtype=np.float32)[n] for n in range(8)}
    rows["text7"] = rows["text0"] + 0.01
    parts = split_by_time(searches, HALVES, lambda texts: np.stack([rows[t] for t in texts]))
    assert texts_of(parts)[2] == ["text6"]
    assert parts.counts["requests seen before (vectors)"] == 1


def test_a_visit_stays_together_and_loses_what_reaches_into_the_next_part():
    asked = [(n * 100, f"v{n}", f"text{n}") for n in range(3)]
    # One visit around the beginning of the validation part: it began before it.
    asked += [(390, "long", "early"), (400, "v4", "text4"), (401, "long", "late")]
    asked += [(n * 100, f"v{n}", f"text{n}") for n in range(5, 9)]
    parts = split_by_time(linked(*asked), HALVES)
    assert texts_of(parts)[:2] == [["text0", "text1", "text2", "early"], ["text4", "text5"]]
    assert parts.counts["searches of a visit that went on into the next part"] == 1


def test_a_session_that_rests_is_another_visit():
    asked = [(n * 100, "forever", f"text{n}") for n in range(8)]
    assert [len(part) for part in texts_of(split_by_time(linked(*asked), HALVES))] == [4, 2, 2]


@given(
    st.lists(
        st.tuples(st.integers(0, 5000), st.sampled_from("uvwxyz"), st.integers(0, 12)),
        max_size=40,
    ),
    st.sampled_from([0.1, 0.25, 0.4]),
)
def test_each_part_is_later_than_those_before_it_and_shares_no_text_with_them(asked, share):
    searches = linked(*((minutes, who, f"text{n}") for minutes, who, n in asked))
    parts = split_by_time(searches, PartSettings(validation=share, held_out=share))
    of_part = [getattr(parts, part) for part in PARTS]
    spans = [(min(r.first for r in one), max(r.last for r in one)) for one in of_part if one]
    assert all(a[1] < b[0] for a, b in pairwise(spans))
    keys = [text_key(one.text) for part in of_part for one in part]
    assert len(set(keys)) == len(keys)
    kept = sum(one.searches for part in of_part for one in part)
    assert kept <= len(searches)


def test_an_empty_log_has_empty_parts():
    parts = split_by_time([], PartSettings())
    assert texts_of(parts) == [[], [], []]


def test_searches_of_one_moment_cannot_be_split():
    parts = split_by_time(linked(*((0, f"v{n}", f"t{n}") for n in range(5))), HALVES)
    assert [len(part) for part in texts_of(parts)] == [0, 0, 5]
    assert parts.held_out[0].first == at(0)


@pytest.mark.parametrize(
    "wrong",
    [{"validation": 0}, {"held_out": 1}, {"validation": 0.5, "held_out": 0.5}, {"gap_minutes": 0}],
)
def test_shares_that_leave_nothing_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"parts\."):
        PartSettings(**wrong)
