"""Identifiers as words: what the encoder's views and the keyword scorer have in common."""

from __future__ import annotations

import re

_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])"  # getWeather -> get Weather
    r"|(?<=[A-Z])(?=[A-Z][a-z])"  # HTTPServer -> HTTP Server
)
_SEPARATORS = re.compile(r"[\W_]+")


def identifier_words(identifier: str) -> str:
    """Spell an identifier as words, in the case it has.

    Splits at separators (`snake_case`, `kebab-case`, `a/b.c`) and at humps (`camelCase`,
    `HTTPServer`). Digits stay with the letters before them. An identifier without a word
    character, such as `!`, is returned as it is.
    """
    words = _SEPARATORS.sub(" ", _BOUNDARY.sub(" ", identifier)).strip()
    return words or identifier
