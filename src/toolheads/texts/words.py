"""Identifiers as words, and texts as words: what views, leak search and keyword search share."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache

_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])"  # getWeather -> get Weather
    r"|(?<=[A-Z])(?=[A-Z][a-z])"  # HTTPServer -> HTTP Server
)
_SEARCH_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])"
    r"|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?![a-z]))"  # listAPIs -> list APIs, not list AP Is
)
_SEPARATORS = re.compile(r"[\W_]+")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+")
_DIGIT = re.compile(r"\d")
_LETTERS = re.compile(r"[^\W\d_]+")
_INNER_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")  # noqa: RUF001
_FOLDED_MARKS = re.compile("[\u0300-\u036f]+")

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\uac00-\ud7a3"  # Hangul: spaced, but its particles hang on the words
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Kana with its marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Scripts whose words cannot be told by spaces: searched by pairs of characters."""

_SCRIPTS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")


def identifier_words(identifier: str) -> str:
    """Spell an identifier as words, in the case it has.

    Splits at separators (`snake_case`, `kebab-case`, `a/b.c`) and at humps (`camelCase`,
    `HTTPServer`). Digits stay with the letters before them, and vowel signs and accents that
    are characters of their own with the letter before them. An identifier without a word
    character, such as `!`, is returned as it is.
    """
    humps = _BOUNDARY.sub(" ", identifier)
    if humps.isascii():
        return _SEPARATORS.sub(" ", humps).strip() or identifier
    return " ".join(_word_runs().findall(humps)) or identifier


def plain_words(text: str) -> list[str]:
    """The words of a text for comparing it with others, without case, accents and punctuation.

    Scripts without spaces give pairs of characters. Identifiers are split at separators only.
    """
    words: list[str] = []
    for run in _runs(_INNER_APOSTROPHE.sub("", text)):
        for piece, is_unspaced in _pieces(run):
            words += _pairs(piece) if is_unspaced else [piece.casefold()]
    return words


def search_terms(text: str, *, with_singles: bool) -> list[str]:
    """The terms of a text for keyword search, with repeats, in order.

    An identifier gives its parts and, since `GitHub` is also written `github`, the whole:
    `oauth2Token` gives `oauth2token`, `oauth2`, `token`, `oauth`. A plural acronym (`APIs`)
    gives its singular too. Scripts without spaces give pairs of characters, or the character
    if it stands alone.

    Args:
        text: Any text.
        with_singles: Give each character of a script without spaces as well. For what is
            searched in, so that a query of one character finds it; not for the query.
    """
    terms: list[str] = []
    for run in _runs(text):
        terms += _terms_of_run(run, with_singles)
    return terms


def search_runs(text: str) -> list[str]:
    """Cut a text into runs of letters and digits, in order, in the case they have.

    `search_terms` of a text are the `run_terms` of its runs, one after the other: whoever reads
    many texts can keep what a run gives.
    """
    return _runs(text)


def run_terms(run: str, *, with_singles: bool) -> tuple[str, ...]:
    """Spell one run of `search_runs` as terms. See `search_terms`."""
    return _terms_of_run(run, with_singles)


@lru_cache(maxsize=1 << 13)  # what people ask for again; a server must not keep every word
def _terms_of_run(run: str, with_singles: bool) -> tuple[str, ...]:
    if run.isascii() and run.isalpha() and (run.islower() or run.istitle()):
        return (run.lower(),)  # what most are; below they would give the same, more slowly
    terms: list[str] = []
    for piece, is_unspaced in _pieces(run):
        if is_unspaced:
            terms += _pairs(piece)
            if with_singles and len(piece) > 1:
                terms += piece
        else:
            terms += _spellings(piece)
    return tuple(terms)


def _spellings(word: str) -> list[str]:
    """The word as one, then what it is made of; each once."""
    parts = _SEARCH_BOUNDARY.sub(" ", word).split()
    smaller = parts if len(parts) > 1 else []
    smaller = smaller + [p[:-1] for p in parts if p.endswith("s") and p[:-1].isupper()]
    if _DIGIT.search(word):
        smaller += [letters for part in parts for letters in _LETTERS.findall(part)]
    return list(dict.fromkeys(x.casefold() for x in [word, *(p for p in smaller if len(p) > 1)]))


def _runs(text: str) -> list[str]:
    """Runs of letters and digits, accents folded away, in the case they have."""
    if text.isascii():
        return _ASCII_RUN.findall(text)
    bare = _FOLDED_MARKS.sub("", unicodedata.normalize("NFKD", text))
    return _word_runs().findall(unicodedata.normalize("NFKC", bare))


def _pieces(run: str) -> list[tuple[str, bool]]:
    """A run cut where the script changes, each piece with whether its script has no spaces."""
    if run.isascii():
        return [(run, False)]
    return [(piece, bool(_IS_UNSPACED.match(piece))) for piece in _SCRIPTS.findall(run)]


def _pairs(piece: str) -> list[str]:
    return [piece[i : i + 2] for i in range(len(piece) - 1)] or [piece]


@cache
def _word_runs() -> re.Pattern[str]:
    r"""Letters and digits of any script, each with the marks on it.

    `\w` has no vowel signs (Thai, Hindi) and no separate accents: alone, it would cut words at
    each of them. A mark on something else, as the variation selector of an emoji, is no word.
    """
    marks = [
        chr(c)
        for c in range(min(sys.maxunicode, 0xFFFF))
        if not 0xFE00 <= c <= 0xFE0F and unicodedata.category(chr(c)) in ("Mn", "Mc")
    ]
    return re.compile(f"(?:[^\\W_][{''.join(marks)}]*)+")
