from __future__ import annotations

import math

import numpy as np
import pytest
from tests.made_heads import ALL_VIEWS, made_fingerprint, made_heads

from toolheads.errors import ConfigError, ShapeError
from toolheads.heads import Views


def test_by_default_the_whole_text_is_the_only_view():
    assert Views().to_json() == {"tool": {"text": 1.0}, "query": {"text": 1.0}}
    assert not Views().has_clauses


def test_views_of_two_orders_are_the_same_and_read_back():
    turned = Views(tool=dict(reversed(list(ALL_VIEWS.tool.items()))), query=ALL_VIEWS.query)
    assert list(turned.tool) == ["text", "name", "summary"]
    assert Views.from_json(turned.to_json()) == ALL_VIEWS


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tool": {}}, "tool views must map some of text, name, summary to weights"),
        ({"tool": {"clause": 1}}, "tool views must map some of text, name, summary"),
        ({"query": {"name": 1}}, "query views must map some of text, clause"),
        ({"query": [1]}, "query views must map"),
        ({"tool": {"text": math.nan}}, "weight of tool view 'text' must be a number in"),
        ({"tool": {"text": math.inf}}, "weight of tool view 'text'"),
        ({"tool": {"text": -0.1}}, r"in \[0, 100\], got -0.1"),
        ({"tool": {"text": True}}, "got True"),
        ({"tool": {"text": "1"}}, "got '1'"),
        ({"query": {"text": 0, "clause": 0.0}}, "query views must have a weight above 0"),
    ],
)
def test_views_that_break_a_rule_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Views(**fields)


@pytest.mark.parametrize("data", [None, {}, {"tool": {"text": 1}}])
def test_json_without_both_sides_is_refused(data):
    with pytest.raises(ConfigError, match="views must have the fields query, tool"):
        Views.from_json(data)


def test_heads_of_another_width_than_the_backbone_are_refused():
    with pytest.raises(ShapeError, match="the state head must have the backbone's width 9, got 8"):
        made_heads(fingerprint=made_fingerprint(9))


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (np.zeros((0, 8)), "probe must have at least one row"),
        (np.zeros((4, 7)), r"probe must have shape \(n, 8\), got \(4, 7\)"),
        (np.full((4, 8), np.inf), "probe must be finite"),
    ],
)
def test_a_probe_that_cannot_be_one_is_refused(probe, message):
    with pytest.raises(ShapeError, match=message):
        made_heads(probe=probe)


def test_heads_serve_the_widths_they_were_trained_for_and_their_own():
    heads = made_heads(widths=(2, 5))
    x = np.random.default_rng(0).normal(size=(3, 8))
    for width in (2, 5, 8):
        narrow = heads.at_width(width)
        assert narrow.state(x).shape == narrow.action(x).shape == (3, width)
    np.testing.assert_array_equal(heads.at_width(8).state(x), heads.state(x))
    np.testing.assert_array_equal(heads.at_width(2).at_width(8).state(x), heads.state(x))
    assert heads.at_width(None) is heads


@pytest.mark.parametrize("width", [0, -2, 3, 9, True, 2.0, "2"])
def test_a_width_the_heads_were_not_trained_for_is_refused(width):
    heads = made_heads(widths=(2, 5), training={"name": "mine"})
    message = f"^width must be one of 2, 5, 8 for heads 'mine', got {width!r}; the setting model"
    with pytest.raises(ConfigError, match=message):
        heads.at_width(width)


@pytest.mark.parametrize("widths", [(0,), (8,), (9,), (4, 2), (2, 2), (True,), (2.0,), ("2",)])
def test_widths_that_cannot_be_served_are_refused(widths):
    with pytest.raises(ConfigError, match=r"widths must be rising whole numbers in \[1, 8\), got"):
        made_heads(widths=widths)


def test_heads_are_called_as_training_named_them():
    assert made_heads(training={"name": "mine"}).name == "mine"
    assert made_heads().name == "unnamed"
