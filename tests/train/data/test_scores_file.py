"""Files that say more of queries: what goes round, what they change, what is refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from toolheads.data import Dataset  # noqa: E402
from toolheads.domain import Query, Tool  # noqa: E402
from toolheads.errors import DataError  # noqa: E402
from toolheads_train.data.scores_file import (  # noqa: E402
    Mined,
    read_mined,
    read_teacher,
    with_files,
    write_mined,
    write_teacher,
)
from toolheads_train.data.selection import Selected, Selection  # noqa: E402

pytestmark = pytest.mark.train


@pytest.fixture
def selection():
    tools = tuple(Tool(str(i), f"tool_{i}") for i in range(4))
    train = (
        Query("1", "one", {"0": 2}, "train", negatives=("3",)),
        Query("2", "two", {"1": 1}, "train", teacher_scores={"2": 1.0}),
    )
    return Selection((Selected(Dataset("a", tools, train, {}), train, ()),), (), {})


def train_of(selection):
    return selection.datasets[0].train


def test_scores_and_mined_tools_go_round(tmp_path):
    scores = {("a", "1"): {"x": 0.5, "y": -2.0}, ("b", "1"): {}}
    mined = {("a", "1"): Mined(("x",), ("y", "z")), ("a", "2"): Mined(())}
    write_teacher(tmp_path / "teacher.jsonl", scores)
    write_mined(tmp_path / "mined.jsonl", mined)
    assert read_teacher(tmp_path / "teacher.jsonl") == scores
    assert read_mined(tmp_path / "mined.jsonl") == mined


def test_a_teachers_scores_take_the_place_of_the_querys_own(selection, tmp_path):
    path = tmp_path / "teacher.jsonl"
    write_teacher(path, {("a", "2"): {"1": 3.0}, ("a", "9"): {"0": 1.0}, ("b", "1"): {"0": 1.0}})
    one, two = train_of(with_files(selection, teacher=path, mined=None))
    assert (one.teacher_scores, two.teacher_scores) == ({}, {"1": 3.0})


def test_mined_tools_become_negatives_or_right_ones(selection, tmp_path):
    path = tmp_path / "mined.jsonl"
    write_mined(path, {("a", "1"): Mined(("2", "1", "0"), ("1",))})
    one, two = train_of(with_files(selection, teacher=None, mined=path))
    assert (one.relevance, one.negatives) == ({"0": 2, "1": 1}, ("2",))
    assert two == train_of(selection)[1]


@pytest.mark.parametrize("kind", ["teacher", "mined"])
def test_a_tool_that_is_not_there_is_refused(selection, tmp_path, kind):
    path = tmp_path / "file.jsonl"
    if kind == "teacher":
        write_teacher(path, {("a", "1"): {"9": 1.0}})
    else:
        write_mined(path, {("a", "1"): Mined(("9",))})
    with pytest.raises(DataError, match="must name tools of a for query 1, got '9'"):
        with_files(selection, **{"teacher": None, "mined": None, kind: path})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"data_set": "a", "query_id": "1", "scores": [1]}', "scores must be an object of num"),
        ('{"data_set": "a", "query_id": "1", "scores": {"x": true}}', "scores must be an object"),
        ('{"data_set": "a", "scores": {}}', "query_id must be a string that is not empty"),
        ('{"data_set": "a", "query_id": "1", "scores": {}, "x": 1}', "got 'x'"),
        ('{"data_set": "a", "query_id": "0", "scores": {}}', "a query must have one line"),
        ("nothing", "invalid JSON"),
    ],
)
def test_a_line_that_breaks_a_rule_is_named(tmp_path, line, reason):
    path = tmp_path / "teacher.jsonl"
    path.write_text('{"data_set": "a", "query_id": "0", "scores": {"x": 1}}\n' + line + "\n")
    with pytest.raises(DataError, match=reason) as caught:
        read_teacher(path)
    assert [fault.line for fault in caught.value.faults] == [2]
