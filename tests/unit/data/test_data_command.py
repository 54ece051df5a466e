import argparse
import json

import pytest

from toolheads.entrypoints.cli import data
from toolheads.errors import DataError


@pytest.fixture
def root(tmp_path):
    for name in ("good", "odd"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tools.jsonl").write_text(
            '{"id": "a", "server": "s", "name": "n"}\n{"id": "b", "name": "n"}\n'
        )
        (folder / "queries.jsonl").write_text(
            '{"id": "q", "text": "x", "relevant": ["a"], "split": "train"}\n'
            '{"id": "r", "text": "y", "relevant": ["b"], "split": "test"}\n'
        )
    with (tmp_path / "odd" / "queries.jsonl").open("a") as file:
        file.write("{\n")
    return tmp_path


def check(*words):
    parser = argparse.ArgumentParser()
    data.register(parser.add_subparsers())
    args = parser.parse_args(["data", "check", *map(str, words)])
    return args.run(args)


def test_check_says_what_is_in_each_data_set_and_what_is_wrong(root, capsys):
    assert check(root) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["data", "set", "tools", "servers", "train", "val", "test", "faults"]
    assert out[1].split() == ["good", "2", "1", "1", "0", "1", "0"]
    assert out[2].split() == ["odd", "2", "1", "1", "0", "1", "1"]
    assert out[3].split() == ["all", "4", "2", "2", "0", "2", "1"]
    assert out[4].startswith(f"{root}/odd/queries.jsonl:3: invalid JSON")


def test_check_of_a_good_data_set_is_a_yes(root, capsys):
    assert check(root / "good") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_check_accepts_bad_lines_when_they_are_to_be_skipped(root, capsys):
    assert check(root, "--skip-bad") == 0
    assert ":3: invalid JSON" in capsys.readouterr().out


@pytest.mark.parametrize("more", [[], ["--skip-bad"]])
def test_check_tells_faults_once_and_logs_none(root, capsys, caplog, more):
    check(root / "odd", *more)
    assert capsys.readouterr().out.count("invalid JSON") == 1
    assert not caplog.records


def test_check_prints_json(root, capsys):
    assert check(root, "--json") == 1
    good, odd = json.loads(capsys.readouterr().out)
    assert good["queries"] == {"train": 1, "val": 0, "test": 1}
    assert good["usable"]
    assert [fault["line"] for fault in odd["faults"]] == [3]
    assert not odd["usable"]


def test_a_data_set_that_is_of_no_use_is_listed_too(root, capsys):
    (root / "odd" / "tools.jsonl").write_text("")
    assert check(root, "--skip-bad") == 1
    assert "tools.jsonl: the file must have at least one line" in capsys.readouterr().out


def test_many_faults_are_cut_short(root, capsys):
    with (root / "odd" / "queries.jsonl").open("a") as file:
        file.write("{\n" * 30)
    check(root / "odd")
    assert capsys.readouterr().out.splitlines()[-1] == "and 11 more in odd"


def test_a_folder_without_data_sets_is_an_error(tmp_path):
    with pytest.raises(DataError, match="must be a data set or hold some"):
        check(tmp_path)
