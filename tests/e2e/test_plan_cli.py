"""`toolheads plan` as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.unit.plan.catalogues import LIBRARY, numbered, tool

from toolheads.data import read_tools, write_tools
from toolheads.entrypoints.cli import main
from toolheads.sources.lists import to_openai


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tools("library.jsonl", LIBRARY)
    write_tools("shop.jsonl", numbered(200, "Does thing number {i}, for a shop."))
    return tmp_path


def run(capsys, *argv):
    """(exit code, stdout, stderr)."""
    code: object
    try:
        code = main(["plan", *map(str, argv)])
    except SystemExit as e:
        code = e.code
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys, *argv):
    code, out, _ = run(capsys, *argv, "--json")
    return code, json.loads(out)


def test_a_plan_is_printed_with_its_reason_and_its_evidence(capsys):
    code, out, err = run(capsys, "library.jsonl")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "one_shot: 6 tools, few enough to show all"
    assert "gain of a menu over one prompt at 4 tools" in out


def test_with_a_query_the_ranking_is_printed_whatever_the_plan(capsys):
    _, out, _ = run(capsys, "library.jsonl", "--query", "pay a fine")
    assert "one_shot" in out
    assert "pay_fine  Pay what is owed" in out


def test_a_query_that_matches_nothing_is_told(capsys):
    _, out, _ = run(capsys, "library.jsonl", "--query", "明天的天气")
    assert out.splitlines()[-1] == "nothing matches the query"


def test_a_plan_that_does_not_fit_exits_with_1(capsys):
    code, out, _ = run(capsys, "shop.jsonl", "--budget", "20")
    assert code == 1
    assert "which does not fit" in out


def test_json_has_the_plan_the_ranking_and_the_fit(capsys):
    argv = ["shop.jsonl", "--query", "number 7", "--context", 8000, "--budget", 1000, "--fit"]
    code, whole = as_json(capsys, *argv, "--sizes")
    assert code == 0
    assert whole["strategy"] == "retrieve"
    assert whole["ranking"]["selected"][0] == whole["retrieval"]["selected"][0] == "thing_7"
    assert whole["fit"]["fits"]
    assert whole["sizes"]["names"] < whole["sizes"]["json_schema_openai"]


def test_what_is_left_is_written_in_the_shape_of_the_file(capsys):
    with open("tools.json", "w") as file:  # noqa: PTH123
        json.dump(to_openai(LIBRARY), file)
    argv = ["--format", "json_schema_openai", "--budget", 200, "--fit", "--query", "pay a fine"]
    code, _, _ = run(capsys, "tools.json", *argv, "--out", "less.json")
    with open("less.json") as file:  # noqa: PTH123
        listed = json.load(file)
    assert code == 0
    assert {"type", "function"} == set(listed[0])
    assert "pay_fine" in [entry["function"]["name"] for entry in listed]
    assert len(json.dumps(listed)) < len(json.dumps(to_openai(LIBRARY)))


def test_lines_are_written_as_lines(capsys):
    run(capsys, "shop.jsonl", "--budget", 500, "--fit", "--out", "less.jsonl", "--keep", "thing_9")
    left = [item.id for item in read_tools("less.jsonl")]
    assert left[0] == "thing_0"
    assert "thing_9" in left
    assert len(left) < 50


def test_a_fit_that_is_over_the_budget_exits_with_1(capsys):
    code, out, _ = run(capsys, "library.jsonl", "--budget", 1, "--fit")
    assert code == 1
    assert "over the budget of 1" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--fit"], "--fit needs --budget"),
        (["--out", "x.json", "--budget", "9"], "--out needs --fit"),
        (["--budget", "0"], "budget must be >= 1, got 0"),
        (["--context", "-1"], "context must be >= 1, got -1"),
        (["--k", "0"], "k must be >= 1, got 0"),
        (["--budget", "many"], "invalid int value"),
        (["--format", "nope"], "format_id must be one of"),
        (["--query", "x", "--keep", "ghost"], "keep must name one tool of the catalogue each"),
        (["--scorer", "nope"], "invalid choice"),
        (["--heads", "minilm"], "heads must be left out for scorer bm25"),
        (["--tokenizer", "nope"], "tokenizer must be estimate, compatible, tiktoken:NAME"),
        (["--context-share", "2"], r"context_share must be in (0, 1]"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_2(capsys, argv, said):
    code, out, err = run(capsys, "library.jsonl", *argv)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "content"), [("gone.json", None), ("bad.json", "[{"), ("empty.jsonl", "")]
)
def test_a_file_that_cannot_be_read_exits_with_2(capsys, folder, name, content):
    if content is not None:
        (folder / name).write_text(content)
    code, out, err = run(capsys, name)
    assert (code, out) == (2, "")
    assert err.startswith(f"toolheads: {name} cannot be used")


def test_thresholds_can_be_set(capsys):
    argv = ["--retrieve-from", 2, "--query", "pay", "--k", 2]
    _, whole = as_json(capsys, "library.jsonl", *argv)
    assert (whole["strategy"], whole["retrieval"]["k"]) == ("retrieve", 2)


def test_a_compatible_estimate_can_be_asked_for(capsys):
    write_tools("zh.jsonl", [tool("find", "搜索所有的文件")])
    _, ours = as_json(capsys, "zh.jsonl")
    _, compatible = as_json(capsys, "zh.jsonl", "--tokenizer", "compatible")
    assert ours["schema_tokens"] > compatible["schema_tokens"]


def test_names_of_others_cannot_move_the_cursor(capsys):
    write_tools("odd.jsonl", [tool("find\x1b[31m", "Find\x1b]0;x\x07 it")])
    _, out, _ = run(capsys, "odd.jsonl", "--query", "find")
    assert "\x1b" not in out


def test_five_thousand_tools_are_planned_by_the_command(folder):
    write_tools("large.jsonl", numbered(5000, "Does thing number {i}, for a shop. " * 3))
    argv = ["plan", "large.jsonl", "--context", "32768", "--query", "number 4321", "--json"]
    argv += ["--budget", "4000", "--k", "500", "--fit", "--out", "less.jsonl"]
    done = subprocess.run(
        [sys.executable, "-m", "toolheads.entrypoints.cli", *argv], capture_output=True, check=False
    )
    whole = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (whole["strategy"], whole["fits"]) == ("retrieve_then_menu", True)
    assert "thing_4321" in [item.id for item in read_tools("less.jsonl")]
