"""Lexical ranking: tools by the words their fields share with a query. Knows no vector."""

from toolheads.lexical.fields import STOP_WORDS, field_terms, query_terms
from toolheads.lexical.folded import FoldedIndex
from toolheads.lexical.index import FieldedIndex, Match
from toolheads.lexical.settings import (
    FIELD_WEIGHTS,
    FIELDS,
    FieldSettings,
    LexicalSettings,
    Normalise,
)
from toolheads.lexical.stemming import folded_term
from toolheads.lexical.weights import FieldWeights

__all__ = [
    "FIELDS",
    "FIELD_WEIGHTS",
    "STOP_WORDS",
    "FieldSettings",
    "FieldWeights",
    "FieldedIndex",
    "FoldedIndex",
    "LexicalSettings",
    "Match",
    "Normalise",
    "field_terms",
    "folded_term",
    "query_terms",
]
