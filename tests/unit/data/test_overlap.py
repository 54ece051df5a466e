import json

import pytest

from toolheads.data.overlap import overlapping_tools, read_overlap, without_tools
from toolheads.domain import Query
from toolheads.errors import DataError

OVERLAP = {"one": {"one:a": ["test:x"], "one:b": ["old:y", "test:z"]}, "two": {"two:c": ["old:y"]}}


def test_the_tools_of_the_named_data_sets_are_left_out(tmp_path):
    path = tmp_path / "overlap.json"
    path.write_text(json.dumps(OVERLAP))
    overlap = read_overlap(path)
    assert overlap["one"]["one:b"] == ("old:y", "test:z")
    assert overlapping_tools(overlap, ["one"]) == {"one:a", "one:b"}
    assert overlapping_tools(overlap, ["one", "two", "three"]) == {"one:a", "one:b", "two:c"}


def test_overlap_with_sets_that_are_not_reported_may_be_allowed():
    overlap = {name: {t: tuple(o) for t, o in tools.items()} for name, tools in OVERLAP.items()}
    assert overlapping_tools(overlap, ["one", "two"], allowed=["old:y"]) == {"one:a", "one:b"}


def test_queries_of_such_tools_are_left_out():
    queries = [Query("q", "x", {"a": 1}), Query("r", "y", {"a": 1, "b": 1}), Query("s", "z")]
    assert [q.id for q in without_tools(queries, {"b"})] == ["q", "s"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("[]", "got list"),
        ('{"one": []}', "got list for 'one'"),
        ('{"one": {"a": "b"}}', "got str for 'a' of 'one'"),
        ('{"one": {"a": [1]}}', "got list for 'a' of 'one'"),
    ],
)
def test_an_overlap_file_of_another_form_is_refused(tmp_path, content, reason):
    path = tmp_path / "overlap.json"
    path.write_text(content)
    with pytest.raises(DataError, match=reason):
        read_overlap(path)


def test_a_missing_overlap_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"overlap\.json cannot be read: No such file"):
        read_overlap(tmp_path / "overlap.json")
