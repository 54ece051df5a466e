import json

import pytest
from tests.unit.data.releases.release_files import (
    toolret_queries,
    toolret_tools,
    training_row,
    write_json,
    write_parquet,
    write_toolret,
)

from toolheads.data.files import write_queries, write_tools
from toolheads.data.releases.toolret import convert_toolret, convert_toolret_train
from toolheads.errors import DataError


@pytest.fixture
def toolret(tmp_path):
    return write_toolret(tmp_path)


def tool_of(converted, tool_id):
    (tool,) = (tool for tool in converted.tools if tool.id == tool_id)
    return tool


def test_a_tool_has_the_names_of_its_documentation(toolret):
    tool = tool_of(convert_toolret(toolret), "toolbench_tool_0")
    assert (tool.server, tool.name, tool.description) == ("TeaShop", "Brew", "Brews a cup.")
    assert tool.extra["category"] == "web"
    assert json.loads(tool.extra["documentation"])["method"] == "GET"


def test_parameters_listed_by_need_become_a_schema(toolret):
    assert tool_of(convert_toolret(toolret), "toolbench_tool_0").input_schema == {
        "type": "object",
        "properties": {
            "leaf": {"type": "string", "description": "Which leaf"},
            "cups": {"type": "number", "default": 1},
        },
        "required": ["leaf"],
    }


def test_parameters_mapped_by_name_become_a_schema(toolret):
    schema = tool_of(convert_toolret(toolret), "apigen_tool_0").input_schema
    assert schema["properties"] == {"leaf": {"type": "string", "description": "Leaf"}}


def test_a_schema_stays_as_it_is(toolret):
    schema = tool_of(convert_toolret(toolret), "gta_tool_0").input_schema
    assert schema == {"type": "object", "properties": {"ml": {"type": "integer"}}}


def test_documentation_that_is_no_object_is_the_description(toolret):
    tool = tool_of(convert_toolret(toolret), "gta_tool_1")
    assert (tool.name, tool.description) == ("gta_tool_1", "A spoon that stirs.")


def test_a_query_has_its_labels_task_and_instruction(toolret):
    (query,) = convert_toolret(toolret).queries
    assert (query.id, query.relevance, query.split) == (
        "toolbench_query_0",
        {"toolbench_tool_0": 1},
        "test",
    )
    assert query.extra["task"] == "toolbench"
    assert query.extra["instruction"] == "Given a wish, find what fulfils it"


def test_a_query_without_a_text_is_counted_and_left_out(toolret):
    assert convert_toolret(toolret).left_out == {"queries without a text": 1}


def test_what_was_converted_can_be_written(toolret, tmp_path):
    converted = convert_toolret(toolret)
    write_tools(tmp_path / "tools.jsonl", converted.tools)
    write_queries(tmp_path / "queries.jsonl", converted.queries)


def test_the_same_files_as_json_lines_give_the_same(toolret, tmp_path):
    other = tmp_path / "other"
    for part, of_part in (
        ("ToolRet-Tools", toolret_tools()),
        ("ToolRet-Queries", toolret_queries()),
    ):
        for name, rows in of_part.items():
            path = other / part / name / "rows.jsonl"
            path.parent.mkdir(parents=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert convert_toolret(other).tools == convert_toolret(toolret).tools


def test_a_label_of_an_unknown_tool_is_an_error(toolret):
    row = toolret_queries()["toolbench"][0] | {"labels": '[{"id": "gone", "relevance": 1}]'}
    write_parquet(toolret / "ToolRet-Queries/toolbench/queries-00000-of-00001.parquet", [row])
    with pytest.raises(DataError, match=r"must name tools of ToolRet-Tools, got 'gone'"):
        convert_toolret(toolret)


def test_two_documentations_of_one_tool_are_an_error(toolret):
    rows = [{"id": "gta_tool_0", "documentation": "another"}]
    write_parquet(toolret / "ToolRet-Tools/web/tools-00001-of-00002.parquet", rows)
    with pytest.raises(DataError, match=r"one documentation for a tool, got another of 'gta_tool"):
        convert_toolret(toolret)


def test_another_shape_is_one_clear_error(toolret):
    write_parquet(toolret / "ToolRet-Tools/web/more.parquet", [{"name": "x", "text": "y"}])
    with pytest.raises(DataError, match=r"must have the columns id, documentation, got name, text"):
        convert_toolret(toolret)


def test_a_file_that_is_cut_off_is_one_clear_error(toolret):
    path = toolret / "ToolRet-Tools/web/tools-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="must be a Parquet file, got"):
        convert_toolret(toolret)


def test_a_folder_without_the_release_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"ToolRet-Tools must hold files .*, got none"):
        convert_toolret(tmp_path)


def test_a_training_tool_is_known_by_its_documentation(tmp_path):
    rows = [training_row(), training_row(id="train_1")]
    write_parquet(tmp_path / "data/train-00000-of-00001.parquet", rows)
    converted = convert_toolret_train(tmp_path)
    assert [tool.name for tool in converted.tools] == ["brew", "wash"]
    assert {query.split for query in converted.queries} == {"train"}


def test_a_positive_is_never_a_negative(tmp_path):
    write_parquet(tmp_path / "train.parquet", [training_row()])
    converted = convert_toolret_train(tmp_path)
    (query,) = converted.queries
    brew, wash = (tool.id for tool in converted.tools)
    assert (query.relevant, query.negatives) == ((brew,), (wash,))


def test_an_id_that_comes_again_gets_a_number(tmp_path):
    write_json(tmp_path / "train.json", [training_row(), training_row(query="Another")])
    queries = convert_toolret_train(tmp_path).queries
    assert [query.id for query in queries] == ["train_0", "train_0#2"]


def test_a_training_query_without_a_positive_is_left_out(tmp_path):
    write_json(tmp_path / "train.json", [training_row(), training_row(positive=[])])
    converted = convert_toolret_train(tmp_path)
    assert len(converted.queries) == 1
    assert converted.left_out == {"queries without a text or a tool": 1}


def test_training_rows_of_another_shape_are_an_error(tmp_path):
    write_json(tmp_path / "train.json", [training_row(positive="brew")])
    with pytest.raises(DataError, match=r"positive of 'train_0' .* must be a list"):
        convert_toolret_train(tmp_path)
