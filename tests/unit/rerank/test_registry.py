import pytest
from tests.unit.rerank.catalogues import GARDEN

from toolheads.domain import Tool
from toolheads.errors import ConfigError
from toolheads.rerank import ToolRegistry, rerank

SCHEMA = {"type": "object", "properties": {"bed": {"type": "integer"}}, "required": ["bed"]}


class Load:
    """A schema that takes a call to get."""

    def __init__(self, schema=SCHEMA):
        self.schema, self.calls = schema, 0

    def __call__(self):
        self.calls += 1
        return self.schema


def names(listed):
    return [entry.get("function", entry)["name"] for entry in listed]


@pytest.mark.parametrize(
    ("form", "entry"),
    [
        (
            "openai",
            {
                "type": "function",
                "function": {"name": "water_bed", "description": "Waters.", "parameters": SCHEMA},
            },
        ),
        ("anthropic", {"name": "water_bed", "description": "Waters.", "input_schema": SCHEMA}),
        ("mcp", {"name": "water_bed", "description": "Waters.", "inputSchema": SCHEMA}),
    ],
)
def test_each_form_is_that_of_its_api(form, entry):
    registry = ToolRegistry([Tool("water_bed", "water_bed", None, "Waters.", SCHEMA)])
    assert registry.listed(form) == [entry]


def test_no_filter_lists_all_and_an_empty_one_nothing():
    registry = ToolRegistry(GARDEN)
    assert names(registry.listed("openai")) == [tool.name for tool in GARDEN]
    assert registry.listed("openai", []) == []
    assert registry.listed("anthropic", set()) == []


def test_the_order_is_that_of_registration_unless_the_given_one_is_asked_for():
    registry = ToolRegistry(GARDEN)
    chosen = rerank(GARDEN, "mow_lawn or order_compost or plant_seeds", "keyword", top_n=0)
    assert names(registry.listed("mcp", chosen.tools)) == [
        *("plant_seeds", "mow_lawn", "order_compost")
    ]
    assert names(registry.listed("mcp", chosen.tools, order="given")) == list(chosen.names)


def test_a_schema_is_loaded_once_and_only_for_a_tool_that_is_listed():
    water, mow = Load(), Load()
    registry = ToolRegistry()
    registry.register(Tool("water_bed", "water_bed"), parameters=water)
    registry.register(Tool("mow_lawn", "mow_lawn"), parameters=mow)
    assert [tool.input_schema for tool in registry.tools] == [None, None]
    rerank(registry.tools, "water the bed", "keyword")
    for form in ("openai", "anthropic", "mcp"):
        registry.listed(form, ["water_bed"])
    assert (water.calls, mow.calls) == (1, 0)
    assert registry.listed("mcp", ["water_bed"])[0]["inputSchema"] == SCHEMA


def test_a_tool_that_is_not_listed_can_be_called():
    load = Load()
    registry = ToolRegistry(GARDEN)
    registry.register(Tool("dig", "dig"), parameters=load)
    registry.listed("openai", ["mow_lawn"])
    assert registry.tool("dig") == Tool("dig", "dig", input_schema=SCHEMA)
    assert registry.tool("ghost") is None
    assert load.calls == 1


def test_a_loader_that_fails_is_asked_again():
    registry = ToolRegistry()

    def fails():
        raise OSError("no connection")

    registry.register(Tool("dig", "dig"), parameters=fails)
    for _ in range(2):
        with pytest.raises(OSError, match="no connection"):
            registry.listed("mcp")


def test_a_loader_must_give_an_object():
    registry = ToolRegistry()
    registry.register(Tool("dig", "dig"), parameters=Load([1]))
    with pytest.raises(ConfigError, match="parameters of 'dig' must load as an object, got list"):
        registry.listed("mcp")


def test_a_later_tool_of_an_id_takes_the_place_of_the_earlier():
    registry = ToolRegistry(GARDEN[:3])
    registry.register(Tool("plant_seeds", "plant_seeds", None, "New."))
    listed = registry.listed("anthropic")
    assert names(listed) == ["plant_seeds", "water_bed", "prune_tree"]
    assert listed[0]["description"] == "New."


def test_names_do_not_depend_on_what_is_listed_and_lead_back():
    tools = [
        Tool("a/run", "run", "a"),
        Tool("b/run", "run", "b"),
        Tool("x/y", "x/y"),
        Tool("run", "run"),
    ]
    registry = ToolRegistry(tools)
    everything = names(registry.listed("openai"))
    assert len(set(everything)) == 4
    for tool, name in zip(tools, everything, strict=True):
        assert names(registry.listed("openai", [tool])) == [name]
        assert registry.tool(name) == tool
        assert names(registry.listed("openai", [name])) == [name]


def test_a_plain_name_of_two_tools_lists_both_and_calls_none():
    registry = ToolRegistry([Tool("a/run", "run", "a"), Tool("b/run", "run", "b")])
    assert len(registry.listed("openai", ["run"])) == 2
    assert registry.tool("run") is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"form": "xml"}, "form must be one of openai, anthropic, mcp, got 'xml'"),
        ({"form": "mcp", "order": "rank"}, "order must be one of registration, given, got 'rank'"),
        ({"form": "mcp", "order": "given"}, "names must be in an order for order given, got None"),
        (
            {"form": "mcp", "order": "given", "names": {"a"}},
            "names must be in an order for order given, got a set",
        ),
    ],
)
def test_what_is_asked_for_keeps_its_rules(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ToolRegistry(GARDEN).listed(**arguments)
