"""Python functions as tools."""

import dataclasses
import datetime
import enum
import functools
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Optional

import pytest

from toolheads.errors import ConfigError
from toolheads.sources.lists import from_function


class Unit(enum.Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@dataclasses.dataclass
class Node:
    """A tree."""

    value: int
    children: "list[Node]" = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=0, init=False)


class Place(typing.TypedDict, total=False):
    lat: typing.Required[float]
    name: str


def schema_of_function(function, **settings) -> dict:
    return dict(from_function(function, **settings).input_schema or {})


def schema_of(annotation) -> dict:
    def function(x):
        pass

    function.__annotations__ = {"x": annotation}
    return schema_of_function(function)


def test_name_description_and_parameters_are_those_of_the_function():
    def forecast(city: str, days: int = 3, *, unit: Unit = Unit.METRIC) -> str:
        """Forecast the weather.

        For some days.

        Args:
            city: The city,
                with its country.
            days (int): How many.

        Returns:
            Some text.
        """
        return city

    tool = from_function(forecast)
    assert (tool.id, tool.name, tool.server) == ("forecast", "forecast", None)
    assert tool.description == "Forecast the weather.\n\nFor some days."
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city, with its country."},
            "days": {"type": "integer", "description": "How many.", "default": 3},
            "unit": {"type": "string", "enum": ["metric", "imperial"], "default": "metric"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"enum": ["a", 1, None]}),
        (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045 - as people still write it
        (int | str, {"type": ["integer", "string"]}),
        (
            list[int] | None,
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        ),
        (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
        (Annotated[int, {"minimum": 1}], {"type": "integer", "minimum": 1}),
        (datetime.date, {"type": "string", "format": "date"}),
        (typing.NewType("UserId", int), {"type": "integer"}),
    ],
)
def test_types_become_what_json_schema_has_for_them(annotation, schema):
    assert schema_of(annotation)["properties"]["x"] == schema


@pytest.mark.parametrize("annotation", [bytes, complex, dict[int, str], type, Literal[b"x"]])
def test_a_type_that_json_lacks_is_refused_by_name(annotation):
    with pytest.raises(ConfigError, match="parameter x of function must have a type that JSON has"):
        schema_of(annotation)


def test_a_dataclass_that_refers_to_itself_is_one_definition():
    schema = schema_of(Node)
    assert schema["properties"]["x"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"] == {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["value"],
        "description": "A tree.",
    }


def test_a_typed_dict_knows_what_it_requires():
    assert schema_of(Place)["$defs"]["Place"] == {
        "type": "object",
        "properties": {"lat": {"type": "number"}, "name": {"type": "string"}},
        "required": ["lat"],
    }


def test_a_pydantic_model_is_asked_for_its_schema():
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Node", n=(int, 0))
    many = list.__class_getitem__(inner)
    outer = pydantic.create_model("Outer", inner=(inner, ...), same=(many, ...))

    def function(a: Node, b):
        pass

    function.__annotations__["b"] = outer
    schema = schema_of_function(function)
    assert schema["properties"]["b"] == {"$ref": "#/$defs/Outer"}
    reference = schema["$defs"]["Outer"]["properties"]["inner"]["$ref"]
    assert reference == "#/$defs/Node_2"
    assert schema["$defs"]["Node_2"]["properties"]["n"]["type"] == "integer"
    assert "value" in schema["$defs"]["Node"]["properties"]


def test_methods_partials_and_callable_objects_are_functions_too():
    class Adder:
        def add(self, a: int) -> int:
            return a

        def __call__(self, b: int) -> int:
            return b

    assert list(schema_of_function(Adder().add)["properties"]) == ["a"]
    assert list(schema_of_function(Adder(), name="adder")["properties"]) == ["b"]
    bound = functools.partial(lambda a, b: a, b=1)
    assert schema_of_function(bound, name="bound")["required"] == ["a"]


def test_any_further_arguments_are_allowed_where_the_function_takes_them():
    def function(a: int, *rest: int, **more: int) -> None:
        pass

    schema = schema_of_function(function)
    assert list(schema["properties"]) == ["a"]
    assert "additionalProperties" not in schema


def test_a_default_that_json_lacks_makes_an_argument_optional_all_the_same():
    def function(a: float = float("inf"), b=print) -> None:
        pass

    schema = schema_of_function(function)
    assert "required" not in schema
    assert schema["properties"] == {"a": {"type": "number"}, "b": {}}


def test_a_parameter_can_be_left_out():
    def function(a: int, session: bytes) -> None:
        pass

    assert list(schema_of_function(function, leave_out=("session",))["properties"]) == ["a"]


def test_what_cannot_be_called_by_name_is_refused():
    with pytest.raises(ConfigError, match="a lambda must be given a name"):
        from_function(lambda x: x)

    def function(a, /):
        pass

    with pytest.raises(ConfigError, match="must be one that can be named, got a positional one"):
        from_function(function)

    def unknown(a):
        pass

    unknown.__annotations__ = {"a": "NoSuchType"}
    with pytest.raises(ConfigError, match="annotations of unknown must be known names"):
        from_function(unknown)


@pytest.mark.parametrize(
    "docstring",
    [
        """Do it.

        Args:
            a: First: one.
            *rest: More.
            b (int, optional): Second
                one.

        Raises:
            ValueError: Never.
        """,
        """Do it.

        Parameters
        ----------
        a : int
            First: one.
        b : int, optional
            Second
            one.

        Returns
        -------
        int
            Nothing.
        """,
        """Do it.

        :param a: First: one.
        :param int b: Second
            one.
        :returns: Nothing.
        """,
    ],
)
def test_docstrings_of_every_style_describe_the_parameters(docstring):
    def function(a, b):
        pass

    function.__doc__ = docstring
    tool = from_function(function)
    assert tool.description == "Do it."
    assert dict(tool.input_schema or {})["properties"] == {
        "a": {"description": "First: one."},
        "b": {"description": "Second one."},
    }
