"""What a model is to see, over REST: rerank, plan, decide."""

from __future__ import annotations

import threading
from dataclasses import replace

import jsonschema
import pytest
from tests.chat_server import ChatServer, refused, said
from tests.unit.serving.fakes import a_retriever, a_tool
from tests.unit.serving.servers import KEYS, MAIL_KEY, error_of, served

from toolheads.client import requests
from toolheads.decide import PickerSettings
from toolheads.rerank import ChatSettings, LlmSettings, OpenAIChat
from toolheads.serving import Aids, schemas

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


MAIL = "send a mail to a person"


def test_a_need_without_thresholds_is_decided_by_those_of_the_server():
    aids = Aids(thresholds=PickerSettings.from_json(THRESHOLDS))
    with served(aids=aids) as server:
        answer = fits(server.post("/v1/decide", {"need": MAIL}), "DecideAnswer")
        other = {"need": MAIL, "settings": THRESHOLDS | {"score_unit": 100}}
        assert fits(server.post("/v1/decide", other), "DecideAnswer")["outcome"] == "absent"
    assert (answer["outcome"], ids(answer)) == ("bind", ["mail/send_mail"])
    assert answer["settings"]["score_unit"] == 4


@pytest.mark.parametrize("thresholds", ["packaged", None])
def test_a_server_without_thresholds_says_that_they_must_be_given(thresholds):
    with served(aids=Aids(thresholds=thresholds)) as server:
        refused = server.post("/v1/decide", {"need": MAIL})
    assert error_of(refused) == (400, "invalid_argument")
    assert "settings must be given" in refused.text


def test_a_shortlist_names_what_is_worth_a_look(server):
    body = {"need": "an event", "settings": THRESHOLDS, "shortlist": 1}
    answer = fits(server.post("/v1/decide", body), "DecideAnswer")
    assert len(answer["tools"]) == 2
    assert answer["shortlist"] == answer["tools"][:1]
    del body["shortlist"]
    assert "shortlist" not in server.post("/v1/decide", body).json()


def test_calls_are_linked_to_the_decision_that_showed_the_tool(server):
    body = {"need": MAIL, "settings": THRESHOLDS}
    decided = server.post("/v1/decide", body, **{"X-Session-Id": "one"}).json()
    call = {"name": "send_mail", "arguments": {"city": "x"}}
    called = server.post("/v1/call", call, **{"X-Session-Id": "one"}).json()
    assert called["search_id"] == decided["search_id"]


@pytest.fixture
def asked():
    """A server whose chat model is a real one behind HTTP, as it is scripted."""

    def made(*answers, **settings):
        chat = ChatServer(*answers)
        model = OpenAIChat(ChatSettings(chat.url, "m", api_key=""), deadline_s=5)
        llm = LlmSettings(deadline_s=settings.pop("llm_deadline_s", 5.0))
        return chat, served(aids=Aids(chat=model, llm=llm, close=model.close), **settings)

    return made


RERANK = {"message": "send a mail to Ada", "method": "llm", "top_n": 1}


def test_the_chat_model_of_the_server_chooses(asked):
    chat, running = asked(said('["forecast"]'))
    with chat, running as server:
        answer = fits(server.post("/v1/rerank", RERANK), "RerankAnswer")
    assert ids(answer) == ["weather/forecast"]
    assert (answer["report"]["method"], answer["report"]["reason"]) == ("llm", None)


def test_a_chat_model_that_fails_is_told_without_its_address(asked, caplog):
    chat, running = asked(refused("no such model", 404))
    with chat, running as server:
        answer = fits(server.post("/v1/rerank", RERANK), "RerankAnswer")
    report = answer["report"]
    assert ids(answer) == ["mail/send_mail"]
    assert (report["asked"], report["method"]) == ("llm", "keyword")
    assert report["reason"] == "the chat model failed; the log of the server says why"
    assert "127.0.0.1" not in str(answer)
    assert "no such model" in caplog.text


def test_a_server_without_a_chat_model_says_so(server):
    answer = fits(server.post("/v1/rerank", RERANK), "RerankAnswer")
    assert ids(answer) == ["mail/send_mail"]
    assert answer["report"]["method"] == "keyword"
    assert answer["report"]["reason"] == "no chat model is set"


def test_a_chat_model_is_waited_for_until_its_deadline(asked):
    hangs = replace(said("[]"), hangs=True)
    chat, running = asked(hangs, llm_deadline_s=0.2)
    with chat, running as server:
        answer = fits(server.post("/v1/rerank", RERANK), "RerankAnswer")
    assert ids(answer) == ["mail/send_mail"]
    assert "must answer within 0.2 s" in answer["report"]["reason"]


def test_words_choose_while_the_chat_model_has_no_place_free(asked):
    hangs = replace(said("[]"), hangs=True)
    chat, running = asked(hangs, llm_deadline_s=4.0, llm_workers=1)
    with chat, running as server:
        first = threading.Thread(target=server.post, args=("/v1/rerank", RERANK))
        first.start()
        while not chat.bodies:
            first.join(0.01)
        answer = fits(server.post("/v1/rerank", RERANK), "RerankAnswer")
        first.join()
    assert answer["report"]["reason"] == "the chat model is busy with other requests"
    assert ids(answer) == ["mail/send_mail"]


@pytest.mark.parametrize("field", ["url", "chat_url", "api_key", "model", "parameters"])
def test_no_request_says_which_chat_model_is_asked(server, field):
    refused = server.post("/v1/rerank", RERANK | {field: "http://10.0.0.1"})
    assert error_of(refused) == (400, "invalid_argument")
