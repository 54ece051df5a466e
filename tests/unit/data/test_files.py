import json
import logging
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolheads.data import read_queries, read_tools, write_queries, write_tools
from toolheads.data.jsonl import parse_object, to_line
from toolheads.data.records import from_tool, to_tool
from toolheads.domain import Query, Tool
from toolheads.errors import DataError, Fault

GOOD = b'{"id": "a", "name": "n"}'


def write(path, *lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_each_fault_has_file_line_and_reason(tmp_path):
    path = write(tmp_path / "tools.jsonl", GOOD, b"{", b'{"id": 1}', b"[]")
    with pytest.raises(DataError) as caught:
        read_tools(path)
    faults = caught.value.faults
    assert [f.line for f in faults] == [2, 3, 3, 4]
    assert {f.path for f in faults} == {str(path)}
    assert f"{path}:3: id must be a string, got 1" in str(caught.value)
    assert "4 faults in 3 lines" in str(caught.value)


def test_a_duplicate_id_names_both_lines_and_the_first_one_stays(tmp_path):
    path = write(tmp_path / "t", GOOD, b'{"id": "b", "name": "n"}', b'{"id": "a", "name": "z"}')
    with pytest.raises(DataError, match="t:3: duplicate id 'a', first on line 1"):
        read_tools(path)
    assert [t.name for t in read_tools(path, skip_bad=True)] == ["n", "n"]


def test_the_message_lists_twenty_faults_and_counts_the_rest(tmp_path):
    path = write(tmp_path / "t", *[b"{"] * 25)
    with pytest.raises(DataError) as caught:
        read_tools(path)
    assert len(caught.value.faults) == 25
    assert str(caught.value).count(": invalid JSON") == 20
    assert str(caught.value).endswith("and 5 more")


def test_bad_lines_are_left_out_and_counted_when_asked(tmp_path, caplog):
    path = write(tmp_path / "t", GOOD, b"{", b'{"id": 1}', b'{"id": "b", "name": "n"}')
    with caplog.at_level(logging.WARNING):
        tools = read_tools(path, skip_bad=True)
    assert [t.id for t in tools] == ["a", "b"]
    assert "left out 2 of 4 lines" in caplog.text
    assert "t:2: invalid JSON" in caplog.text


def test_a_caller_who_wants_the_faults_is_told_and_nothing_is_logged(tmp_path, caplog):
    path = write(tmp_path / "t", GOOD, b"{", b'{"id": 1}', b'{"id": "b", "name": "n"}')
    told: list[Fault] = []
    with caplog.at_level(logging.WARNING):
        read_tools(path, skip_bad=True, on_faults=told.extend)
    assert [f.line for f in told] == [2, 3, 3]
    assert not caplog.records


def test_nothing_is_told_of_a_file_without_faults(tmp_path, caplog):
    told: list[Fault] = []
    read_tools(write(tmp_path / "t", GOOD), skip_bad=True, on_faults=told.extend)
    assert told == []
    assert not caplog.records


def test_a_file_without_any_good_line_cannot_be_skipped_over(tmp_path):
    with pytest.raises(DataError, match="must have a line without faults"):
        read_tools(write(tmp_path / "t", b"{", b"["), skip_bad=True)


@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_empty_file_is_refused(tmp_path, content, skip_bad):
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(DataError, match="t: the file must have at least one line, got none"):
        read_tools(path, skip_bad=skip_bad)


def test_a_huge_line_is_skipped_and_the_next_one_read(tmp_path):
    huge = b'{"id": "h", "name": "' + b"x" * 17_000_000 + b'"}'
    path = write(tmp_path / "t", GOOD, huge, b'{"id": "b", "name": "n"}')
    assert [t.id for t in read_tools(path, skip_bad=True)] == ["a", "b"]


def test_crlf_a_mark_at_the_start_and_odd_separators_are_read(tmp_path):
    text = "x\u2028y\x85z"
    line = json.dumps({"id": "a", "text": text, "relevant": []}, ensure_ascii=False).encode()
    path = tmp_path / "q"
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n")
    assert [q.text for q in read_queries(path)] == [text]


def test_a_file_that_is_missing_or_a_folder_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="the file does not exist"):
        read_queries(tmp_path / "q")
    with pytest.raises(DataError, match="got a folder"):
        read_queries(tmp_path)


def test_a_tool_that_could_not_be_read_back_is_not_written(tmp_path):
    path = write(tmp_path / "t", GOOD)
    with pytest.raises(DataError, match="name must hold no lone surrogate") as caught:
        write_tools(path, [Tool("x", "fine"), Tool("y", "bad \ud800")])
    assert caught.value.faults[0].line == 2
    with pytest.raises(DataError, match="name must not be empty"):
        write_tools(path, [Tool("x", "")])
    with pytest.raises(DataError, match="duplicate id 'x', first on line 1"):
        write_tools(path, [Tool("x", "n"), Tool("x", "n")])
    assert path.read_bytes() == GOOD + b"\n"


def test_nothing_is_not_written(tmp_path):
    with pytest.raises(DataError, match="at least one query"):
        write_queries(tmp_path / "q", [])
    assert not list(tmp_path.iterdir())


def test_negatives_and_grades_survive(tmp_path):
    query = Query("q", "x", {"a": 2, "b": 0}, "train", ("c",), {"a": 0.25}, {"main": "a"})
    write_queries(tmp_path / "q", [query])
    assert read_queries(tmp_path / "q") == [query]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
words = st.text(min_size=1).filter(str.strip)
extras = st.dictionaries(st.text(string.ascii_lowercase, max_size=9).map("x_".__add__), json_values)
tools = st.builds(
    Tool,
    id=words,
    name=words,
    server=st.none() | st.text(),
    description=st.text(),
    input_schema=st.none() | st.dictionaries(st.text(), json_values, max_size=3),
    extra=extras,
)


@settings(max_examples=40)  # making a tool up takes longer than the round trip
@given(tools)
def test_a_tool_survives_a_round_trip_through_a_line(written):
    read = to_tool(parse_object(to_line(from_tool(written))))
    assert read == written
    assert json.dumps(read.extra) == json.dumps(written.extra)  # 1, 1.0 and true are equal


@settings(max_examples=10)  # each one waits for the disk
@given(st.lists(tools, min_size=1, max_size=4, unique_by=lambda t: t.id))
def test_a_file_of_tools_comes_back_as_it_was(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("tools") / "tools.jsonl"
    write_tools(path, written)
    read = read_tools(path)
    assert read == written
