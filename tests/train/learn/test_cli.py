"""`toolheads learn` from its words to its files."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("torch")

from tests.train.learn import world
from tests.train.synthetic import HARMLESS

from toolheads.data import write_tools
from toolheads.entrypoints.cli import main as toolheads
from toolheads.heads import load_heads, save_heads
from toolheads_train.learn import cli
from toolheads_train.learn.decision import SHOWN

pytestmark = [pytest.mark.train, *(pytest.mark.filterwarnings(w) for w in HARMLESS)]

QUICK = ("--optimizer.lr", "1e-2", "--epochs", "15", "--batch_size", "64", "--resamples", "500")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with old.npz, tools.jsonl and a log, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_encoder", lambda given, settings: world.encoder())
    monkeypatch.setattr(sys, "argv", ["toolheads"])
    heads = world.given_heads()
    save_heads("old.npz", heads)
    write_tools("tools.jsonl", world.TOOLS)
    world.written(tmp_path / "log", world.events(heads, world.requests()))
    return tmp_path


def run(*more):
    words = ["--log", "log", "--tools", "tools.jsonl", "--heads", "./old.npz", "--out", "new.npz"]
    return cli.main([*words, *QUICK, *more])


def test_better_heads_are_written_with_digest_and_report(here, capsys):
    assert run() == 0
    heads = load_heads("./new.npz")  # with the digest of its sidecar
    report = json.loads((here / "new.report.json").read_text())
    assert report["promoted"]
    assert report["sha256"] == heads.sha256
    assert heads.header.training["held_out"][SHOWN]["p"] == report["comparison"]["p"][SHOWN] < 0.05
    said = capsys.readouterr().out
    assert "kept: nDCG@10 of the shown tools +" in said
    assert heads.sha256 in said


def test_where_nothing_is_better_nothing_is_written_and_the_exit_code_is_3(here, capsys):
    assert run("--alpha", "1e-9") == 3
    assert not list(here.glob("new*"))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("toolheads learn: new heads must beat the given ones")


def test_a_report_that_is_asked_for_is_written_either_way(here):
    assert run("--min_requests", "100000", "--report", "why.json") == 3
    report = json.loads((here / "why.json").read_text())
    assert "at least 100000 different requests" in report["reason"]
    assert not report["promoted"]
    assert not list(here.glob("new*"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--out", "new.txt"), "out must end in .npz, got new.txt"),
        (("--log", "nowhere"), "a usage log must be a folder"),
        (("--alpha", "2"), "alpha must be in (0, 1), got 2.0"),
        (("--parts.held_out", "0.9"), "parts.validation and parts.held_out"),
        (("--nonsense", "1"), "nonsense"),
        (("--heads", "./none.npz"), "none.npz"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(here, capsys, words, reason):
    assert run(*words) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.startswith("toolheads learn: ")
    assert "Traceback" not in said


def test_what_is_missing_is_named(here, capsys):
    assert cli.main(["--log", "log"]) == 2
    assert "tools must be given, got nothing; pass --tools" in capsys.readouterr().err


def test_a_printed_config_runs_as_the_words_it_was_printed_from(here, capsys):
    assert run("--alpha", "1e-9", "--print_config") == 0
    (here / "learn.yaml").write_text(capsys.readouterr().out)
    assert cli.main(["--config", "learn.yaml"]) == 3
    assert "p < 1e-09" in capsys.readouterr().err


def test_learn_is_a_command_of_toolheads(capsys):
    from importlib.metadata import entry_points

    if "learn" not in {e.name for e in entry_points(group="toolheads.commands")}:
        pytest.skip("the package was installed before it had this command; install it anew")
    assert toolheads(["learn", "--help"]) == 0
    assert "usage: toolheads learn" in capsys.readouterr().out
