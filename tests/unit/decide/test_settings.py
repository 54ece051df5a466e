import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.decide import PickerSettings, SettingError

shares = st.floats(0, 1)
settings = st.builds(
    PickerSettings,
    similarity_floor=shares,
    margin=shares,
    duplicate_threshold=shares,
    solo_floor=shares,
    top_k=st.integers(1, 1000),
    score_unit=st.floats(1e-3, 1e3),
)


@given(settings)
def test_settings_are_equal_after_json(one):
    assert PickerSettings.from_json(json.dumps(one.to_json())) == one


def test_what_is_not_given_takes_its_default():
    read = PickerSettings.from_json('{"top_k": 7, "margin": 0}')
    assert read == PickerSettings(top_k=7, margin=0.0)


def test_the_solo_rule_is_off_unless_asked_for():
    assert PickerSettings().solo_floor >= PickerSettings().similarity_floor


def test_an_unknown_key_is_refused_with_the_nearest_one():
    with pytest.raises(SettingError, match="did you mean similarity_floor") as error:
        PickerSettings.from_json('{"similarty_floor": 0.9}')
    assert error.value.field == "similarty_floor"
    with pytest.raises(SettingError, match="did you mean margin"):
        PickerSettings().changed(margn=0.1)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"similarity_floor": 1.01}, "similarity_floor"),
        ({"similarity_floor": -0.0001}, "similarity_floor"),
        ({"margin": float("nan")}, "margin"),
        ({"margin": None}, "margin"),
        ({"margin": "0.1"}, "margin"),
        ({"duplicate_threshold": True}, "duplicate_threshold"),
        ({"solo_floor": float("inf")}, "solo_floor"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 2.5}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"score_unit": 0}, "score_unit"),
        ({"score_unit": float("inf")}, "score_unit"),
    ],
)
def test_a_value_that_breaks_its_rule_is_refused_with_its_name(values, field):
    for make in (lambda: PickerSettings(**values), lambda: PickerSettings().changed(**values)):
        with pytest.raises(SettingError, match=f"^{field} must be") as error:
            make()
        assert error.value.field == field


@pytest.mark.parametrize("text", ["[0.9]", "null", "{", '{"margin": NaN}', "[" * 100_000])
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(SettingError, match="settings must be"):
        PickerSettings.from_json(text)


def test_changed_settings_leave_the_old_ones_alone():
    old = PickerSettings()
    assert old.changed(margin=0.2).margin == 0.2
    assert old.margin == 0.05
    with pytest.raises(AttributeError):
        old.margin = 0.3  # type: ignore[misc]  # frozen, as tested
