"""BM25 in numbers: how rare a term is, and what an entry is worth. Knows no text.

The score of a term in a field is Lucene's, as in Kamphuis et al. (2020), Which BM25 Do You Mean?,
table 1, "Lucene (accurate)": idf * tf / (tf + k1 * (1 - b + b * length / average)) with
idf = ln(1 + (n - df + 0.5) / (df + 0.5)), where average is over the tools whose field has a term.

BM25F is that of Zaragoza et al. (2004), Microsoft Cambridge at TREC-13, section 2: the weighted
sum over fields of tf / (1 - b + b * length / average) takes the place of tf, and saturates as
tf / (k1 + tf).
"""

from __future__ import annotations

import numpy as np

from toolheads.arrays import Bools, Floats
from toolheads.lexical.normalisation import Doubles
from toolheads.lexical.postings import Postings
from toolheads.lexical.settings import LexicalSettings


def first_entries(postings: Postings) -> Bools:
    """(e,) true at the first entry of each term and tool."""
    starts = np.ones(len(postings.rows), np.bool_)
    starts[1:] = postings.rows[1:] != postings.rows[:-1]
    starts[postings.bounds[:-1]] = True
    return starts


def idf_of(postings: Postings, starts: Bools, settings: LexicalSettings) -> Floats:
    """How rare each term is, in nats.

    Args:
        postings: t terms in f fields.
        starts: See `first_entries`.
        settings: Says whether the tools are counted or the fields.

    Returns:
        (t, 1) float32, or (t, f) for the idf of fields; 0 where a field has not the term.
    """
    t, (n, f) = len(postings.terms), postings.lengths.shape
    term = _terms(postings)
    if settings.idf == "tool":
        having = np.bincount(term[starts], minlength=t)[:, None]  # (t, 1)
        size = np.array([n])
    else:
        having = np.bincount(term * f + postings.fields, minlength=t * f).reshape(t, f)
        size = (postings.lengths > 0).sum(axis=0)  # (f,)
    idf = np.log(1 + (size - having + 0.5) / (having + 0.5))
    return np.where(having > 0, idf, 0.0).astype(np.float32)


def values_of(postings: Postings, idf: Floats, settings: LexicalSettings) -> Floats:
    """What each entry is worth before fields are weighed.

    Args:
        postings: e entries.
        idf: See `idf_of`.
        settings: The formula.

    Returns:
        (e,) float32: scores of one term in one field, or for BM25F, whose fields saturate
        together, frequencies that are comparable over lengths.
    """
    used = (postings.lengths > 0).sum(axis=0)  # (f,)
    average = np.divide(postings.lengths.sum(axis=0), used, out=np.ones(len(used)), where=used > 0)
    b = np.array([f.b for f in settings.fields])
    longer = ((1 - b) + b * postings.lengths / average)[postings.rows, postings.fields]  # (e,)
    if settings.combine == "bm25f":
        frequencies: Floats = (postings.counts / longer).astype(np.float32)
        return frequencies
    k1 = np.array([f.k1 for f in settings.fields])[postings.fields]
    share = postings.counts / (k1 * longer + postings.counts)
    column = postings.fields if settings.idf == "field" else 0
    scores: Floats = (idf[_terms(postings), column] * share).astype(np.float32)
    return scores


def saturated(frequencies: Doubles, idf: Floats, k1: float) -> Doubles:
    """(...) float64 idf * tf / (k1 + tf); 0 where the frequency is 0, whatever k1."""
    share = np.zeros_like(frequencies)
    np.divide(frequencies, k1 + frequencies, out=share, where=frequencies > 0)
    scores: Doubles = idf * share
    return scores


def _terms(postings: Postings) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(e,) the number of the term of each entry."""
    return np.repeat(np.arange(len(postings.terms)), np.diff(postings.bounds))
