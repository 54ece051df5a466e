from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.retrieval.odd_encoders import OddEncoder
from tests.unit.retrieval.worlds import (
    PATIENT,
    TOOLS,
    WIDTH,
    ids,
    retriever_of,
    scored,
    some_tools,
    soon,
)

from toolheads.domain import Tool
from toolheads.errors import ConfigError, DataError
from toolheads.scorers import indexed

NOW = replace(PATIENT, keep_rows_s=0.0)
QUERIES = ["create an issue", "the weather in the city, then book a flight", "songs"]


@settings(max_examples=12)
@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from([0.05, 0.3, 0.9])), max_size=4))
def test_any_history_gives_the_answers_of_a_catalogue_made_anew(history):
    """With more tools than entries of a row and with fewer, where spread is kept in two ways."""
    last = some_tools(7, 0.6)
    with retriever_of([], settings=NOW) as retriever, retriever_of(last) as fresh:
        for seed, share in history:
            retriever.update(some_tools(seed, share))
            retriever.wait(20)
        retriever.update(last)
        assert retriever.wait(20)
        assert retriever.catalogue_digest == fresh.catalogue_digest
        for text in QUERIES:
            assert scored(retriever.search(text, 99)) == scored(fresh.search(text, 99))


def test_an_update_says_what_is_different():
    with retriever_of(TOOLS[:3]) as retriever:
        changed = Tool(TOOLS[1].id, TOOLS[1].name, TOOLS[1].server, "something else")
        update = retriever.update([TOOLS[0], changed, TOOLS[5]])
        assert (update.added, update.changed, update.removed) == (
            (TOOLS[5].id,),
            (TOOLS[1].id,),
            (TOOLS[2].id,),
        )
        assert update.catalogue == retriever.catalogue_digest
        assert not retriever.update([TOOLS[5], changed, TOOLS[0]])


def test_only_tools_that_are_new_or_changed_are_embedded_and_written(monkeypatch):
    encoder = OddEncoder(WIDTH)
    with retriever_of(encoder=encoder, settings=NOW) as retriever:
        index = retriever._scoring.index
        before, written = index.keys(), []
        well = index.apply

        def noted(keys, rows, removed=()):
            written.append((list(keys), set(removed)))
            well(keys, rows, removed)

        monkeypatch.setattr(index, "apply", noted)
        del encoder.sent[:]
        changed = Tool(TOOLS[0].id, "renamed_thing", TOOLS[0].server, "renamed")
        retriever.update([changed, *TOOLS[2:]])
        assert retriever.wait(20)
        assert sorted(set(encoder.sent)) == sorted(
            {"hub renamed thing: renamed", "renamed thing", "renamed"}
        )
        added = [key for keys, _ in written for key in keys]
        assert len(added) == 1
        removed = before - index.keys()
        assert len(removed) == 2
        assert index.keys() - before == set(added)


@pytest.mark.parametrize("owns_index", [True, False])
def test_rows_of_others_are_removed_from_an_index_of_ones_own_alone(owns_index):
    with retriever_of(settings=NOW) as retriever:
        index = retriever._scoring.index
        retriever._builder._owns_index = owns_index
        index.apply(["another's"], np.ones((1, WIDTH), np.float32))
        size = len(index)
        retriever.update(TOOLS[1:])
        assert soon(lambda: len(index) == size - (2 if owns_index else 1))
        left = index.keys()
        assert ("another's" in left) != owns_index


def test_a_change_is_found_and_a_removed_tool_is_not():
    with retriever_of(settings=NOW) as retriever:
        retriever.update([*TOOLS[1:], Tool("new/frobnicate", "frobnicate", "new", "frobnicates")])
        assert ids(retriever.search("frobnicate", 1)) == ["new/frobnicate"]
        assert TOOLS[0].id not in ids(retriever.search("create a mail", 200))
        assert retriever.tool(TOOLS[0].id) is None


def test_a_server_that_comes_back_soon_has_its_tools_embedded():
    encoder = OddEncoder(WIDTH)
    with retriever_of(encoder=encoder, settings=PATIENT) as retriever:
        retriever.update(TOOLS[:50])
        del encoder.sent[:]
        retriever.update(TOOLS)
        assert retriever.wait(0)
        assert encoder.sent == []


