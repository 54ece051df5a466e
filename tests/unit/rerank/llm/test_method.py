"""Method `llm` as its caller sees it: never an error, and never worse than words."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chat_server import Answer, ChatServer, refused, said
from tests.unit.rerank.catalogues import GARDEN, made
from tests.unit.rerank.llm.replies import JSON, NAMES, REPLIES
from tests.unit.rerank.test_heads import Backwards

from toolheads.domain import Tool
from toolheads.rerank import (
    ChatSettings,
    KeywordSettings,
    LlmSettings,
    OpenAIChat,
    Reranker,
    RerankSettings,
    rerank,
)

pytest.importorskip("httpx", reason="needs the extra [openai]")

MESSAGE = "cut the grass of the lawn"


class Hangs:
    """A chat model that never answers."""

    def __init__(self):
        self.left = threading.Event()

    def send(self, messages, *, system, reply_schema=None):
        self.left.wait()


class Says:
    """A chat model of the caller's own."""

    def __init__(self, reply=None, error=None):
        self.reply, self.error, self.prompts = reply, error, []

    def send(self, messages, *, system, reply_schema=None):
        self.prompts.append(messages[0]["content"])
        if self.error:
            raise self.error
        return self.reply


def by_words(top_n):
    return rerank(GARDEN, MESSAGE, "keyword", top_n=top_n).names


def test_the_model_decides_and_words_fill_up():
    chosen = rerank(GARDEN, MESSAGE, "llm", top_n=3, chat=Says('["list_beds"]'))
    assert chosen.names == ("list_beds", "mow_lawn", "prune_tree")
    report = chosen.report
    assert (report.method, report.reason) == ("llm", None)
    assert report.topped_up == ("mow_lawn", "prune_tree")
    assert report.notes == (
        "sent 8 of 8 candidates",
        'reply: ["list_beds"]',
        "usable names in it: 1",
        "topped up by keyword: 2",
    )


def test_more_than_were_asked_for_are_cut():
    chosen = rerank(GARDEN, MESSAGE, "llm", top_n=1, chat=Says('["list_beds", "mow_lawn"]'))
    assert chosen.names == ("list_beds",)
    assert len(chosen.report.notes) == 3


def test_a_pinned_tool_is_not_shown_and_not_taken_twice():
    chat = Says('["list_beds", "prune_tree"]')
    chosen = rerank(GARDEN, MESSAGE, "llm", top_n=2, pinned=["list_beds"], chat=chat)
    assert chosen.names == ("list_beds", "prune_tree", "mow_lawn")
    assert "list_beds" not in chat.prompts[0]


@pytest.mark.parametrize("settings", [{"top_n": 0}, {"pinned": [t.name for t in GARDEN]}])
def test_no_call_is_made_when_there_is_nothing_to_choose(settings):
    chat = Says("[]")
    rerank(GARDEN, MESSAGE, "llm", chat=chat, **settings)
    assert chat.prompts == []


@pytest.mark.parametrize(
    ("chat", "reason"),
    [
        (None, "no chat model is set"),
        (Says(error=OSError("no\nroute")), "no route"),
        (Says(error=KeyError()), "KeyError"),
        (Says(error=RecursionError("deep")), "deep"),
        (Says(error=SystemExit(3)), "the chat model ended with SystemExit"),
        (Says("I cannot help"), "the reply of the chat model names no tool of the list"),
        (Says(["dig"]), "the reply of the chat model names no tool of the list"),
    ],
)
def test_every_failure_is_ranked_by_words_and_says_so(chat, reason):
    chosen = rerank(GARDEN, MESSAGE, "llm", top_n=2, chat=chat)
    assert chosen.names == by_words(2)
    assert (chosen.report.asked, chosen.report.method) == ("llm", "keyword")
    assert chosen.report.reason == reason


def test_a_model_that_hangs_is_left_at_the_deadline():
    hangs = Hangs()
    settings = RerankSettings(method="llm", top_n=2, llm=LlmSettings(deadline_s=0.1))
    chosen = rerank(GARDEN, MESSAGE, chat=hangs, settings=settings)
    hangs.left.set()
    assert chosen.names == by_words(2)
    assert chosen.report.reason == "the chat model must answer within 0.1 s, got nothing"


def test_a_long_catalogue_is_cut_by_words_before_the_model_sees_it():
    tools = [*made(*[(f"t{i}", "x" * 1000) for i in range(300)]), *GARDEN]
    chat = Says('["list_beds"]')
    settings = RerankSettings(method="llm", top_n=1, llm=LlmSettings(most_candidates=4))
    chosen = rerank(tools, MESSAGE, chat=chat, settings=settings)
    assert "mow_lawn" in chat.prompts[0]
    assert len(chat.prompts[0]) < 2000
    assert chosen.report.notes[0] == "sent 4 of 308 candidates, chosen by keyword"


@pytest.mark.parametrize(
    ("scorer", "stage", "shown"),
    [
        (Backwards(), "heads", {"harvest_fruit", "getFrostWarning"}),
        (Backwards(OSError("x")), "keyword", {"mow_lawn", "prune_tree"}),
        (None, "keyword", {"mow_lawn", "prune_tree"}),
    ],
)
def test_a_scorer_can_be_the_first_stage(scorer, stage, shown):
    chat = Says("[]")
    llm = LlmSettings(most_candidates=2, first_stage="heads")
    settings = RerankSettings(method="llm", llm=llm)
    chosen = rerank(GARDEN, MESSAGE, chat=chat, scorer=scorer, settings=settings)
    assert {tool.name for tool in GARDEN if f"- {tool.name}:" in chat.prompts[0]} == shown
    assert chosen.report.notes[0] == f"sent 2 of 8 candidates, chosen by {stage}"


