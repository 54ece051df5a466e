import hashlib
import json

import pytest

from toolheads.data import read_dataset, read_datasets
from toolheads.errors import DataError, Fault


def make(folder, tools=("a", "b"), queries=(("q", ["a"]),), more=None):
    folder.mkdir(parents=True)
    lines = [json.dumps({"id": t, "name": t}) for t in tools]
    (folder / "tools.jsonl").write_text("\n".join(lines))
    if queries is not None:
        lines = [
            json.dumps({"id": q, "text": q, "relevant": r, "split": "train"} | (more or {}))
            for q, r in queries
        ]
        (folder / "queries.jsonl").write_text("\n".join(lines))
    return folder


def test_a_data_set_is_named_by_its_folder_and_has_the_digests_of_its_files(tmp_path):
    folder = make(tmp_path / "demo")
    dataset = read_dataset(folder)
    assert dataset.name == "demo"
    assert [q.id for q in dataset.split("train")] == ["q"]
    assert dataset.split("test") == ()
    expected = hashlib.sha256((folder / "queries.jsonl").read_bytes()).hexdigest()
    assert dataset.digest["queries.jsonl"] == expected
    assert sorted(dataset.digest) == ["queries.jsonl", "tools.jsonl"]


def test_a_catalogue_has_no_queries(tmp_path):
    dataset = read_dataset(make(tmp_path / "demo", queries=None))
    assert dataset.queries == ()
    assert list(dataset.digest) == ["tools.jsonl"]


def test_a_relevant_tool_must_be_among_the_tools(tmp_path):
    folder = make(tmp_path / "demo", queries=[("q", ["a"]), ("r", ["b", "z"])])
    with pytest.raises(DataError, match=r"jsonl:2: relevant must name tools of .*, got 'z'"):
        read_dataset(folder)
    assert [q.id for q in read_dataset(folder, skip_bad=True).queries] == ["q"]


@pytest.mark.parametrize("field", [{"negatives": ["z"]}, {"teacher_scores": {"z": 1}}])
def test_negatives_and_teacher_scores_name_tools_too(tmp_path, field):
    with pytest.raises(DataError, match=f"{next(iter(field))} must name tools"):
        read_dataset(make(tmp_path / "demo", more=field))


def test_a_duplicate_query_id_is_a_fault(tmp_path):
    folder = make(tmp_path / "demo", queries=[("q", ["a"]), ("q", ["b"])])
    with pytest.raises(DataError, match=r"queries\.jsonl:2: duplicate id 'q', first on line 1"):
        read_dataset(folder)


def test_faults_of_both_files_are_told_at_once_and_none_twice(tmp_path):
    folder = make(tmp_path / "demo", queries=[("q", ["a"]), ("", ["b"])])
    (folder / "tools.jsonl").write_text('{"id": "a"}\n{"id": "b", "name": "b"}')
    with pytest.raises(DataError) as caught:
        read_dataset(folder)
    assert [f.reason for f in caught.value.faults] == [
        "name is missing",
        "id must not be empty, got ''",
        "text must not be empty, got ''",
    ]


def test_a_query_of_a_tool_that_was_left_out_is_left_out(tmp_path):
    folder = make(tmp_path / "demo", queries=[("q", ["a"]), ("r", ["b"])])
    (folder / "tools.jsonl").write_text('{"id": "a"}\n{"id": "b", "name": "b"}')
    told: list[Fault] = []
    dataset = read_dataset(folder, skip_bad=True, on_faults=told.extend)
    assert [q.id for q in dataset.queries] == ["r"]
    assert len(told) == 2


def test_a_folder_without_tools_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match=r"a folder with tools\.jsonl, got a folder without it"):
        read_dataset(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        read_datasets(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="got a file: "):
        read_datasets(tmp_path / "file")
    with pytest.raises(DataError, match="must be a data set or hold some"):
        read_datasets(tmp_path)
    with pytest.raises(DataError, match="at least one data set"):
        read_datasets([])


def test_a_folder_of_data_sets_is_read_in_order_of_name(tmp_path):
    for name in ("b", "a", "c"):
        make(tmp_path / name)
    (tmp_path / "notes").mkdir()
    (tmp_path / "README.md").write_text("")
    assert [d.name for d in read_datasets(tmp_path)] == ["a", "b", "c"]
    assert [d.name for d in read_datasets([tmp_path / "c", tmp_path / "a"])] == ["c", "a"]
    assert [d.name for d in read_datasets(str(tmp_path / "b"))] == ["b"]


def test_two_data_sets_of_one_name_are_refused(tmp_path):
    folders = [make(tmp_path / "x" / "demo"), make(tmp_path / "y" / "demo")]
    with pytest.raises(DataError, match="must have different names"):
        read_datasets(folders)


def test_faults_of_all_data_sets_are_told_at_once(tmp_path):
    for name in ("a", "b"):
        make(tmp_path / name, queries=[("q", ["z"])])
    make(tmp_path / "c")
    with pytest.raises(DataError, match="2 data sets have faults") as caught:
        read_datasets(tmp_path)
    assert len(caught.value.faults) == 2
