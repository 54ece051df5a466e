"""Which files inputs stand for, and the tools in them."""

from __future__ import annotations

import pytest
from tests.unit.jobs.made import record, tools, write

from toolheads.errors import DataError
from toolheads.jobs.inputs import input_files, read_inputs


def read(*inputs):
    return list(read_inputs(input_files(inputs)))


def test_a_folder_with_a_tools_file_stands_for_it(tmp_path):
    write(tmp_path / "tools.jsonl", tools(0, 2))
    write(tmp_path / "queries.jsonl", ['{"id": "q", "text": "a", "relevant": []}'])
    assert [line.tool for line in read(tmp_path)] == tools(0, 2)


def test_a_folder_of_shards_is_read_by_name(tmp_path):
    for name, listed in (("b.jsonl", tools(2, 4)), ("a.jsonl", tools(0, 2))):
        write(tmp_path / name, listed)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "notes.txt").write_text("no tool")
    assert [line.tool for line in read(tmp_path)] == tools(0, 4)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone.jsonl", "does not exist"),
        ("tools.csv", "must end in .jsonl or .parquet, got .csv"),
        ("empty", "or shards"),
    ],
)
def test_an_input_that_cannot_be_read_is_told(tmp_path, name, said):
    (tmp_path / "tools.csv").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=said):
        read(tmp_path / name)


def test_no_input_is_told():
    with pytest.raises(DataError, match="at least one file"):
        input_files([])


def test_a_parquet_file_holds_tools_with_schemas_as_text_or_struct(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [record(tool) for tool in tools(0, 3)]
    texts = [*('{"type": "object"}',) * 2, "{broken"]
    table = pyarrow.Table.from_pylist(
        [row | {"input_schema": text} for row, text in zip(rows, texts, strict=True)]
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    structs = [{"type": "object", "required": None}, {"type": "object", "required": ["a"]}]
    table = pyarrow.Table.from_pylist(
        [record(t) | {"input_schema": s} for t, s in zip(tools(3, 5), structs, strict=True)]
        + [{"id": None, "name": "x"}]
    )
    parquet.write_table(table, tmp_path / "b.parquet")
    lines = read(tmp_path)
    schemas = [line.tool.input_schema if line.tool else None for line in lines]
    plain = {"type": "object"}
    assert schemas == [plain, plain, None, plain, plain | {"required": ["a"]}, None]
    assert "invalid JSON" in lines[2].reason
    assert lines[5].reason == "id is missing"
    assert [(line.path.name, line.number) for line in lines[2:4]] == [
        ("a.parquet", 3),
        ("b.parquet", 1),
    ]


def test_a_file_that_is_no_parquet_is_told(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not")
    with pytest.raises(DataError, match="readable as Parquet"):
        read(tmp_path / "a.parquet")