def lines(prompt):
    return [line[2:].split(":")[0] for line in prompt.splitlines() if line.startswith("- ")]


class Repeats:
    """A chat model that names the first candidates it is shown."""

    def send(self, messages, *, system, reply_schema=None):
        return json.dumps(lines(messages[0]["content"])[:3])


@pytest.mark.parametrize("most", [4, 100])
def test_candidates_are_shown_best_first_so_that_repeating_the_first_is_no_harm(most):
    chat = Repeats()
    settings = RerankSettings(method="llm", top_n=3, llm=LlmSettings(most_candidates=most))
    assert rerank(GARDEN, MESSAGE, chat=chat, settings=settings).names == by_words(3)


@pytest.mark.parametrize(("most", "count"), [(4, 4), (100, 8)])
def test_candidates_can_be_shown_as_the_catalogue_has_them(most, count):
    chat = Says("[]")
    llm = LlmSettings(most_candidates=most, order="catalogue")
    rerank(GARDEN, MESSAGE, chat=chat, settings=RerankSettings(method="llm", llm=llm))
    shown = lines(chat.prompts[0])
    assert len(shown) == count
    assert shown == [tool.name for tool in GARDEN if tool.name in shown]


@pytest.mark.parametrize("most", [3, 100])
def test_a_scorer_that_is_the_first_stage_ranks_the_candidates(most):
    chat = Says("[]")
    llm = LlmSettings(most_candidates=most, first_stage="heads")
    settings = RerankSettings(method="llm", llm=llm)
    rerank(GARDEN, MESSAGE, chat=chat, scorer=Backwards(), settings=settings)
    assert lines(chat.prompts[0])[:3] == [tool.name for tool in GARDEN[::-1]][:3]


@pytest.mark.parametrize("most", [4, 100])
def test_the_model_is_shown_tools_even_where_no_word_is_shared_and_none_may_fill_the_list(most):
    chat = Says('["plant_seeds"]')
    settings = RerankSettings(
        method="llm", llm=LlmSettings(most_candidates=most), keyword=KeywordSettings(fill="none")
    )
    chosen = rerank(GARDEN, "сажай цветы", chat=chat, settings=settings)
    assert len(lines(chat.prompts[0])) == min(most, len(GARDEN))
    assert chosen.names == ("plant_seeds",)


def test_two_tools_of_one_name_can_be_told_apart():
    tools = [Tool("a/run", "run", "a"), Tool("b/run", "run", "b")]
    chosen = rerank(tools, "x", "llm", top_n=1, chat=Says('["b__run"]'))
    assert chosen.ids == ("b/run",)


@pytest.mark.parametrize(("reply", "names"), REPLIES.values(), ids=REPLIES)
def test_over_the_wire_every_reply_gives_a_full_list(reply, names):
    with ChatServer(said(reply)) as server:
        chat = OpenAIChat(ChatSettings(server.url, "m"))
        chosen = rerank(GARDEN, MESSAGE, "llm", top_n=4, chat=chat)
        chat.close()
    assert len(set(chosen.names)) == 4
    assert set(names) <= set(NAMES)
    assert list(chosen.names[: len(names)]) == names
    assert chosen.report.method == ("llm" if names else "keyword")
    if not names:
        assert chosen.names == by_words(4)


@pytest.mark.parametrize(
    "answer",
    [
        refused("no", 500),
        refused("no", 429),
        refused("no", 403),
        Answer(b'{"choices": [{"message": {"content": "[\\"mow', 200),
        Answer(b"<html>", content_type="text/html"),
        Answer(b"\xff\xfe", content_type="text/plain"),
        Answer(hangs=True),
        Answer(drops=True),
        said(None),
        said([1]),
    ],
    ids=range(10),
)
def test_over_the_wire_every_fault_is_ranked_by_words_and_says_so(answer):
    with ChatServer(answer) as server:
        chat = OpenAIChat(ChatSettings(server.url, "m"), deadline_s=0.5)
        settings = RerankSettings(method="llm", top_n=3, llm=LlmSettings(deadline_s=1.0))
        chosen = Reranker(GARDEN, settings, chat=chat).rerank(MESSAGE)
        chat.close()
    assert chosen.names == by_words(3)
    assert chosen.report.method == "keyword"
    assert chosen.report.reason
    assert len(chosen.report.notes) == 2 or answer.body.startswith(b'{"object"')


def test_a_call_that_nobody_waits_for_does_not_keep_the_server_busy():
    with ChatServer(Answer(hangs=True)) as server:
        chat = OpenAIChat(ChatSettings(server.url, "m"), deadline_s=60.0)
        settings = RerankSettings(method="llm", llm=LlmSettings(deadline_s=0.3))
        before = set(threading.enumerate())
        assert Reranker(GARDEN, settings, chat=chat).rerank(MESSAGE).report.method == "keyword"
        for thread in set(threading.enumerate()) - before:
            if thread.name == "toolheads-rerank":
                thread.join(10)
                assert not thread.is_alive()
        chat.close()


@given(st.one_of(st.text(), st.binary(), JSON, st.just(object())), st.integers(1, 9))
def test_any_reply_gives_tools_of_the_catalogue_each_once(reply, top_n):
    chosen = rerank(GARDEN, MESSAGE, "llm", top_n=top_n, chat=Says(reply))
    assert len(set(chosen.ids)) == len(chosen.ids) == min(top_n, len(GARDEN))
    assert set(chosen.ids) <= {tool.id for tool in GARDEN}
