"""The terms of a corpus, numbered, and which of them a query asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Ids
from toolheads.lexical.fields import query_terms
from toolheads.lexical.settings import Stem
from toolheads.lexical.stemming import folded_term


@dataclass(frozen=True)
class AskedTerms:
    """The terms of one query that the corpus knows, in the order of their numbers.

    The order does not depend on how the query orders its words, and scores are summed in it:
    `send mail` and `mail send` score alike, to the bit.
    """

    numbers: Ids
    """(t,) numbers of the terms, rising."""
    repeats: npt.NDArray[np.float64]
    """(t,) how often the query says each."""
    spellings: tuple[str, ...]
    """(t,) each as the query first spells it, in lower case."""

    def __len__(self) -> int:
        return len(self.spellings)

    @property
    def has_repeats(self) -> bool:
        """Whether the query says a term more than once."""
        return bool((self.repeats > 1).any())


class Vocabulary:
    """Terms and their numbers.

    Args:
        terms: The terms in sorted order, each once; a term's number is its place.
        stem: How the terms were folded.
    """

    def __init__(self, terms: Sequence[str], stem: Stem) -> None:
        self.stem = stem
        self._numbers = {term: number for number, term in enumerate(terms)}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms, sorted."""
        return tuple(self._numbers)

    def asked(self, text: str) -> AskedTerms:
        """Find the terms of a query that the corpus knows."""
        found: dict[int, tuple[int, str]] = {}
        for term in query_terms(text):
            number = self._numbers.get(folded_term(term, self.stem))
            if number is not None:
                repeats, spelling = found.get(number, (0, term))
                found[number] = repeats + 1, spelling
        numbers = sorted(found)
        return AskedTerms(
            np.array(numbers, np.int64),
            np.array([found[number][0] for number in numbers], np.float64),
            tuple(found[number][1] for number in numbers),
        )
