from __future__ import annotations

import pytest

from toolheads.errors import ConfigError
from toolheads.heads import Architecture


def test_shapes_are_out_by_in_and_norms_start_at_the_second_layer():
    assert Architecture(4, hidden=(3, 2), hidden_norm=True).shapes == {
        "in.weight": (3, 4),
        "in.bias": (3,),
        "hidden.0.weight": (2, 3),
        "hidden.0.bias": (2,),
        "hidden.0.norm.weight": (2,),
        "hidden.0.norm.bias": (2,),
        "out.weight": (4, 2),
        "out.bias": (4,),
    }


def test_without_hidden_layers_there_is_one_square_map():
    assert Architecture(4, hidden=()).shapes == {"out.weight": (4, 4), "out.bias": (4,)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width must hold whole numbers in"),
        ({"width": True}, "width must hold whole numbers in"),
        ({"hidden": (8, -1)}, r"hidden must hold whole numbers in .*, got \(8, -1\)"),
        ({"hidden": (8.0,)}, "hidden must hold whole numbers"),
        ({"hidden": (1,) * 17}, "hidden must have at most 16 layers, got 17"),
        ({"activation": "relu"}, "activation must be one of gelu, identity, got 'relu'"),
        ({"input_scaling": []}, "input_scaling must be one of none, sqrt, layernorm"),
        ({"hidden_norm": 1}, "hidden_norm must be true or false, got 1"),
    ],
)
def test_a_field_that_breaks_its_rule_is_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        Architecture(**{"width": 4, **fields})


def test_json_reads_back_what_it_wrote():
    architecture = Architecture(4, hidden=(3, 2), activation="identity", hidden_norm=True)
    assert Architecture.from_json(architecture.to_json()) == architecture


@pytest.mark.parametrize(
    "data", [None, [], {}, {**Architecture(4).to_json(), "more": 1}, {"width": 4}]
)
def test_json_without_exactly_the_fields_is_refused(data):
    with pytest.raises(ConfigError, match="architecture must have the fields activation, hidden"):
        Architecture.from_json(data)


@pytest.mark.parametrize("hidden", ["384", None, 3])
def test_json_whose_hidden_is_no_list_is_refused(hidden):
    with pytest.raises(ConfigError, match="hidden must be a list"):
        Architecture.from_json({**Architecture(4).to_json(), "hidden": hidden})
