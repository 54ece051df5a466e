"""Which files inputs stand for, and the tools in them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.jobs.made import record, tools, write

from toolheads.errors import DataError
from toolheads.jobs.inputs import PieceLines, input_files, pieces_of, read_inputs


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


def read_in_pieces(files, size_bytes):
    """Lines as pieces give them, numbered as in the whole files."""
    pieces, lines = pieces_of(files, size_bytes), []
    before: dict[object, int] = {}
    for piece in pieces:
        of_piece = PieceLines(piece)
        first = before.setdefault(piece.path, 0)
        lines += [replace(line, number=first + line.number) for line in of_piece]
        before[piece.path] += of_piece.count
    return len(pieces), lines


@pytest.mark.parametrize("size_bytes", [1, 7, 64, 100_000])
def test_pieces_of_files_hold_the_lines_of_the_files_and_their_numbers(tmp_path, size_bytes):
    listed = ["", tools(0, 1)[0], "{bad", "", "  ", *tools(1, 6), '{"id": "no name"}', ""]
    one, two = write(tmp_path / "a.jsonl", listed), write(tmp_path / "b.jsonl", tools(6, 8))
    one.write_bytes(b"\xef\xbb\xbf" + one.read_bytes())
    two.write_bytes(two.read_bytes().rstrip(b"\n"))  # the last line has no end
    count, lines = read_in_pieces([one, two], size_bytes)
    assert lines == list(read_inputs([one, two]))
    assert (count > 2) == (size_bytes < 100)
    assert [line.number for line in lines if line.tool is None] == [3, 11]


def test_a_parquet_file_is_cut_into_its_row_groups(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [record(tool) for tool in tools(0, 10)]
    rows[7]["name"] = ""
    file = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), file, row_group_size=3)
    count, lines = read_in_pieces([file], 1)
    assert count == 4
    assert lines == list(read_inputs([file]))
    assert [line.number for line in lines if line.tool is None] == [8]


def test_a_line_that_is_longer_than_many_pieces_is_read_once(tmp_path):
    long = '{"id": "long", "name": "n", "description": "' + "x" * 500 + '"}'
    file = write(tmp_path / "a.jsonl", [*tools(0, 1), long, *tools(1, 3)])
    count, lines = read_in_pieces([file], 50)
    assert count > 10
    assert [line.tool.id for line in lines] == ["t0", "long", "t1", "t2"]


def test_of_a_piece_only_the_lines_that_are_wanted_are_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    listed = tools(0, 8)
    lines = write(tmp_path / "a.jsonl", [*listed[:3], "{bad", "", *listed[3:], "{bad"])
    of_piece = PieceLines(pieces_of([lines], 10_000)[0], [2, 4, 9])
    assert [(line.number, line.tool) for line in of_piece] == [
        (2, listed[1]),
        (4, None),
        (9, listed[6]),
    ]
    assert of_piece.count == 11
    table = pyarrow.Table.from_pylist([record(tool) for tool in listed])
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=5)
    of_piece = PieceLines(pieces_of([tmp_path / "a.parquet"], 1)[0], {4, 1})
    assert [(line.number, line.tool) for line in of_piece] == [(1, listed[0]), (4, listed[3])]
    assert of_piece.count == 5


def test_a_parquet_file_that_cannot_be_cut_is_told(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="must be readable as Parquet"):
        pieces_of([tmp_path / "a.parquet"], 100)
