import json

import pytest
from hypothesis import given
from tests.unit.lexical import strategies

from toolheads.errors import ConfigError
from toolheads.lexical import FieldSettings, LexicalSettings


@given(strategies.lexical_settings())
def test_settings_come_back_from_json(settings):
    assert LexicalSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def changed(**change):
    return LexicalSettings.from_json(LexicalSettings().to_json() | change)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: FieldSettings("title"), "field must be one of name, .*, got 'title'"),
        (lambda: FieldSettings("name", k1=-1), "k1 must be a finite number >= 0, got -1"),
        (lambda: FieldSettings("name", k1=True), "k1 must be a finite number"),
        (lambda: FieldSettings("name", b=1.5), r"b must be in \[0, 1\], got 1.5"),
        (lambda: FieldSettings("name", b=float("nan")), "b must be in"),
        (lambda: LexicalSettings(fields=()), "fields must be at least one, each once, got none"),
        (
            lambda: LexicalSettings(fields=(FieldSettings("name"), FieldSettings("name", b=0))),
            "fields must be at least one, each once, got name, name",
        ),
        (
            lambda: changed(stem="porter"),
            "stem must be one of none, light, got 'porter'",
        ),
        (lambda: changed(idf="corpus"), "idf must be one of tool, field"),
        (lambda: changed(combine="max"), "combine must be one of sum, bm25f"),
        (lambda: LexicalSettings(idf="field", combine="bm25f"), "idf must be tool with combine"),
        (
            lambda: LexicalSettings(
                fields=(FieldSettings("name"), FieldSettings("server", k1=2)), combine="bm25f"
            ),
            "k1 must be the same for all fields with combine bm25f, got name 1.5, server 2",
        ),
    ],
)
def test_settings_that_break_their_rule_are_refused(make, reason):
    with pytest.raises(ConfigError, match=reason):
        make()


@pytest.mark.parametrize(
    "change", [{"stem": None}, {"fields": "name"}, {"fields": ["name"]}, {"more": 1}]
)
def test_json_that_is_not_of_settings_is_refused(change):
    with pytest.raises(ConfigError, match="must"):
        changed(**change)


def test_json_without_a_field_is_refused():
    data = LexicalSettings().to_json()
    del data["stem"]
    with pytest.raises(ConfigError, match="lexical settings must have the fields combine, fields"):
        LexicalSettings.from_json(data)
    with pytest.raises(ConfigError, match="lexical settings must have"):
        LexicalSettings.from_json(None)
