"""`toolheads calibrate` and `toolheads decide`, from data to an answer."""

from __future__ import annotations

import json

import pytest
from tests.hash_encoder import HashEncoder
from tests.unit.decide.test_calibration import TOOLS, made_dataset

from toolheads.data import write_queries, write_tools
from toolheads.decide import Picker, load_calibration
from toolheads.entrypoints.cli import main
from toolheads.entrypoints.cli import scorers as cli_scorers
from toolheads.scorers.bm25 import BM25Scorer

NEED = "please archive the invoice"


@pytest.fixture
def office(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tools(tmp_path / "office" / "tools.jsonl", TOOLS)
    write_queries(tmp_path / "office" / "queries.jsonl", made_dataset().queries)
    return tmp_path


def run(capsys, *argv):
    code = main([str(word) for word in argv])
    said = capsys.readouterr()
    return code, said.out, said.err


def calibrated(capsys, *options):
    words = ("--data", "office", "--targets", "0.05,0.1", "--out", "c.json", *options)
    return run(capsys, "calibrate", *words)


def decided(capsys, *options, need=NEED, tools="office/tools.jsonl"):
    words = ("--tools", tools, "--scorer", "bm25", "--calibration", "c.json", *options)
    return run(capsys, "decide", need, *words)


def test_a_calibration_is_told_and_decides_as_the_picker_does(office, capsys):
    code, out, err = calibrated(capsys, "--scorer", "bm25", "--check", "test")
    assert (code, err) == (0, "")
    assert "false binds <= 0.05: floor" in out
    assert "office, test: AUROC of absence" in out
    code, out, _ = decided(capsys, "--shortlist", 2)
    answer = json.loads(out)
    settings = load_calibration("c.json").settings(0.05)
    expected = Picker(TOOLS, BM25Scorer(), settings).resolve(NEED).to_json()
    assert code == 0
    assert {name: answer[name] for name in expected} == expected
    assert answer["shortlist"] == answer["tools"]
    assert answer["settings"] == settings.to_json()


def test_what_no_tool_does_is_an_answer(office, capsys):
    calibrated(capsys, "--scorer", "bm25")
    code, out, _ = decided(capsys, need="feed the cat")
    assert (code, json.loads(out)["outcome"]) == (0, "absent")


def test_frozen_vectors_are_calibrated_over_their_cache(office, capsys, monkeypatch):
    monkeypatch.setattr(cli_scorers, "make_encoder", lambda settings: HashEncoder(64))
    dense = ("--scorer", "dense", "--cache", "cache")
    assert calibrated(capsys, *dense)[0] == 0
    words = ("--data", "office", "--calibration", "c.json", "--false-binds", 0.1)
    code, out, _ = run(capsys, "decide", NEED, *words, *dense)
    answer = json.loads(out)
    assert (code, answer["outcome"]) == (0, "bind")
    assert answer["tools"][0]["name"] == "archive_invoice"


def test_thresholds_of_another_scorer_or_catalogue_are_refused(office, capsys):
    calibrated(capsys, "--scorer", "bm25")
    write_tools(office / "few.jsonl", TOOLS[:3])
    code, out, err = decided(capsys, tools="few.jsonl")
    assert (code, out) == (2, "")
    assert "kind of catalogue they were calibrated on, got 3 tools" in err


def test_tools_may_be_one_json_array_and_thresholds_one_s_own(office, capsys):
    fields = {"server": "office", "description": "Archives an invoice"}
    (office / "tools.json").write_text(json.dumps([fields | {"name": "archive"}]), "utf-8")
    own = ("--settings", '{"similarity_floor": 0.01}', "--scorer", "bm25")
    code, out, _ = run(capsys, "decide", NEED, "--tools", "tools.json", *own)
    assert (code, json.loads(out)["tools"][0]["id"]) == (0, "office/archive")
    (office / "settings.json").write_text('{"similarity_floor": 1.0, "margin": 0}', "utf-8")
    own = ("--settings", "settings.json", "--scorer", "bm25")
    code, out, _ = run(capsys, "decide", NEED, "--tools", "tools.json", *own)
    assert json.loads(out)["outcome"] == "absent"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("--settings", "{}", "--false-binds", "0.1"),
            "false-binds must be left out with settings",
        ),
        (("--settings", '{"flor": 1}'), "a setting must be one of"),
        (("--settings", "nowhere.json"), "nowhere.json"),
        (("--settings", "{}", "--shortlist", "-1"), "shortlist must be >= 0"),
        (("--calibration", "nowhere.json"), "must be a calibration file"),
        ((), "calibration or settings must be given for scorer bm25"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(office, capsys, words, reason):
    code, out, err = run(
        capsys, "decide", NEED, "--tools", "office/tools.jsonl", "--scorer", "bm25", *words
    )
    assert (code, out) == (2, "")
    assert reason in err
    assert err.startswith("toolheads: ")
    assert err.count("\n") == 1


def test_a_blank_need_is_refused_before_anything_is_read(office, capsys):
    code, _, err = run(capsys, "decide", " ", "--tools", "nowhere", "--settings", "{}")
    assert (code, "text must have" in err) == (2, True)


def test_a_file_that_is_there_is_replaced_only_by_force(office, capsys):
    assert calibrated(capsys, "--scorer", "bm25")[0] == 0
    code, _, err = calibrated(capsys, "--scorer", "bm25")
    assert (code, "add --force to replace it" in err) == (2, True)
    assert calibrated(capsys, "--scorer", "bm25", "--force")[0] == 0


def test_the_queries_of_the_fit_are_no_check(office, capsys):
    code, _, err = calibrated(capsys, "--scorer", "bm25", "--check", "train")
    assert (code, "check must be another split" in err) == (2, True)


def test_bounds_that_the_queries_do_not_give_are_told(office, capsys):
    words = ("--data", "office", "--out", "c.json", "--scorer", "bm25")
    code, out, err = run(capsys, "calibrate", *words)
    assert code == 0
    assert "false binds <= 0.01" not in out
    assert "no bound of 0.01" in err
