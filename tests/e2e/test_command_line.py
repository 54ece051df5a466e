"""The command as its own process: pipes, full disks, encodings, and what it says on stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolheads.data import write_tools
from toolheads.domain import Tool

COMMAND = [sys.executable, "-m", "toolheads.entrypoints.cli"]
SEARCH = ["search", "get a thing", "--scorer", "bm25", "--data", "."]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tools = [Tool(f"t{i}", f"get_thing_{i}", "shop", "Gets a thing… " * 20) for i in range(2000)]
    write_tools(tmp_path / "tools.jsonl", tools)
    # Buffered, as a terminal's user has it: what is printed last is written as Python ends.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    return tmp_path


def run(*argv, stdout=subprocess.PIPE, **env):
    return subprocess.run(
        [*COMMAND, *argv],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
        check=False,
    )


@pytest.mark.parametrize(
    "argv",
    [["data", "check", "."], [*SEARCH, "-k", "2000"], ["search", "--help"]],
    ids=["less than a pipe holds", "more than a pipe holds", "help"],
)
def test_a_reader_that_went_away_is_no_error(argv):
    """`toolheads … | head -0`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(*argv, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
def test_output_that_cannot_be_written_is_one_line():
    with Path("/dev/full").open("wb") as full:
        done = run("data", "check", ".", stdout=full)
    said = b"toolheads: the output must be writable, got: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_a_character_that_the_terminal_lacks_is_shown_escaped():
    done = run(*SEARCH, "-k", "1", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert rb"\u2026" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are text elsewhere")
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_name_that_is_no_text_is_shown_escaped(encoding):
    done = run("heads", "verify", b"h\xff.npz", PYTHONIOENCODING=encoding)
    assert done.returncode == 1
    assert done.stdout.startswith(rb"failed  h\udcff.npz: ")
    assert done.stderr == b""


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are text elsewhere")
def test_a_query_that_is_no_text_is_refused():
    done = run("search", b"bad \xff", "--scorer", "bm25", "--data", ".")
    said = b"toolheads: text must be valid Unicode, got a lone surrogate at character 4\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", said)


def test_a_search_says_nothing_beside_its_hits():
    done = run(*SEARCH, "-k", "2")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == b""


def test_a_warning_is_from_toolheads_and_names_its_module_only_on_demand(folder):
    with (folder / "tools.jsonl").open("a") as file:
        file.write("{\n")
    argv = [*SEARCH, "-k", "1", "--skip-bad"]
    assert run(*argv).stderr.startswith(b"toolheads: left out 1 of 2001 lines of tools.jsonl\n")
    assert b"toolheads.data.files: left out" in run("-v", *argv).stderr
