"""Keys say all that a row was made of, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.errors import ConfigError
from toolheads.identity import EncoderIdentity, Fingerprint
from toolheads.indexes import row_key, space_of
from toolheads.texts import TextSettings

FINGERPRINT = Fingerprint(
    EncoderIdentity("model", "1", "mean", 256, 384, "float32"), TextSettings()
)


def test_a_space_is_the_same_in_every_process():
    """Written once: a change here makes every stored row useless."""
    assert space_of(FINGERPRINT).startswith("e7f8a60f5a6e6cfe")
    assert row_key("space", "text").startswith("8798c3fe81d82235")


@pytest.mark.parametrize(
    "other",
    [
        {"fingerprint": replace(FINGERPRINT, texts=TextSettings(tool_format="tool-json/v1"))},
        {"fingerprint": replace(FINGERPRINT, texts=TextSettings(budget=100))},
        {"fingerprint": replace(FINGERPRINT, encoder=replace(FINGERPRINT.encoder, revision="2"))},
        {"heads_sha256": "b" * 64},
        {"heads_sha256": None},
        {"views": {"text": 0.5, "name": 0.50000001}},
        {"views": {"name": 0.5, "text": 0.5}},
        {"views": None},
    ],
    ids=repr,
)
def test_whatever_shapes_a_row_makes_another_space(other):
    settings: dict[str, Any] = {
        "fingerprint": FINGERPRINT,
        "heads_sha256": "a" * 64,
        "views": {"text": 0.5, "name": 0.5},
    }
    assert space_of(**settings) == space_of(**settings)
    assert space_of(**settings) != space_of(**settings | other)


def test_the_whole_text_alone_is_the_space_without_views():
    assert space_of(FINGERPRINT) == space_of(FINGERPRINT, views={"text": 1.0})


def test_one_text_has_the_key_of_a_list_of_one():
    assert row_key("space", "text") == row_key("space", ["text"])


@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1), st.text(), st.text())
def test_other_texts_or_another_space_make_another_key(one, two, space, other_space):
    same = (space, one) == (other_space, two)
    assert (row_key(space, one) == row_key(other_space, two)) == same


def test_texts_do_not_run_together():
    keys = [row_key("s", t) for t in (["ab", "c"], ["a", "bc"], ["abc"], ["", "abc"], ["abc", ""])]
    keys += [row_key("sab", ["c"]), row_key("", ["s", "abc"])]
    assert len(set(keys)) == len(keys)


def test_a_lone_surrogate_has_a_key_of_its_own():
    assert row_key("s", "\ud800") != row_key("s", "?")


def test_no_text_has_no_key():
    with pytest.raises(ConfigError, match="texts must hold at least one"):
        row_key("space", [])
