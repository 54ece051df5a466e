import pytest
from tests.unit.data.releases.release_files import (
    live_task,
    live_tools,
    write_json,
    write_livemcpbench,
    zero_server,
)

from toolheads.data.releases.mcp_servers import (
    MCP_ZERO_FILE,
    convert_livemcpbench,
    convert_mcp_zero,
)
from toolheads.errors import DataError


def test_tools_of_the_bench_are_known_by_server_and_name(tmp_path):
    converted = convert_livemcpbench(write_livemcpbench(tmp_path))
    ids = [tool.id for tool in converted.tools]
    assert ids == ["mill/grind", "mill/clean", "pot/brew", "pot/clean"]
    assert [tool.server for tool in converted.tools][:2] == ["Mill Server"] * 2
    assert converted.tools[0].description == ""


def test_every_tool_of_a_name_is_relevant(tmp_path):
    (query,) = convert_livemcpbench(write_livemcpbench(tmp_path)).queries
    assert query.relevant == ("mill/grind", "mill/clean", "pot/clean")
    assert query.extra == {"category": "Kitchen"}


def test_tasks_and_names_without_a_tool_are_counted(tmp_path):
    assert convert_livemcpbench(write_livemcpbench(tmp_path)).left_out == {
        "names of tools that no server has": 2,
        "tasks without a tool of the catalogue": 1,
    }


def test_the_layout_of_the_repository_is_read_too(tmp_path):
    write_json(tmp_path / "tools/LiveMCPTool/tools.json", live_tools())
    write_json(tmp_path / "annotated_data/all_annotations.json", [live_task(0, "brew")])
    assert convert_livemcpbench(tmp_path).queries[0].relevant == ("pot/brew",)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tools/tools.json", {"tools": []}, "must hold a JSON list, got dict"),
        ("tools/tools.json", [{"name": "x"}], "must hold objects with name, tools"),
        (
            "tools/tools.json",
            [{"name": "x", "tools": []}],
            "must hold objects with name, tools|must map",
        ),
        ("tasks/tasks.json", [{"task_id": "t", "Question": "q"}], "must list its tools under"),
    ],
)
def test_another_shape_of_the_bench_is_one_clear_error(tmp_path, path, value, message):
    write_livemcpbench(tmp_path)
    write_json(tmp_path / path, value)
    with pytest.raises(DataError, match=message):
        convert_livemcpbench(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"must hold tools/tools\.json or .*, got neither"):
        convert_livemcpbench(tmp_path)


def test_a_catalogue_of_servers_is_read_without_its_vectors(tmp_path):
    write_json(tmp_path / MCP_ZERO_FILE, [zero_server()])
    converted = convert_mcp_zero(tmp_path)
    (tool,) = converted.tools
    assert (tool.id, tool.server, converted.queries) == ("tea%2Fpot/brew", "tea/pot", [])
    assert tool.extra == {"server_description": "A pot.", "server_summary": "Tea."}
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "leaf": {"type": "string", "description": "Which leaf"},
            "cups": {"type": "number", "description": "How many"},
        },
        "required": ["leaf"],
    }


def test_a_tool_that_comes_again_is_left_out_and_another_of_its_name_kept(tmp_path):
    other = zero_server(tools=[{"name": "brew", "description": "Brews otherwise."}])
    write_json(tmp_path / MCP_ZERO_FILE, [zero_server(), zero_server(), other])
    converted = convert_mcp_zero(tmp_path)
    assert [tool.id for tool in converted.tools] == ["tea%2Fpot/brew", "tea%2Fpot/brew#2"]
    assert converted.left_out == {"tools that were there before": 1}


@pytest.mark.parametrize(
    "value", [[{"server_name": "x"}], [3], {"a": 1}, [zero_server(tools=[{}])]]
)
def test_another_shape_of_the_catalogue_is_one_clear_error(tmp_path, value):
    write_json(tmp_path / MCP_ZERO_FILE, value)
    with pytest.raises(DataError, match=f"{MCP_ZERO_FILE} must hold"):
        convert_mcp_zero(tmp_path)
