"""What a model is to see, over REST: rerank, plan, decide."""

from __future__ import annotations

import jsonschema
import pytest
from tests.unit.serving.fakes import a_retriever, a_tool
from tests.unit.serving.servers import KEYS, MAIL_KEY, error_of, served

from toolheads.client import requests
from toolheads.serving import schemas

ANSWERS = schemas.answers()
# Scores of the fake are counts of words.
THRESHOLDS = {"similarity_floor": 0.5, "margin": 0.1, "score_unit": 4}


@pytest.fixture(scope="module")
def server():
    with served() as server:
        yield server


def fits(answer, name):
    assert answer.status_code == 200, answer.text
    jsonschema.Draft202012Validator(ANSWERS[name]).validate(answer.json())
    return answer.json()


def ids(answer):
    return [tool["id"] for tool in answer["tools"]]


@pytest.mark.parametrize("method", ["keyword", "heads"])
def test_a_turn_gets_the_tools_that_fit_and_those_that_are_pinned(server, method):
    body = {"message": "send a mail to Ada", "method": method, "top_n": 1}
    answer = fits(server.post("/v1/rerank", body | {"pinned": ["forecast"]}), "RerankAnswer")
    assert ids(answer) == ["weather/forecast", "mail/send_mail"]
    assert answer["report"]["method"] == method


def test_a_conversation_is_reranked_by_what_the_user_said_last(server):
    messages = [
        {"role": "user", "content": "send a mail"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "and the weather forecast?"},
    ]
    answer = fits(server.post("/v1/rerank", {"message": messages, "top_n": 1}), "RerankAnswer")
    assert ids(answer) == ["weather/forecast"]


def test_a_small_catalogue_is_shown_in_one_go(server):
    answer = fits(server.post("/v1/plan", {"context_tokens": 32_000}), "PlanAnswer")
    assert (answer["strategy"], answer["fits"], answer["n_tools"]) == ("one_shot", True, 4)


def test_a_plan_of_an_unknown_format_is_refused_in_a_line(server):
    refused = server.post("/v1/plan", {"format": "morse"})
    assert error_of(refused) == (400, "invalid_argument")
    assert "morse" in refused.text


@pytest.mark.parametrize(
    ("need", "outcome", "tools"),
    [
        ("send a mail to a person", "bind", ["mail/send_mail"]),
        ("an event", "ambiguous", None),
        ("fold a paper crane", "absent", []),
    ],
)
def test_a_need_is_decided_by_the_thresholds_that_are_given(server, need, outcome, tools):
    body = {"need": need, "settings": THRESHOLDS}
    answer = fits(server.post("/v1/decide", body), "DecideAnswer")
    assert answer["outcome"] == outcome
    if tools is not None:
        assert ids(answer) == tools


def test_other_thresholds_give_another_answer(server):
    body = {"need": "send a mail to a person", "settings": THRESHOLDS | {"score_unit": 100}}
    assert fits(server.post("/v1/decide", body), "DecideAnswer")["outcome"] == "absent"


@pytest.mark.parametrize("settings", [{"flor": 1}, {"margin": 2}, {"top_k": "3"}])
def test_thresholds_that_break_a_rule_are_refused(server, settings):
    refused = server.post("/v1/decide", {"need": "mail", "settings": settings})
    assert error_of(refused) == (400, "invalid_argument")


def test_nothing_is_decided_by_words_where_vectors_are_away():
    retriever = a_retriever()
    search = retriever.search
    retriever.search = lambda text, k=None, **more: search(text, k, **{**more, "deadline_s": 0})
    with served(retriever=retriever) as server:
        body = {"need": "send a mail", "settings": THRESHOLDS}
        refused = server.post("/v1/decide", body)
    assert error_of(refused) == (503, "unavailable")
    assert "the encoder is busy" in refused.text


def test_tools_of_other_sources_are_neither_chosen_nor_counted(tmp_path):
    with served(keys=KEYS, tmp_path=tmp_path) as server:
        reranked = server.post("/v1/rerank", {"message": "weather forecast"}, key=MAIL_KEY)
        assert ids(fits(reranked, "RerankAnswer")) == ["mail/send_mail"]
        assert fits(server.post("/v1/plan", {}, key=MAIL_KEY), "PlanAnswer")["n_tools"] == 1
        body = {"need": "weather forecast of a city", "settings": THRESHOLDS}
        assert (
            fits(server.post("/v1/decide", body, key=MAIL_KEY), "DecideAnswer")["outcome"]
            == "absent"
        )


def test_a_catalogue_that_changed_is_prepared_anew():
    retriever = a_retriever()
    with served(retriever=retriever) as server:
        body = {"message": "fold a paper crane", "top_n": 1}
        server.post("/v1/rerank", body)
        crane = a_tool("paper", "fold_crane", "Fold a crane of paper.")
        retriever.tools = tuple(sorted([*retriever.tools, crane], key=lambda tool: tool.id))
        assert ids(fits(server.post("/v1/rerank", body), "RerankAnswer")) == ["paper/fold_crane"]


def test_an_empty_catalogue_is_unavailable():
    with served(retriever=a_retriever(())) as server:
        refused = server.post("/v1/rerank", {"message": "mail"})
    assert error_of(refused) == (503, "unavailable")


@pytest.mark.parametrize(
    "prepared",
    [
        requests.rerank("send a mail", "heads", 1, ["forecast"]),
        requests.plan({"context_tokens": 32_000, "query": None}),
        requests.decide("send a mail", THRESHOLDS),
    ],
    ids=["rerank", "plan", "decide"],
)
def test_what_the_client_sends_is_taken(server, prepared):
    answer = server.post(prepared.path, prepared.body)
    assert answer.status_code == 200, answer.text
    assert prepared.read(answer.json()) == answer.json()
