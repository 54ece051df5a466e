"""Values as OpenAPI writes them; the expected ones are those of its table of styles.

https://spec.openapis.org/oas/v3.1.1.html#style-examples, with `color` as the name.
"""

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.calls.serialisation import form_pairs, header_text, path_text, query_pairs
from toolheads.sources.openapi.operation import Parameter

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}


def in_query(value, style="form", explode=True, **more):
    pairs = query_pairs(Parameter("color", "query", "color", False, style, explode, **more), value)
    return "&".join(f"{name}={text}" for name, text in pairs)


def in_path(value, style="simple", explode=False):
    return path_text(Parameter("color", "path", "color", True, style, explode), value)


@pytest.mark.parametrize(
    ("style", "explode", "string", "array", "thing"),
    [
        ("matrix", False, ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
        (
            "matrix",
            True,
            ";color=blue",
            ";color=blue;color=black;color=brown",
            ";R=100;G=200;B=150",
        ),
        ("label", False, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
        ("label", True, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
        ("simple", False, "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("simple", True, "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ],
)
def test_path_parameters_follow_the_table_of_styles(style, explode, string, array, thing):
    assert in_path("blue", style, explode) == string
    assert in_path(ARRAY, style, explode) == array
    assert in_path(OBJECT, style, explode) == thing


@pytest.mark.parametrize(
    ("style", "explode", "array", "thing"),
    [
        ("form", False, "color=blue,black,brown", "color=R,100,G,200,B,150"),
        ("form", True, "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        (
            "spaceDelimited",
            False,
            "color=blue%20black%20brown",
            "color=R%20100%20G%20200%20B%20150",
        ),
        ("pipeDelimited", False, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
    ],
)
def test_query_parameters_follow_the_table_of_styles(style, explode, array, thing):
    assert in_query(ARRAY, style, explode) == array
    assert in_query(OBJECT, style, explode) == thing


def test_deep_objects_name_the_way_to_each_value():
    assert in_query(OBJECT, "deepObject") == "color[R]=100&color[G]=200&color[B]=150"
    assert in_query({"a": {"b": [1, 2]}}, "deepObject") == "color[a][b]=1&color[a][b]=2"


@pytest.mark.parametrize("value", [{"a": [{"b": None}]}, [{"a": 1}], True, 1.5, "x"])
@pytest.mark.parametrize("style", ["form", "deepObject"])
def test_no_value_is_ever_written_as_python_does(value, style):
    text = unquote(in_query(value, style) + in_path(value))
    assert "'" not in text
    assert "True" not in text
    assert "None" not in text


@pytest.mark.parametrize("value", [None, [], {}])
def test_nothing_is_sent_for_nothing(value):
    assert in_query(value) == ""


def test_reserved_characters_stay_where_they_may_and_never_end_the_value():
    assert in_query("a/b:c&d=e#f", keeps_reserved=True) == "color=a/b:c%26d%3De%23f"
    assert in_query("a/b") == "color=a%2Fb"


def test_content_is_written_as_json():
    assert unquote(in_query({"a": [1]}, is_json=True)) == 'color={"a": [1]}'


def test_headers_follow_the_simple_style():
    plain = Parameter("X", "header", "x", style="simple", explode=False)
    exploded = Parameter("X", "header", "x", style="simple", explode=True)
    assert header_text(plain, OBJECT) == "R,100,G,200,B,150"
    assert header_text(exploded, OBJECT) == "R=100,G=200,B=150"
    assert header_text(plain, [1, True]) == "1,true"


@given(st.dictionaries(st.text(min_size=1), st.text(min_size=1), max_size=5))
def test_a_form_is_read_back_as_it_was(values):
    text = "&".join(f"{name}={value}" for name, value in form_pairs(values))
    assert dict(parse_qsl(text, keep_blank_values=True)) == values


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_a_repeated_name_is_read_back_in_order(values):
    assert [value for _, value in parse_qsl(in_query(values), keep_blank_values=True)] == values
