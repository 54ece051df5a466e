import re
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.texts import words
from toolheads.texts.words import identifier_words, plain_words, search_terms


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("create_issue", "create issue"),
        ("getWeatherForecast", "get Weather Forecast"),
        ("HTTPServer", "HTTP Server"),
        ("kebab-case.and/paths", "kebab case and paths"),
        ("oauth2Token", "oauth2 Token"),
        ("__init__", "init"),
        ("!", "!"),
        ("天気_予報", "天気 予報"),
        ("สภาพอากาศ", "สภาพอากาศ"),  # vowel signs are part of the word
        ("हिन्दी_मौसम", "हिन्दी मौसम"),
        ("cafe\u0301_menu", "cafe\u0301 menu"),
        ("⚡\ufe0f_tool", "tool"),
        ("2\ufe0f\u20e3_tools", "2 tools"),  # a digit as an emoji
    ],
)
def test_an_identifier_is_spelled_as_words(identifier, words):
    assert identifier_words(identifier) == words


@given(st.text(min_size=1))
def test_words_of_an_identifier_are_never_empty_and_are_words_already(identifier):
    words = identifier_words(identifier)
    assert words
    assert identifier_words(words) == words


@given(st.text(min_size=1))
def test_no_letter_of_an_identifier_is_lost(identifier):
    kept = [c for c in identifier_words(identifier) if c.isalnum()]
    assert kept == [c for c in identifier if c.isalnum()]


@given(st.text(alphabet="abAB1_-. "))
def test_words_of_an_identifier_have_single_spaces(identifier):
    words = identifier_words(identifier)
    assert words == identifier or not re.search(r"\s\s|^\s|\s$", words)


def test_plain_words_have_no_case_accents_or_punctuation():
    assert plain_words("What's the Menu, at Café-Bar \uff21\uff22?") == [
        *("whats", "the", "menu", "at", "cafe", "bar", "ab")
    ]


def test_plain_words_keep_identifiers_whole():
    assert plain_words("getWeather oauth2_token") == ["getweather", "oauth2", "token"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("create_issue", ["create", "issue"]),
        ("GitHub", ["github", "git", "hub"]),
        ("oauth2Token", ["oauth2token", "oauth2", "token", "oauth"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("list APIs", ["list", "apis", "api"]),
        ("listURLs", ["listurls", "list", "urls", "url"]),
        ("HTTPIsland", ["httpisland", "http", "island"]),
        ("s3 x", ["s3", "x"]),
        ("Ünïcode straße", ["unicode", "strasse"]),
        ("天気予報", ["天気", "気予", "予報"]),
        ("雨", ["雨"]),
        ("カレンダー", ["カレ", "レン", "ンダ", "ダー"]),
        ("날씨 예보를", ["날씨", "예보", "보를"]),
        ("อากาศ", ["อา", "าก", "กา", "าศ"]),
        ("AIツール", ["ai", "ツー", "ール"]),
        ("मौसम", ["मौसम"]),
        ("", []),
        ("!? 😀", []),
    ],
)
def test_search_terms_split_what_people_search_for(text, terms):
    assert search_terms(text, with_singles=False) == terms


def test_what_is_searched_in_has_single_characters_too():
    assert search_terms("大雨", with_singles=True) == ["大雨", "大", "雨"]
    assert search_terms("雨", with_singles=True) == ["雨"]


@pytest.mark.parametrize("text", ["ガス", "가나", "ﬁle", "ｶﾞｽ", "Ångström"])
def test_composed_and_decomposed_text_have_the_same_terms(text):
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert len({tuple(search_terms(form, with_singles=True)) for form in forms}) == 1


@given(st.text())
def test_terms_are_never_empty_and_those_of_a_query_are_terms_of_the_tool(text):
    terms = search_terms(text, with_singles=False)
    assert all(terms)
    assert set(terms) <= set(search_terms(text, with_singles=True))


@given(st.text())
def test_every_letter_makes_a_text_findable(text):
    folded = unicodedata.normalize("NFKD", text)
    if any(c.isalpha() for c in folded):
        assert search_terms(text, with_singles=False)
        assert plain_words(text)


def test_words_that_never_come_again_are_not_kept():
    """A server is asked with new words for as long as it runs."""

    def ask(numbers):
        for number in numbers:
            search_terms(f"word{number} ofOrder{number}", with_singles=True)

    tracemalloc.start()
    try:
        ask(range(10_000))
        before, _ = tracemalloc.get_traced_memory()
        ask(range(10_000, 30_000))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 500_000


@given(st.from_regex(r"[a-zA-Z]?[a-z]{1,12}", fullmatch=True))
def test_a_plain_word_is_its_own_term_as_its_parts_would_say(word):
    assert search_terms(word, with_singles=True) == words._spellings(word) == [word.lower()]
