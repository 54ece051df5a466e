"""One catalogue, and the same answer in Python, on the command line, over REST and over MCP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

from mcp import Client
from tests.chat_server import ChatServer, said
from tests.e2e.serving import PATIENCE_S, serving
from tests.fake_embeddings_server import FakeEmbeddingsServer

import toolheads
from toolheads.data import write_tools
from toolheads.decide import Picker, PickerSettings
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.encoders.openai import OpenAIEncoder
from toolheads.plan import plan_catalogue
from toolheads.rerank import ChatSettings, OpenAIChat, rerank
from toolheads.scorers.dense import DenseScorer

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOLS = tuple(
    Tool(f"{server}/{name}", name, server, text, SCHEMA)
    for server, name, text in (
        ("desk", "cancel_order", "Cancel one order of a customer"),
        ("desk", "refund_order", "Give back the money of one order"),
        ("files", "read_file", "Read the content of one file from the disk"),
        ("files", "read_file_v2", "Read the content of one file from the disk"),
        ("mail", "send_mail", "Send one mail with a subject and a text"),
        ("post", "send_letter", "Send one letter with a subject and a text"),
        ("weather", "forecast", "Weather forecast of a city for the next days"),
    )
)
SETTINGS = PickerSettings(similarity_floor=0.4, margin=0.08, duplicate_threshold=0.9)
NEEDS = {
    "bind": "weather forecast of a city for the next days",
    "duplicate": "read the content of one file from the disk",
    "ambiguous": "send one mail or letter with a subject and a text",
    "absent": "fold a paper crane",
}
MESSAGE = "cancel the order of the customer and send one mail"


@pytest.fixture(scope="module")
def embeddings():
    with FakeEmbeddingsServer() as server:
        yield server


@pytest.fixture(scope="module")
def chat():
    """A model that names one tool, and leaves the rest to words."""
    with ChatServer(said('{"tools": ["refund_order"]}')) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("catalogue")
    write_tools(place / "tools.jsonl", TOOLS)
    return place


@pytest.fixture(scope="module")
def encoder_options(embeddings):
    return ("--encoder", "openai", "--url", embeddings.url, "--model", embeddings.model)


@pytest.fixture(scope="module")
def server(folder, encoder_options, chat):
    options = (
        *("--scorer", "dense", *encoder_options, "--thresholds", json.dumps(SETTINGS.to_json())),
        *("--mcp-tools", "search,resolve", "--chat-url", chat.url, "--chat-model", "m"),
    )
    with serving(folder, *options) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with toolheads.Client(server.url) as client:
        wait_for_vectors(client)
        yield client


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Of vectors, which it keeps in 16 bits."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def picker(embeddings, cache):
    encoder = OpenAIEncoder(embeddings.url, embeddings.model)
    yield Picker(TOOLS, DenseScorer(Embedder(encoder, cache=cache)), SETTINGS)
    encoder.close()


def wait_for_vectors(client):
    for _ in range(600):
        if client.search("anything").mode == "dense":
            return
    raise AssertionError("the tools were not embedded")


def on_the_command_line(*words):
    done = subprocess.run(
        [sys.executable, "-m", "toolheads.entrypoints.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def over_mcp(url, **arguments):
    async def resolved():
        async with Client(f"{url}/mcp") as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            answer = await client.call_tool("resolve_tool", arguments)
            return names, answer

    names, answer = asyncio.run(asyncio.wait_for(resolved(), PATIENCE_S))
    assert names == ["search_tools", "resolve_tool"]
    assert not answer.is_error, answer.content
    assert json.loads(answer.content[0].text) == answer.structured_content
    return answer.structured_content


def decided(outcome, tools, shortlist):
    """What a need came to. Scores may differ by what a cache of 16 bits rounds away."""
    return (
        outcome,
        [tool_id for tool_id, _ in tools],
        [tool_id for tool_id, _ in shortlist],
        pytest.approx([score for _, score in (*tools, *shortlist)], abs=1e-4),
    )


def seen(answer):
    pairs = [[(t["id"], t["score"]) for t in answer[name]] for name in ("tools", "shortlist")]
    ids = [[tool_id for tool_id, _ in listed] for listed in pairs]
    return (answer["outcome"], *ids, [score for listed in pairs for _, score in listed])


@pytest.mark.parametrize("outcome", NEEDS)
def test_a_need_comes_to_the_same_through_every_door(
    outcome, folder, cache, picker, encoder_options, client, server
):
    need = NEEDS[outcome]
    decision = picker.resolve(need)
    named, worth = (
        [(hit.tool_id, hit.score) for hit in hits]
        for hits in (decision.hits, picker.shortlist(need, 4))
    )
    expected = decided(decision.outcome, named, worth)
    assert decision.outcome == outcome
    thresholds = json.dumps(SETTINGS.to_json())
    said_there = on_the_command_line(
        *("decide", need, "--tools", folder / "tools.jsonl", "--scorer", "dense"),
        *(*encoder_options, "--cache", cache, "--settings", thresholds, "--shortlist", 4),
    )
    assert seen(said_there) == expected
    assert seen(client.decide(need, SETTINGS.to_json(), shortlist=4)) == expected
    assert seen(client.decide(need, shortlist=4)) == expected  # the thresholds of the server
    resolved = over_mcp(server.url, need=need, shortlist=4)
    assert seen(resolved) == expected
    assert all("input_schema" in tool for tool in resolved["tools"])
    assert resolved["settings"] == SETTINGS.to_json() == said_there["settings"]


@pytest.mark.parametrize("method", ["keyword", "llm"])
def test_a_turn_gets_the_same_tools_in_python_on_the_command_line_and_over_rest(
    method, folder, client, chat
):
    model = OpenAIChat(ChatSettings(chat.url, "m"))
    chosen = rerank(TOOLS, MESSAGE, method, top_n=3, chat=model)
    model.close()
    options = ("--chat-url", chat.url, "--chat-model", "m") if method == "llm" else ()
    words = ("rerank", folder / "tools.jsonl", MESSAGE, "--method", method, "--top-n", 3)
    there = on_the_command_line(*words, "--json", *options)
    over_rest = client.rerank(MESSAGE, method, top_n=3)
    assert chosen.report.method == method == over_rest["report"]["method"]
    assert [tool["id"] for tool in over_rest["tools"]] == list(chosen.ids)
    assert there["report"]["listed"] == over_rest["report"]["listed"] == [*chosen.report.listed]


def test_a_plan_is_the_same_in_python_on_the_command_line_and_over_rest(folder, client):
    wanted: dict[str, Any] = {"context_tokens": 1000, "query": "send one mail", "k": 2}
    plan = plan_catalogue(sorted(TOOLS, key=lambda tool: tool.id), **wanted).to_json()
    there = on_the_command_line(
        *("plan", folder / "tools.jsonl", "--context", 1000, "--query", "send one mail"),
        *("--k", 2, "--json"),
    )
    over_rest = client.plan(**wanted)
    for name in ("strategy", "reason", "prompt_tokens", "schema_tokens", "fits"):
        assert plan[name] == over_rest[name] == there[name], name


def test_a_decision_is_not_that_of_other_thresholds(client):
    strict = replace(SETTINGS, similarity_floor=1.0).to_json()
    assert client.decide(NEEDS["bind"], strict)["outcome"] == "absent"
