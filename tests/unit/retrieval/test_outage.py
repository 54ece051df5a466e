from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from tests.unit.retrieval.odd_encoders import OddEncoder
from tests.unit.retrieval.worlds import (
    PATIENT,
    QUICK,
    TOOLS,
    WIDTH,
    WORDS,
    heads_for,
    ids,
    retriever_of,
    scored,
    soon,
)

import toolheads
from toolheads.domain import Tool
from toolheads.errors import EncoderError, IndexStoreError
from toolheads.indexes.numpy_index import NumpyIndex

MOODS = {
    "fails": "refused connection",
    "hangs": "no vector within 0.2 s",
    "nan": "must be finite",
    "narrow": "must have shape",
    "breaks": "RuntimeError: not even an error of ours",
}


@pytest.mark.parametrize("mood", MOODS)
def test_words_answer_while_the_encoder_is_ill_and_vectors_again_when_it_is_well(mood):
    encoder = OddEncoder(WIDTH)
    with retriever_of(encoder=encoder, settings=QUICK) as retriever:
        cached = scored(retriever.search("create an issue"))
        encoder.mood = mood
        answer = retriever.search("list a song")
        assert (answer.mode, ids(answer)[:2]) == ("lexical", ["hub/list_song", "lab/list_song"])
        assert MOODS[mood] in answer.reason
        # The encoder is tried in the background, and left alone if that fails too.
        assert soon(lambda: _asked(retriever) and retriever.status().circuit != "closed")
        status = retriever.status()
        assert (status.ready, status.mode, status.degraded) == (True, "lexical", True)
        assert status.reason
        assert status.encoder_failures >= 1
        assert retriever.is_quick("another text")
        calls = encoder.calls
        for word in WORDS:
            assert retriever.search(f"list {word}").mode == "lexical"
        assert encoder.calls <= calls + 5  # tries of the watch alone
        assert scored(retriever.search("create an issue")) == cached
        encoder.heal()
        assert soon(lambda: not retriever.status().degraded)
        assert retriever.search("list a song").mode == "dense"
        assert retriever.status().reason is None


def _asked(retriever):
    """Two more queries fail, if the first failure was not enough."""
    for text in ("one more", "and another"):
        retriever.search(text)
    return True


