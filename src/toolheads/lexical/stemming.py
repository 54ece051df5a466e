"""A light English stemmer: folds the endings that differ between a request and a tool.

People ask for `meetings`, tools offer `create_meeting`. Only endings of inflection are folded
(plural, -ing, -ed), never those that make another word (-er, -tion): in names of tools `search`
and `searcher` are two things. What comes out is for matching and need be no word.
"""

from __future__ import annotations

import re
from functools import lru_cache

from toolheads.lexical.settings import Stem

_ENGLISH = re.compile("[a-z]{4,}")
_VOWEL = re.compile("[aeiouy]")
_DOUBLED = re.compile(r"([bdfgmnprt])\1$")
_AS_THEY_ARE = frozenset(["alias", "atlas", "bias", "canvas", "news"])
"""Words that only look like plurals, and whose fold would be another word or miss its plural."""


def folded_term(term: str, stem: Stem) -> str:
    """Fold a term of `search_terms` for matching.

    Terms with digits, of fewer than four letters or of other scripts stay as they are.
    """
    return _light(term) if stem == "light" else term


@lru_cache(maxsize=1 << 13)  # as many as `texts.words` keeps, for the same reason
def _light(term: str) -> str:
    if not _ENGLISH.fullmatch(term) or term in _AS_THEY_ARE:
        return term
    return _ending(_inflection(_plural(term)))


def _plural(word: str) -> str:
    """After the S stemmer of Harman (1991), How effective is suffixing?; -is stays too.

    There, -aes, -ees and -oes stay as they are. Here, they lose the s: `employees`, `heroes`.
    """
    if word.endswith("ies") and not word.endswith(("aies", "eies")):
        return f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith(("is", "ss", "us")):
        return word[:-1]
    return word


def _inflection(word: str) -> str:
    """-ing and -ed go where a word of at least three letters with a vowel is left."""
    if word.endswith("ied"):
        return f"{word[:-3]}y"
    for suffix in ("ing", "ed"):
        rest = word.removesuffix(suffix)
        if rest != word and not word.endswith("eed") and len(rest) > 2 and _VOWEL.search(rest):
            return _DOUBLED.sub(r"\1", rest)
    return word


def _ending(word: str) -> str:
    """`create` and `creating`, `city` and `cities`, `movie` and `movies` end alike."""
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("y"):
        word = f"{word[:-1]}i"
    return word
