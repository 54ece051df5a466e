"""Cases that the programs this was modelled on answered, where a folder of them is at hand.

`TOOLHEADS_CONFORMANCE` names the folder. Where we mean to differ is listed here, case by case, and
in docs/compatibility.md, whose counts `benchmarks/compatibility/table.py` reads off these tests.
"""

import json
import os
from pathlib import Path

import pytest

from toolheads.domain import Tool
from toolheads.rerank import (
    KeywordIndex,
    KeywordSettings,
    RerankSettings,
    latest_user_text,
    mentioned,
    rerank,
)
from toolheads.rerank.keyword import idf_of
from toolheads.rerank.llm.reply import read_names
from toolheads.rerank.words import ascii_words, with_parts

FOLDER = os.environ.get("TOOLHEADS_CONFORMANCE", "")

OTHER_REPLIES = {
    "fence-one-line": ["create_sketch"],
    "fence-one-line-json": ["create_sketch"],
    "truncated": ["create_sketch"],
    "truncated-2": ["create_sketch"],
    "object-two-arrays": ["create_sketch"],
    "array-of-objects": ["create_sketch", "pad_sketch"],
    "nested-array": ["create_sketch", "pad_sketch"],
    "single-quotes": ["create_sketch", "pad_sketch"],
    "trailing-comma": ["create_sketch", "pad_sketch"],
    "footnote-first": ["create_sketch"],
    "bracket-prose-first": ["create_sketch"],
    "think-block": ["create_sketch"],
    "wrong-case": ["create_sketch"],
    "padded-name": ["create_sketch"],
    "number-array-then-names": ["create_sketch"],
}
"""What we read where the original reads nothing."""

OTHER_MENTIONS = {"mixed-case-name-never-matches": ["getStockPrice"]}


def read(name):
    if not FOLDER:
        return {"cases": [], "catalogs": {}, "stopwords": [], "valid": [], "queries": []}
    return json.loads((Path(FOLDER) / name).read_text(encoding="utf-8"))


def cases(name):
    listed = read(name)["cases"]
    return pytest.mark.parametrize(
        "case", listed, ids=[str(case.get("id", i)) for i, case in enumerate(listed)]
    )


pytestmark = pytest.mark.skipif(
    not FOLDER, reason="needs TOOLHEADS_CONFORMANCE, a folder of conformance cases"
)


def stop_words():
    return frozenset(read("keyword_tokenize.json")["stopwords"])


def tools_of(pairs):
    return [Tool(f"#{i}", name, description=text) for i, (name, text) in enumerate(pairs)]


def plain(case, **settings):
    return RerankSettings(
        top_n=15 if case["top_n"] is None else case["top_n"],
        pinned=case["pinned"] or (),
        keyword=KeywordSettings.plain(stop_words()),
        **settings,
    )


@cases("keyword_tokenize.json")
def test_ascii_words(case):
    words = ascii_words(case["text"], stop_words())
    assert (words, with_parts(words, stop_words())) == (case["tokens"], case["expanded"])


@cases("keyword_idf.json")
def test_idf(case):
    assert idf_of(case["docs"]) == pytest.approx(case["idf"], abs=1e-15)


@cases("keyword_rerank.json")
def test_plain_keyword(case):
    tools = tools_of(read("keyword_rerank.json")["catalogs"][case["catalog"]])
    settings = plain(case, method="keyword", mentions="none")
    chosen = rerank(tools, case["query"], settings=settings)
    assert list(chosen.names) == case["expected"]
    pinned = set(case["pinned"] or ())
    rows = [row for row, tool in enumerate(tools) if tool.name not in pinned]
    scores = KeywordIndex(tools, settings.keyword).scores(case["query"] or "", rows)
    assert [[tools[row].name, scores[row]] for row in rows] == [
        [name, pytest.approx(score, abs=1e-8)] for name, score in case["scores"]
    ]


@cases("keyword_rerank_explicit.json")
def test_mentions(case, record_property):
    tools = tools_of(read("keyword_rerank_explicit.json")["catalogs"][case["catalog"]])
    settings = plain(case, method="keyword", mentions="words")
    rows = mentioned(tools, case["query"], mentions="words")
    names = [tools[row].name for row in rows]
    if case["id"] in OTHER_MENTIONS:
        record_property("differs", case["id"])
        assert names == OTHER_MENTIONS[case["id"]]
        return
    assert names == case["mentions"]
    assert list(rerank(tools, case["query"], settings=settings).names) == case["expected"]


def test_a_tie_is_a_tie():
    case = read("keyword_tie_hazard.json")
    tools = tools_of(case["tools"])
    chosen = rerank(tools, case["query"], "keyword", top_n=case["top_n"])
    assert list(chosen.names) == case["expected_by_the_documented_rule"]


@cases("latest_user_text.json")
def test_the_text_that_is_ranked_on(case):
    assert latest_user_text(case["messages"]) == case["expected"]


@cases("llm_rerank_parse.json")
def test_replies(case, record_property):
    if case["id"] in OTHER_REPLIES:
        record_property("differs", case["id"])
    expected = OTHER_REPLIES.get(case["id"], case["expected"])
    assert read_names(case["text"], read("llm_rerank_parse.json")["valid"]) == expected


class Scripted:
    def __init__(self, case):
        self.case, self.calls = case, []

    def send(self, messages, *, system, reply_schema=None):
        self.calls.append((messages, system))
        if self.case["raises"] is not None:
            raise OSError(self.case["raises"])
        return self.case["reply"]


@cases("llm_rerank.json")
def test_llm(case):
    tools = tools_of(read("llm_rerank.json")["catalogs"][case["catalog"]])
    chat = Scripted(case) if case["client"] else None
    settings = plain(case, method="llm", mentions="none")
    chosen = rerank(tools, case["query"], chat=chat, settings=settings)
    calls = chat.calls if chat else []
    assert list(chosen.names) == case["expected"]
    assert (len(calls), len(chosen.report.notes)) == (case["calls"], case["report_lines"])
    for messages, system in calls:
        ((prompt,), pinned) = ([m["content"] for m in messages], set(case["pinned"] or ()))
        assert "JSON" in system
        assert case["query"] in prompt
        assert str(settings.top_n) in prompt
        for tool in tools:
            assert (f"- {tool.name}: {tool.description}" in prompt) != (tool.name in pinned)


@pytest.mark.parametrize(("decoys", "least"), [(0, 29), (1, 29), (5, 28)])
@pytest.mark.parametrize("name", ["a_helper", "universal_assistant", "zz_helper"])
@pytest.mark.parametrize("kind", ["long", "short"])
def test_stuffed_tools_do_not_come_first(decoys, least, name, kind):
    probe = read("stuffing_probe.json")
    catalogues = read("keyword_rerank.json")["catalogs"]
    text = probe["decoys"][kind][1]
    stuffed = [(f"{name}_{i}" if i else name, text) for i in range(decoys)]
    tools = tools_of([*stuffed, *catalogues["cad"], *catalogues["office"]])
    first = [rerank(tools, q["query"], "keyword", top_n=1).names[0] for q in probe["queries"]]
    assert sum(a == q["gold"] for a, q in zip(first, probe["queries"], strict=True)) >= least


def test_the_defaults_do_not_show_what_the_alphabet_puts_first():
    case = next(c for c in read("keyword_rerank.json")["cases"] if c["id"] == "aaa-decoy")
    tools = tools_of(read("keyword_rerank.json")["catalogs"]["aaa"])
    chosen = rerank(tools, case["query"], "keyword", top_n=3)
    assert "aaa_decoy" not in chosen.names
    assert not chosen.report.matched