def test_a_hanging_encoder_holds_up_nothing_else():
    encoder = OddEncoder(WIDTH)
    settings = replace(PATIENT, workers=2, waiting=2)
    with retriever_of(encoder=encoder, settings=settings) as retriever:
        retriever.search("create an issue")
        encoder.mood = "hangs"
        answers = []
        threads = [
            threading.Thread(target=lambda i=i: answers.append(retriever.search(f"new {i}")))
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        assert soon(lambda: encoder.calls >= 3)
        began = time.monotonic()
        assert retriever.search("create an issue").mode == "dense"
        assert retriever.tool("hub/list_song") is not None
        assert retriever.status().tools == len(TOOLS)
        assert retriever.search("one too many", deadline_s=0.01).mode == "lexical"
        assert retriever.update(TOOLS[:50]).removed
        assert len(retriever.tools) == 50
        assert time.monotonic() - began < 20  # far below the deadline that hangs
        encoder.heal()
        for thread in threads:
            thread.join()
        assert {answer.mode for answer in answers} <= {"dense", "lexical"}


def test_what_was_begun_and_did_not_come_is_answered_by_words_and_counted():
    encoder = OddEncoder(WIDTH)
    settings = replace(PATIENT, deadline_s=0.05)
    with retriever_of(encoder=encoder, settings=settings) as retriever:
        assert retriever.wait(20)
        encoder.mood = "hangs"
        begun = retriever.begin("create an issue")
        begun.wait()
        answer = retriever.search("create an issue", begun=begun)
        assert (answer.mode, answer.reason) == (
            "lexical",
            "the encoder gave no vector within 0.05 s",
        )
        assert retriever.status().encoder_failures == 1
        encoder.heal()


def test_a_query_that_never_got_its_turn_is_no_failure_of_the_encoder():
    encoder = OddEncoder(WIDTH)
    settings = replace(PATIENT, workers=1)
    with retriever_of(encoder=encoder, settings=settings) as retriever:
        encoder.mood, calls = "hangs", encoder.calls
        first = threading.Thread(target=retriever.search, args=("a slow one",))
        first.start()
        assert soon(lambda: encoder.calls > calls)
        answer = retriever.search("behind it", deadline_s=0.01)
        assert "busy with other queries" in answer.reason
        assert retriever.status().encoder_failures == 0
        encoder.heal()
        first.join()


def test_a_query_the_encoder_refuses_does_not_close_it_to_others():
    encoder = OddEncoder(WIDTH)
    with retriever_of(encoder=encoder) as retriever:
        encoder.poison = "cursed"
        for _ in range(2):
            assert retriever.search("a cursed text").mode == "lexical"
            assert retriever.search(f"list songs {time.monotonic()}").mode == "dense"


@pytest.mark.parametrize("error", [EncoderError("refused a text"), RuntimeError("refused a text")])
def test_a_tool_the_encoder_refuses_is_found_by_its_words_and_holds_up_no_other(error):
    encoder = OddEncoder(WIDTH)
    encoder.poison, encoder.poisoned = "cursed", error
    tools = [*TOOLS[:30], Tool("x/cursed_thing", "cursed_thing", "x", "a cursed one")]
    heads = heads_for(OddEncoder(WIDTH))
    with retriever_of(tools, encoder=encoder, heads=heads) as retriever:
        status = retriever.status()
        assert (status.pending, status.degraded, status.mode) == (1, True, "dense")
        assert "refused a text" in status.reason or "cannot be embedded" in status.reason
        encoder.poison = ""
        assert "x/cursed_thing" in ids(retriever.search("that thing, it is cursed", 10))
        retriever.update(TOOLS[:30])
        assert soon(lambda: not retriever.status().degraded)


def test_an_index_that_breaks_in_its_own_way_is_used_again_once_it_works(monkeypatch):
    keys = NumpyIndex.keys
    with retriever_of() as retriever:
        monkeypatch.setattr(NumpyIndex, "keys", lambda _: 1 // 0)
        retriever.update(TOOLS[:30])
        answer = retriever.search("create an issue")
        assert (answer.mode, retriever.status().degraded) == ("lexical", True)
        assert "ZeroDivisionError" in retriever.status().reason
        monkeypatch.setattr(NumpyIndex, "keys", keys)
        assert soon(lambda: retriever.search("create an issue").mode == "dense")
        assert soon(lambda: not retriever.status().degraded)


def test_a_tool_that_failed_while_the_encoder_went_away_for_a_moment_is_embedded_all_the_same():
    class Blinking(OddEncoder):
        blinks = 1

        def encode(self, texts):
            if self.blinks and any("cursed" in text for text in texts):
                self.blinks -= 1
                raise EncoderError("encoder odd must be reachable, got a refused connection")
            return super().encode(texts)

    encoder = Blinking(WIDTH)
    with retriever_of(TOOLS[:30], encoder=encoder, heads=heads_for(OddEncoder(WIDTH))) as retriever:
        retriever.update([*TOOLS[:30], Tool("x/cursed_thing", "cursed_thing", "x", "a cursed one")])
        assert soon(lambda: not encoder.blinks)
        assert soon(lambda: retriever.status().pending == 0)
        assert soon(lambda: not retriever.status().degraded)


def test_an_encoder_that_is_down_at_the_start_is_used_once_it_comes():
    encoder = OddEncoder(WIDTH)
    encoder.mood = "fails"
    with retriever_of(encoder=encoder, filled=False) as retriever:
        answer = retriever.search("list a song")
        assert (answer.mode, ids(answer)[:2]) == ("lexical", ["hub/list_song", "lab/list_song"])
        assert soon(lambda: retriever.status().degraded)
        assert retriever.status().ready
        encoder.heal()
        assert retriever.wait(20)
        assert soon(lambda: retriever.search("list a song").mode == "dense")


def test_a_server_that_cannot_say_what_it_is_yet_is_waited_for_in_the_background(monkeypatch):
    """An encoder over HTTP asks its server for the width of vectors when it is asked what it is."""
    encoder = OddEncoder(WIDTH)
    heads, identity, is_up = heads_for(encoder), encoder.identity, threading.Event()

    def asked(self):
        if not is_up.is_set():
            raise toolheads.EncoderError("encoder odd must be reachable, got nothing")
        return identity

    monkeypatch.setattr(OddEncoder, "identity", property(asked))
    with retriever_of(encoder=encoder, heads=heads, filled=False) as retriever:
        assert soon(lambda: "must be reachable" in str(retriever.status().reason))
        assert retriever.search("list a song").mode == "lexical"
        is_up.set()
        assert retriever.wait(20)
        assert retriever.search("list a song").mode == "dense"


def test_tools_that_come_while_the_encoder_is_down_are_found_by_their_words():
    encoder = OddEncoder(WIDTH)
    with retriever_of(TOOLS[:60], encoder=encoder) as retriever:
        encoder.mood = "fails"
        new = Tool("new/frobnicate_all", "frobnicate_all", "new", "frobnicates")
        retriever.update([*TOOLS[:60], new])
        assert ids(retriever.search("frobnicate"))[0] == new.id
        encoder.heal()
        assert retriever.wait(20)
        answer = retriever.search("frobnicate")
        assert (answer.mode, ids(answer)[0]) == ("dense", new.id)


def test_other_weights_behind_the_same_name_are_found_and_left_alone():
    encoder = OddEncoder(WIDTH)
    settings = replace(PATIENT, check_every_s=0.05)
    with retriever_of(encoder=encoder, settings=settings) as retriever:
        assert retriever.search("create an issue").mode == "dense"
        encoder.swap_weights("two")
        assert soon(lambda: retriever.status().mode == "lexical")
        answer = retriever.search("create an issue")
        assert answer.mode == "lexical"  # the cache is dropped too
        assert "was made with other weights" in answer.reason
        assert retriever.status().degraded
        encoder.swap_weights("one")
        assert soon(lambda: retriever.search("create an issue").mode == "dense")


def test_frozen_vectors_remember_which_weights_made_them(tmp_path):
    (tmp_path / "cat").mkdir()
    toolheads.write_tools(tmp_path / "cat" / "tools.jsonl", TOOLS)
    options = {"scorer": "dense", "folder": tmp_path / "cat"}
    with retriever_of(None, **options):
        pass
    encoder = OddEncoder(WIDTH, weights="two")
    with retriever_of(None, encoder=encoder, filled=False, **options) as retriever:
        assert soon(lambda: retriever.status().degraded)
        assert "other weights" in retriever.status().reason
        assert retriever.search("create an issue").mode == "lexical"


def test_an_index_that_fails_is_left_alone_and_used_again(monkeypatch):
    with retriever_of() as retriever:
        expected = scored(retriever.search("create an issue"))
        index = retriever._scoring.index
        well = type(index).gather

        def broken(self, keys):
            raise IndexStoreError("the store is gone")

        monkeypatch.setattr(type(index), "gather", broken)
        answer = retriever.search("create an issue")
        assert (answer.mode, answer.reason) == ("lexical", "the store is gone")
        assert retriever.status().degraded
        assert retriever.search("create an issue").mode == "lexical"
        monkeypatch.setattr(type(index), "gather", well)
        assert soon(lambda: retriever.search("create an issue").mode == "dense")
        assert scored(retriever.search("create an issue")) == expected
        assert soon(lambda: not retriever.status().degraded)


def test_rows_that_are_lost_are_made_again():
    with retriever_of() as retriever:
        expected = scored(retriever.search("create an issue", 100))
        index = retriever._scoring.index
        lost = sorted(index.keys())[:10]
        index.apply([], index.gather(lost)[:0], lost)
        retriever.search("create an issue", 100)  # finds out
        assert soon(lambda: scored(retriever.search("create an issue", 100)) == expected)


def test_given_tools_are_ranked_by_words_while_the_encoder_is_ill():
    encoder = OddEncoder(WIDTH)
    with retriever_of(encoder=encoder) as retriever:
        encoder.mood = "fails"
        answer = retriever.rank("list a song", TOOLS[:20])
        assert answer.mode == "lexical"
        assert len(answer.hits) == 20
        assert "refused connection" in answer.reason


def test_closing_does_not_wait_for_an_encoder_that_hangs():
    encoder = OddEncoder(WIDTH)
    with retriever_of(encoder=encoder, settings=QUICK) as retriever:
        encoder.mood = "hangs"
        retriever.search("something new")
    with pytest.raises(toolheads.ConfigError, match="got a closed one"):
        retriever.update(TOOLS)
    encoder.heal()
