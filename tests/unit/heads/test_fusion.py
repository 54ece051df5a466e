from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made_heads import made_heads

from toolheads.errors import ConfigError, HeadsFormatError, ShapeError
from toolheads.heads import Fusion, load_heads, save_heads
from toolheads.heads.files import header_json, heads_from_bytes, heads_to_bytes
from toolheads.heads.fusion import FIELD_WEIGHTS, LEXICAL_SETTINGS, HubnessPart, LexicalPart
from toolheads.lexical import FieldSettings, LexicalSettings

WORDS = LexicalPart(0.5)
WHOLE = Fusion(WORDS, HubnessPart(0.1, 7), 0.05)

weights = st.floats(0.01, 100, allow_nan=False)
lexical_parts = st.builds(
    lambda weight, fields: LexicalPart(
        weight,
        fields,
        LexicalSettings(tuple(FieldSettings(name) for name in fields), stem="light"),
    ),
    weights,
    st.dictionaries(st.sampled_from(["name", "server", "text"]), weights, min_size=1),
)
hubness_parts = st.builds(HubnessPart, weights, st.integers(1, 1000))
temperatures = st.just(0.0) | st.floats(0.001, 1)


@given(st.none() | lexical_parts, st.none() | hubness_parts, temperatures)
def test_what_is_written_is_read_back(lexical, hubness, temperature):
    fusion = Fusion.of(lexical, hubness, temperature)
    if fusion is None:
        assert (lexical, hubness, temperature) == (None, None, 0)
        return
    data = json.loads(json.dumps(fusion.to_json()))
    assert Fusion.shapes(data) == {}
    assert Fusion.from_json(data, {}) == fusion


def test_a_heads_file_keeps_its_fusion(tmp_path):
    heads = made_heads(fusion=WHOLE)
    sha256 = save_heads(tmp_path / "h.npz", heads)
    loaded = load_heads(tmp_path / "h.npz")
    assert loaded.fusion == WHOLE
    assert save_heads(tmp_path / "again.npz", loaded) == sha256


def test_what_is_not_mixed_is_not_in_the_file():
    assert "fusion" not in header_json(made_heads())
    assert list(Fusion(clause_temperature=0.5).to_json()) == ["clause_temperature"]
    assert list(Fusion(WORDS).to_json()) == ["lexical"]
    assert WHOLE.without("lexical") == Fusion(None, HubnessPart(0.1, 7), 0.05)
    assert WHOLE.without("lexical", "hubness", "clause_temperature") is None


def test_fields_are_kept_in_the_order_of_the_index_so_that_equal_ones_have_one_form():
    backwards = dict(reversed([*FIELD_WEIGHTS.items()]))
    assert list(LexicalPart(0.5, backwards).to_json()["fields"]) == list(LEXICAL_SETTINGS.names)


def changed(part, **fields):
    data = WHOLE.to_json()
    data[part] = {**data[part], **fields}
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "fusion must have some of clause_temperature, hubness, lexical, got {}"),
        (None, "fusion must have some of"),
        ([], "fusion must have some of"),
        ({"lexical": WORDS.to_json(), "prior": {}}, "fusion must have some of"),
        ({"lexical": None}, "fusion.lexical must have the fields fields, settings, weight, got No"),
        ({"lexical": {"weight": 1}}, "fusion.lexical must have the fields"),
        (changed("lexical", more=1), "fusion.lexical must have the fields"),
        (
            changed("lexical", weight=0),
            r"weight of fusion.lexical must be a number in \(0, 100",
        ),
        (changed("lexical", weight="1"), "the weight of fusion.lexical must be a number"),
        (changed("lexical", weight=True), "the weight of fusion.lexical must be a number"),
        (changed("lexical", weight=1e9), "the weight of fusion.lexical must be a number"),
        (changed("lexical", fields=["name"]), "fusion.lexical.fields must weigh name, server, de"),
        (changed("lexical", fields={"name": 1}), "fusion.lexical.fields must weigh name, server"),
        (
            changed("lexical", fields=dict.fromkeys(FIELD_WEIGHTS, 0)),
            "fusion.lexical.fields must have a weight above 0",
        ),
        (
            changed("lexical", fields={**FIELD_WEIGHTS, "name": -1}),
            "the weight of lexical field name must be a number in",
        ),
        (changed("lexical", settings={}), "lexical settings must have the fields"),
        (changed("hubness", weight=None), "the weight of fusion.hubness must be a number in"),
        (changed("hubness", neighbours=0), "fusion.hubness.neighbours must be a whole number in"),
        (changed("hubness", neighbours=2.0), "fusion.hubness.neighbours must be a whole number"),
        (changed("hubness", more=0), "fusion.hubness must have the fields neighbours, weight"),
        ({"clause_temperature": 0}, "fusion must have lexical, hubness or a clause_temperature"),
        (
            {"lexical": WORDS.to_json(), "clause_temperature": 0},
            "fusion.clause_temperature must be above 0 or left out",
        ),
        ({"clause_temperature": 1e-9}, r"fusion.clause_temperature must be 0 or in \[0.001, 1\]"),
        ({"clause_temperature": "warm"}, "fusion.clause_temperature must be 0 or in"),
        ({"clause_temperature": 1.5}, "fusion.clause_temperature must be 0 or in"),
    ],
)
def test_a_fault_in_the_header_is_refused_in_one_clear_line(data, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Fusion.from_json(data, {})
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=message):
        Fusion.shapes(data)


def test_an_array_that_no_setting_asks_for_is_refused():
    with pytest.raises(ShapeError, match="fusion must have no arrays, got bias"):
        Fusion.from_json(WHOLE.to_json(), {"bias": WHOLE})  # type: ignore[dict-item]  # on purpose


def test_a_file_with_a_bad_fusion_is_refused_as_no_heads_file():
    heads = made_heads(fusion=WHOLE)
    object.__setattr__(WORDS, "weight", -1.0)
    try:
        file = heads_to_bytes(heads)
    finally:
        object.__setattr__(WORDS, "weight", 0.5)
    with pytest.raises(HeadsFormatError, match=r"in its header the weight of fusion.lexical must"):
        heads_from_bytes(file, "f.npz")
