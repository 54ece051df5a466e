import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rerank.llm.replies import JSON, NAMES, REPLIES

from toolheads.rerank.llm.reply import read_names


@pytest.mark.parametrize(("reply", "names"), REPLIES.values(), ids=REPLIES)
def test_replies_are_read_for_what_they_mean(reply, names):
    assert read_names(reply, NAMES) == names


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        (["mow_lawn", 7, ["prune_tree"]], ["mow_lawn", "prune_tree"]),
        ({"tools": ["mow_lawn"]}, ["mow_lawn"]),
        (b'["mow_lawn"]', ["mow_lawn"]),
        (7, []),
        (None, []),
        (object(), []),
        (float("nan"), []),
    ],
)
def test_what_is_no_text_is_read_if_it_can_be(reply, names):
    assert read_names(reply, NAMES) == names


def test_a_list_that_holds_itself_names_nothing():
    reply: list[object] = ["mow_lawn"]
    reply.append(reply)
    assert read_names(reply, NAMES) == []


def test_a_case_that_two_names_share_is_nobodys():
    assert read_names('["RUN", "Stop"]', ["run", "Run", "stop"]) == ["stop"]


BRACKETS = st.text(st.sampled_from("[]{}\":,\\'\n a<>/tihnk"), max_size=80)


@given(st.one_of(st.text(), BRACKETS, JSON, JSON.map(json.dumps), st.binary()))
def test_any_reply_gives_names_of_the_list_each_once(reply):
    names = read_names(reply, NAMES)
    assert set(names) <= set(NAMES)
    assert len(set(names)) == len(names)


@given(JSON.map(json.dumps), st.integers(0, 200))
def test_a_reply_may_be_cut_off_anywhere(reply, end):
    assert set(read_names(reply[:end], NAMES)) <= set(NAMES)


@pytest.mark.parametrize(
    "reply",
    [
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 50_000,
        "[" * 100_000 + '"mow_lawn"' + "]" * 100_000,
        '["' + '\\"' * 100_000,
        '"\\' * 100_000,
        "['" * 100_000,
        "[" + "'" * 100_000,
        "<think>" * 50_000,
        "</think>" * 50_000,
        "[ " * 50_000 + "'" + "\\'" * 50_000,
    ],
    ids=str.__len__,
)
def test_long_replies_do_not_take_long(reply):
    """Quadratic time would be minutes."""
    start = time.process_time()
    assert set(read_names(reply, NAMES)) <= set(NAMES)
    assert time.process_time() - start < 10
