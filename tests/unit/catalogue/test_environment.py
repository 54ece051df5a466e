from __future__ import annotations

from pathlib import Path

import pytest

from toolheads.catalogue import expand
from toolheads.errors import ConfigError

SET = {"TOKEN": "s3cret", "EMPTY": ""}


def expanded(value):
    return expand(value, user="source 'x'", environment=SET)


def test_references_inside_any_string_of_a_value_are_put_in():
    value = {"headers": {"Authorization": "Bearer ${TOKEN}"}, "args": ["${env:TOKEN}", 1, None]}
    assert expanded(value) == {
        "headers": {"Authorization": "Bearer s3cret"},
        "args": ["s3cret", 1, None],
    }


def test_a_default_is_taken_where_the_variable_is_not_set_or_empty():
    assert expanded("${NONE:-a:-b} ${EMPTY:-c} ${TOKEN:-d} ${NONE:-}") == "a:-b c s3cret "


def test_a_variable_that_is_set_to_nothing_is_nothing():
    assert expanded("<${EMPTY}>") == "<>"


def test_what_a_value_holds_is_not_expanded_again():
    assert expand("${A}", user="x", environment={"A": "${B}"}) == "${B}"


def test_every_missing_variable_is_named_once():
    with pytest.raises(ConfigError, match=r"^ONE, TWO must be set in the environment for source"):
        expanded(["${ONE}", "${env:TWO}", "${ONE}"])


@pytest.mark.parametrize("odd", ["${input:key}", "${workspaceFolder}", "${config:a.b}", "${}"])
def test_what_only_an_editor_can_fill_in_is_refused(odd):
    with pytest.raises(ConfigError, match="only an editor can fill in"):
        expanded(odd)


def test_a_dollar_alone_is_no_reference():
    assert expanded("$TOKEN $$ {TOKEN}") == "$TOKEN $$ {TOKEN}"


def test_the_home_folder_is_known():
    assert expanded("${userHome}/x") == f"{Path.home()}/x"