@pytest.mark.parametrize(
    ("tools", "error", "rule"),
    [
        ([TOOLS[0], TOOLS[0]], ConfigError, "ids of their own, got 'hub/create_mail' twice"),
        ([Tool("a", "a", None, "\ud800")], DataError, "lone surrogate"),
    ],
)
def test_an_update_that_fails_leaves_the_old_tools(tools, error, rule):
    with retriever_of() as retriever:
        expected = scored(retriever.search("create an issue"))
        with pytest.raises(error, match=rule):
            retriever.update(tools)
        assert scored(retriever.search("create an issue")) == expected
        assert retriever.update(TOOLS[:5])


def test_an_update_that_breaks_is_told_and_the_next_one_is_served(monkeypatch):
    with retriever_of() as retriever:
        with monkeypatch.context() as broken:
            broken.setattr("toolheads.retrieval.builder.rebuilt", lambda *_, **__: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                retriever.update(TOOLS[:5])
        assert len(retriever.tools) == len(TOOLS)
        retriever.update(TOOLS[:5])
        assert len(retriever.tools) == 5


def test_the_vectors_of_queries_outlive_a_change_of_tools():
    encoder = OddEncoder(WIDTH)
    with retriever_of(encoder=encoder) as retriever:
        retriever.search("create an issue")
        retriever.update(TOOLS[:20])
        encoder.calls = 0
        assert retriever.search("create an issue").mode == "dense"
        assert encoder.calls == 0


def test_a_conversation_drops_tools_that_are_gone():
    with retriever_of() as retriever:
        first = ids(retriever.search("create an issue", 3, conversation="c"))
        retriever.update([tool for tool in TOOLS if tool.id != first[0]])
        assert ids(retriever.search("create an issue", 3, conversation="c"))[:2] == first[1:]


@pytest.mark.parametrize("settings", [PATIENT, NOW], ids=["rows stay", "rows go"])
def test_searches_during_updates_never_see_a_mix(settings):
    """Two catalogues in turn: each answer is that of one of them, to the bit if its rows stay."""
    one, two = some_tools(1, 0.5), some_tools(2, 0.5)
    catalogues, expected = {}, {}
    for tools in (one, two):
        with retriever_of(tools) as retriever:
            catalogues[retriever.catalogue_digest] = {tool.id for tool in tools}
            for text in QUERIES:
                answer = retriever.search(text, 20)
                expected[answer.catalogue, text] = scored(answer)
    wrong, done, asked = [], threading.Event(), []
    with retriever_of(TOOLS, settings=settings) as retriever:
        for text in QUERIES:
            retriever.search(text)
        retriever.update(one)

        def hammer():
            while not done.is_set():
                for text in QUERIES:
                    answer = retriever.search(text, 20)
                    asked.append(answer.mode)
                    is_whole = settings is PATIENT
                    if not set(ids(answer)) <= catalogues[answer.catalogue]:
                        wrong.append("tools of another catalogue")
                    if is_whole and scored(answer) != expected[answer.catalogue, text]:
                        wrong.append("other scores")

        threads = [threading.Thread(target=hammer) for _ in range(3)]
        for thread in threads:
            thread.start()
        for tools in [two, one] * 6:
            retriever.update(tools)
        done.set()
        for thread in threads:
            thread.join()
    assert asked
    assert wrong == []
    if settings is PATIENT:
        assert set(asked) == {"dense"}


def test_a_search_whose_rows_go_under_it_looks_again_in_the_new_tools(monkeypatch):
    monkeypatch.setattr(indexed, "_FEW", 0)  # so few tools are scored without a search otherwise
    with retriever_of(settings=replace(NOW, candidates=5)) as retriever:
        index, before = retriever._scoring.index, retriever.catalogue_digest
        well, gone = index.search, ids(retriever.search("create an issue", 1))[0]
        left = [tool for tool in TOOLS if tool.id != gone]

        def search(queries, k):
            if retriever.catalogue_digest == before:
                size = len(index)
                retriever.update(left)
                assert soon(lambda: len(index) < size)
            return well(queries, k)

        monkeypatch.setattr(index, "search", search)
        answer = retriever.search("create an issue", 5)
        assert answer.catalogue == retriever.catalogue_digest != before
        with retriever_of(left) as fresh:
            assert scored(answer) == scored(fresh.search("create an issue", 5))
