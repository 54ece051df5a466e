"""`toolheads rerank` as its own process, with a real chat server beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.chat_server import Answer, ChatServer, refused, said
from tests.unit.rerank.catalogues import GARDEN

from toolheads.data import write_tools

pytest.importorskip("httpx", reason="needs the extra [openai]")

COMMAND = [sys.executable, "-m", "toolheads.entrypoints.cli", "rerank"]
MESSAGE = "cut the grass of the lawn"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("TOOLHEADS_"):
            monkeypatch.delenv(name)
    write_tools("tools.jsonl", GARDEN)


def run(*argv, server=None, **env):
    if server is not None:
        env |= {"TOOLHEADS_RERANK_URL": server.url, "TOOLHEADS_RERANK_MODEL": "m"}
    done = subprocess.run(
        [*COMMAND, *argv],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **env},
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_message_gives_tools_and_a_report():
    done = run("tools.jsonl", MESSAGE, "--top-n", "2", "--pin", "list_beds, ghost")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()][:2] == ["list_beds", "mow_lawn"]
    assert done.stderr.splitlines() == [
        "3 of 8 tools by keyword",
        "pinned: list_beds",
        "unknown pins: ghost",
    ]


def test_a_conversation_is_ranked_on_what_its_user_said_last(tmp_path):
    messages = [{"role": "user", "content": MESSAGE}, {"role": "assistant", "content": "compost"}]
    (tmp_path / "c.json").write_text(json.dumps(messages))
    done = run("tools.jsonl", "--conversation", "c.json", "--top-n", "1", "--json")
    read = json.loads(done.stdout)
    assert [tool["id"] for tool in read["tools"]] == ["mow_lawn"]
    assert read["report"]["text"] == MESSAGE


@pytest.mark.parametrize(("order", "first"), [("registration", "prune_tree"), ("rank", "mow_lawn")])
def test_tools_can_be_printed_as_an_api_lists_them(order, first):
    argv = ("tools.jsonl", MESSAGE, "--top-n", "2", "--form", "openai", "--order", order)
    assert json.loads(run(*argv).stdout)[0]["function"]["name"] == first


def test_a_chat_model_chooses():
    with ChatServer(said('{"tools": ["list_beds"]}')) as server:
        done = run("tools.jsonl", MESSAGE, "--method", "llm", "--top-n", "1", server=server)
    assert done.stdout.split()[0] == "list_beds"
    assert "1 of 8 tools by llm" in done.stderr
    assert MESSAGE in server.prompt


def test_a_chat_model_that_fails_is_told_and_words_rank():
    with ChatServer(refused("overloaded", 500)) as server:
        done = run("tools.jsonl", MESSAGE, "--method", "llm", "--top-n", "1", server=server)
    assert (done.returncode, done.stdout.split()[0]) == (0, "mow_lawn")
    assert "by keyword, not llm" in done.stderr
    assert "answered 500: overloaded" in done.stderr


def test_a_scorer_can_choose():
    done = run("tools.jsonl", MESSAGE, "--method", "heads", "--scorer", "bm25", "--top-n", "1")
    assert (done.returncode, done.stdout.split()[0]) == (0, "mow_lawn")
    assert "1 of 8 tools by heads" in done.stderr


@pytest.mark.parametrize(
    ("reply", "code", "last"),
    [
        ('["set_reminder"]', 0, "the right tool is among them"),
        ('["play_music"]', 0, "the right tool is missing"),
        ("I am only a poet", 1, "reranking with this model would be reranking by keyword"),
        ('["invented"]', 1, "reranking with this model would be reranking by keyword"),
    ],
)
def test_the_test_shows_what_the_model_said_and_fails_where_words_would_have_answered(
    reply, code, last
):
    with ChatServer(said(reply)) as server:
        done = run("test", server=server)
    assert done.returncode == code
    assert f"said     {reply}\n" in done.stdout
    assert done.stdout.rstrip().endswith(last)
    assert done.stdout.count("ok ") == (code == 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refused("bad key", 401), "answered 401: bad key"),
        (Answer(b"<html>", content_type="text/html"), "must answer JSON, got: <html>"),
        (Answer(hangs=True), "within 1 s"),
    ],
)
def test_the_test_says_why_a_call_failed(answer, message):
    with ChatServer(answer) as server:
        done = run("test", "--deadline", "1", server=server)
    assert done.returncode == 1
    assert message in done.stdout
    assert "ok " not in done.stdout


def test_the_test_answers_in_json_too_and_takes_options():
    with ChatServer(said('["set_reminder"]')) as server:
        argv = ("--chat-url", server.url, "--chat-model", "x", "--chat-parameters", '{"seed": 7}')
        done = run("test", "--json", *argv)
    read = json.loads(done.stdout)
    assert (done.returncode, read["usable"], read["names"]) == (0, True, ["set_reminder"])
    assert (server.bodies[0]["model"], server.bodies[0]["seed"]) == ("x", 7)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["test"], "chat-url must be given for the chat model, got nothing"),
        (["tools.jsonl"], "message must be given once, as MESSAGE or as --conversation FILE"),
        (["tools.jsonl", "x", "--method", "llm"], "chat-url must be given"),
        (["tools.jsonl", "--conversation", "tools.jsonl"], "must be a JSON list of messages"),
        (
            ["test", "--chat-url", "http://h", "--chat-model", "m", "--deadline", "0"],
            "deadline_s must be > 0 and finite, got 0.0",
        ),
    ],
)
def test_bad_input_is_one_line(argv, message):
    done = run(*argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_not_there_is_named():
    done = run("none.jsonl", "x")
    assert done.returncode == 2
    assert "none.jsonl: the file does not exist" in done.stderr
