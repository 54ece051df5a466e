from __future__ import annotations

import dataclasses
import json

import pytest
from tests.unit.plan.catalogues import LIBRARY

from toolheads.data import read_tools, write_tools
from toolheads.errors import DataError, Fault
from toolheads.plan import fit_to_budget
from toolheads.plan.catalogue_file import read_catalogue_file
from toolheads.sources.lists import to_anthropic, to_mcp, to_openai

RECORDS = [
    {"id": t.id, "name": t.name, "description": t.description, "input_schema": t.input_schema}
    for t in LIBRARY
]
SHAPES = {
    "openai chat": to_openai(LIBRARY),
    "openai responses": to_openai(LIBRARY, form="responses"),
    "anthropic": to_anthropic(LIBRARY),
    "mcp": to_mcp(LIBRARY),
    "mcp, with more around": {**to_mcp(LIBRARY), "nextCursor": "x", "_meta": {"a": 1}},
    "mcp, the list alone": to_mcp(LIBRARY)["tools"],
    "records": RECORDS,
}


def described(tools):
    return [(t.name, t.description, t.input_schema) for t in tools]


def written(path, whole):
    path.write_text(json.dumps(whole), "utf-8")
    return path


@pytest.mark.parametrize("shape", SHAPES)
def test_tools_are_read_in_every_shape(tmp_path, shape):
    found = read_catalogue_file(written(tmp_path / "tools.json", SHAPES[shape]))
    assert described(found.tools) == described(LIBRARY)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_with_all_its_tools_is_the_file(tmp_path, shape):
    found = read_catalogue_file(written(tmp_path / "tools.json", SHAPES[shape]))
    found.write(tmp_path / "out.json", found.tools)
    assert json.loads((tmp_path / "out.json").read_text("utf-8")) == SHAPES[shape]


@pytest.mark.parametrize("shape", SHAPES)
def test_fewer_and_shorter_tools_are_written_in_the_shape_they_came_in(tmp_path, shape):
    found = read_catalogue_file(written(tmp_path / "tools.json", SHAPES[shape]))
    fit = fit_to_budget(found.tools, "json_schema_openai", 250)
    assert 0 < len(fit.tools) < len(LIBRARY)
    found.write(tmp_path / "out.json", fit.tools)
    again = read_catalogue_file(tmp_path / "out.json")
    assert again.shape == found.shape
    assert described(again.tools) == described(fit.tools)
    assert "at most 30" not in (tmp_path / "out.json").read_text("utf-8")


@pytest.mark.parametrize("field", ["input_schema", "inputSchema"])
def test_lines_stay_lines(tmp_path, field):
    lines = [
        {
            ("input_schema", field)[k == "input_schema"] if k == "input_schema" else k: v
            for k, v in r.items()
        }
        for r in RECORDS
    ]
    (tmp_path / "tools.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_catalogue_file(tmp_path / "tools.jsonl")
    fit = fit_to_budget(found.tools, "json_schema_openai", 250)
    found.write(tmp_path / "out.jsonl", fit.tools)
    again = read_tools(tmp_path / "out.jsonl")
    assert described(again) == described(fit.tools)
    assert "at most 30" not in (tmp_path / "out.jsonl").read_text()


def test_one_line_is_lines(tmp_path):
    write_tools(tmp_path / "tools.jsonl", LIBRARY[:1])
    assert read_catalogue_file(tmp_path / "tools.jsonl").shape == "jsonl"


def test_fields_of_a_tool_that_nobody_knows_are_kept(tmp_path):
    entry = {**to_openai(LIBRARY[:1])[0], "cache_control": {"type": "ephemeral"}}
    entry["function"]["strict"] = True
    found = read_catalogue_file(written(tmp_path / "tools.json", [entry]))
    schema = {**(found.tools[0].input_schema or {}), "properties": {}}
    found.write(tmp_path / "out.json", [dataclasses.replace(found.tools[0], input_schema=schema)])
    (out,) = json.loads((tmp_path / "out.json").read_text())
    assert (out["cache_control"], out["function"]["strict"]) == ({"type": "ephemeral"}, True)
    assert out["function"]["parameters"]["properties"] == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "its tools must be a list, got"),
        ('{"tools": 7}', "its tools must be a list, got 7"),
        ("[7]", "a tool must be an object, got 7"),
        ('[{"name": "a"', "the file must be JSON"),
        ("", "the file must have at least one line"),
        ("[" * 5000, "the file must be JSON"),
        ('[{"name": "a", "inputSchema": {}}, {"name": "b", "input_schema": {}}]', "of one shape"),
        ('[{"id": "a"}]', "name is missing"),
        ('[{"id": "a", "name": "a"}, {"id": "a", "name": "b"}]', "duplicate id 'a'"),
        ('[{"name": "a"}, {"name": "a"}]', "name must be there once"),
    ],
)
def test_what_is_no_catalogue_is_refused(tmp_path, content, said):
    (tmp_path / "tools.json").write_text(content)
    with pytest.raises(DataError, match=said):
        read_catalogue_file(tmp_path / "tools.json")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DataError, match="the file does not exist"):
        read_catalogue_file(tmp_path / "tools.json")


@pytest.mark.parametrize("shape", ["mcp", "records"])
def test_tools_with_faults_can_be_left_out(tmp_path, shape):
    listed = SHAPES[shape]["tools"] if shape == "mcp" else SHAPES[shape]
    path = written(
        tmp_path / "tools.json",
        [*listed, {**listed[0], "name": 7, "id": "z"}]
        if shape == "records"
        else [*listed, {**listed[0], "name": 7}],
    )
    told: list[Fault] = []
    found = read_catalogue_file(path, skip_bad=True, on_faults=told.extend)
    assert (len(found.tools), len(told)) == (len(LIBRARY), 1)
