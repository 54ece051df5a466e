"""Clauses of a query: one with three errands is three clauses.

Punctuation and line breaks end a clause in any script; a few connectives of the languages that
queries come in do too, but only where both sides are long enough to be an errand of their own.
"""

from __future__ import annotations

import re

MOST_CLAUSES = 12
"""Clauses beyond this many are dropped: each costs one text of the encoder."""

_LEAST_LETTERS = 8
_LEAST_WORDS = 3
"""A shorter piece names no errand; it stays with the piece before it."""

_BREAKS = re.compile(
    r"\n+"
    r"|(?<=[.!?;])\s+"  # the full stop must be followed by space: 3.5, a.txt, e.g.
    r"|(?<=[。！？；])"  # noqa: RUF001  no space follows these
    r"|,\s+(?:and\s+)?(?:then|also|finally|next|after\s+that|afterwards)\b[\s,]*"
    # Bounded, since a long run of spaces would be tried in full from each of its characters.
    r"|\s{1,64}and\s+(?:then|also|finally)\s+"
    r"|,\s+and\s+"
    r"|，\s*(?:然后|并且|并|再|接着|最后)"  # noqa: RUF001
    r"|,?\s{1,64}(?:und\s+dann|sowie|et\s+ensuite|puis|y\s+luego|y\s+después|e\s+depois)\s+",
    re.IGNORECASE,
)


def split_clauses(text: str) -> list[str]:
    """Split a query into its clauses.

    Returns:
        At most `MOST_CLAUSES` stripped, non-empty texts in order. Empty when the query is one
        clause only: the whole text is a view of its own and need not be encoded twice.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for end, resume in [*(m.span() for m in _BREAKS.finditer(text)), (len(text), len(text))]:
        piece = text[start:end].strip(" \t,;")
        if piece and spans and not _is_errand(piece):
            spans[-1] = spans[-1][0], end
        elif piece:
            spans.append((start, end))
        start = resume
    clauses = [text[a:b].strip(" \t,;") for a, b in spans]
    return clauses[:MOST_CLAUSES] if len(clauses) > 1 else []


def _is_errand(piece: str) -> bool:
    """Scripts without spaces between words say more with each character."""
    letters = sum(map(str.isalnum, piece))
    if piece.isascii():
        return letters >= _LEAST_LETTERS and len(piece.split()) >= _LEAST_WORDS
    return letters >= _LEAST_LETTERS // 2
