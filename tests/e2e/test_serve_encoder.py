"""The server on a real retriever whose encoder fails, hangs, and comes back."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

from starlette.testclient import TestClient
from tests.hash_encoder import HashEncoder
from tests.unit.serving.fakes import TOOLS, FakeCaller, a_tool, fake_calls
from tests.unit.serving.servers import Served

import toolheads
from toolheads.errors import EncoderError
from toolheads.retrieval import RetrieverSettings
from toolheads.serving import create_app

PATIENCE_S = 60.0
QUICK = RetrieverSettings(deadline_s=0.3, retry_s=0.05, most_retry_s=0.1)
HANG_S = 20.0


class Encoder(HashEncoder):
    """Fails while `error` is set, and hangs while `is_free` is not."""

    def __init__(self):
        super().__init__(width=32)
        self.error = None
        self.is_free = threading.Event()
        self.is_free.set()

    def encode(self, texts):
        self.is_free.wait(HANG_S)
        if self.error is not None:
            raise self.error
        return super().encode(texts)


@pytest.fixture
def encoder():
    encoder = Encoder()
    yield encoder
    encoder.is_free.set()


@pytest.fixture
def server(encoder):
    retriever = toolheads.load_retriever(
        encoder=encoder, tools=TOOLS, scorer="dense", settings=QUICK
    )
    assert retriever.wait(PATIENCE_S)
    app = create_app(retriever, fake_calls(FakeCaller()))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield Served(client, retriever, None)
    encoder.is_free.set()
    retriever.close()


def search(server, query):
    answer = server.post("/v1/search", {"query": query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def best(server, query):
    return search(server, query)["tools"][0]["id"]


def until(is_true):
    wait, end = threading.Event(), time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if is_true():
            return True
        wait.wait(0.02)
    return False


def test_words_answer_while_the_encoder_is_down_and_vectors_come_back_by_themselves(
    server, encoder
):
    assert search(server, "move an event")["mode"] == "dense"
    encoder.error = EncoderError("encoder must answer, got: connection refused")
    for number in range(5):
        answer = search(server, f"send a mail number {number}")
        assert answer["mode"] == "lexical"
        assert "connection refused" in answer["reason"]
        assert answer["tools"][0]["id"] == "mail/send_mail"
    health = server.get("/healthz").json()
    assert (health["ready"], health["degraded"], health["mode"]) == (True, True, "lexical")
    assert "connection refused" in health["reason"]
    assert "toolheads_degraded 1.0" in server.get("/metrics").text
    encoder.error = None
    assert until(lambda: search(server, "send another mail")["mode"] == "dense")
    assert until(lambda: server.get("/healthz").json()["degraded"] is False)


def test_a_hanging_encoder_delays_no_cached_search_and_no_look_up(server, encoder):
    assert search(server, "move an event")["mode"] == "dense"
    encoder.is_free.clear()
    answers = []
    askers = [
        threading.Thread(target=lambda n=n: answers.append(search(server, f"new event {n}")))
        for n in range(8)
    ]
    start = time.monotonic()
    for asker in askers:
        asker.start()
    assert search(server, "move an event")["mode"] == "dense"
    assert server.get("/v1/tools").json()["total"] == 4
    assert server.get("/v1/tools/send_mail").status_code == 200
    assert time.monotonic() - start < HANG_S / 2
    for asker in askers:
        asker.join(PATIENCE_S)
    assert {answer["mode"] for answer in answers} == {"lexical"}
    assert time.monotonic() - start < HANG_S


def test_a_tool_that_was_added_is_found_and_one_that_was_removed_is_not(server):
    new = a_tool("more", "zeppelin", "Fetch the zeppelin.")
    server.retriever.update([*TOOLS[1:], new])
    # It is embedded in the background; until then, without words, it is no better than the others.
    assert until(lambda: best(server, "fetch the zeppelin") == "more/zeppelin")
    shown = [tool["id"] for tool in search(server, "create an event in a calendar")["tools"]]
    assert "calendar/create_event" not in shown
    assert server.get("/v1/tools/calendar/create_event").status_code == 404


def test_a_tool_that_is_named_is_shown(server):
    answer = search(server, "please call move_event for me")
    assert "calendar/move_event" in answer["named"]
    assert "calendar/move_event" in [tool["id"] for tool in answer["tools"]]
