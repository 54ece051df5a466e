"""Keys: which there are, and what each allows."""

from __future__ import annotations

import hashlib
import json

import pytest
from tests.unit.serving.servers import FULL_KEY, KEYS, MAIL_KEY, SEARCH_KEY

from toolheads.errors import ConfigError
from toolheads.serving import load_keys
from toolheads.serving.access import SCOPES


def keys_of(tmp_path, data, **environ):
    path = tmp_path / "keys.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return load_keys(path, environ=environ)


def test_each_key_allows_what_its_entry_says(tmp_path):
    keys = keys_of(tmp_path, KEYS)
    assert keys.find(SEARCH_KEY).scopes == {"search"}
    assert keys.find(FULL_KEY).scopes == set(SCOPES)
    assert keys.find(FULL_KEY).sources is None
    assert keys.find(MAIL_KEY).sources == {"mail"}


@pytest.mark.parametrize("token", ["", "nope", SEARCH_KEY[:-1], SEARCH_KEY + "x", "\udc80", "é"])
def test_another_token_is_no_key(tmp_path, token):
    assert keys_of(tmp_path, KEYS).find(token) is None


def test_a_key_may_be_given_by_its_digest(tmp_path):
    digest = hashlib.sha256(FULL_KEY.encode()).hexdigest()
    assert keys_of(tmp_path, {"agent": {"sha256": digest}}).find(FULL_KEY).name == "agent"


def test_a_key_may_be_a_variable_of_the_environment(tmp_path):
    keys = keys_of(tmp_path, {"agent": {"key": "${AGENT_KEY}"}}, AGENT_KEY=FULL_KEY)
    assert keys.find(FULL_KEY).name == "agent"


def test_one_key_may_come_from_the_environment_alone():
    found = load_keys(environ={"TOOLHEADS_SERVER_KEY": FULL_KEY}).find(FULL_KEY)
    assert found is not None
    assert found.name == "environment"
    assert len(load_keys(environ={})) == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", r"keys\.json: the keys file must be JSON"),
        ({}, "must be a JSON object with a name for each key, got an empty one"),
        ([], "must be a JSON object with a name for each key, got list"),
        ({"a b": FULL_KEY}, "the name of a key must be"),
        ({"a": 5}, "key a must have fields of key, sha256, scopes, sources, got int"),
        ({"a": {"key": FULL_KEY, "role": 1}}, r"got \['role'\]"),
        ({"a": {"key": FULL_KEY, "scopes": ["serach"]}}, "scopes of key a must be of search"),
        ({"a": {"key": FULL_KEY, "scopes": []}}, "scopes of key a must be a list of names"),
        ({"a": {"key": FULL_KEY, "sources": "mail"}}, "sources of key a must be a list of names"),
        ({"a": {}}, "key a must have either key or sha256, got neither"),
        ({"a": {"key": "short"}}, "key a must be 16 or more printable ASCII .* got 5; make one"),
        ({"a": {"key": "with a space in the middle"}}, "without spaces"),
        ({"a": {"sha256": "zz"}}, "sha256 of key a must be 64 hex digits"),
        ({"a": {"key": "${NOT_SET_ANYWHERE}"}}, "NOT_SET_ANYWHERE must be set"),
        ({"a": FULL_KEY, "b": FULL_KEY}, "keys must differ, got one under a and b"),
    ],
)
def test_a_keys_file_that_breaks_a_rule_is_refused_without_showing_a_key(tmp_path, data, said):
    with pytest.raises(ConfigError, match=said) as caught:
        keys_of(tmp_path, data)
    assert FULL_KEY not in str(caught.value)


def test_a_keys_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="the keys file must be readable, got No such file"):
        load_keys(tmp_path / "keys.json")


def test_a_key_is_never_shown(tmp_path):
    assert FULL_KEY not in repr(keys_of(tmp_path, KEYS))
