"""Counts of a corpus after some tools came, changed or went, without reading the others again."""

from __future__ import annotations

import numpy as np

from toolheads.arrays import Ids
from toolheads.lexical.postings import Postings


def changed(old: Postings, places: Ids, new: Postings, new_places: Ids) -> Postings:
    """Join the counts of tools that stay with those of tools that come.

    Args:
        old: Counts of n tools.
        places: (n,) the new row of each, rising; -1 for a tool that goes.
        new: Counts of m tools, in the same fields and folded the same way.
        new_places: (m,) the new row of each, rising.

    Returns:
        What `counted` gives for all tools in their new order, array for array. The new rows must
        be 0 to their number.
    """
    size, f = int((places >= 0).sum()) + len(new_places), old.lengths.shape[1]
    row = places[old.rows]
    stays = row >= 0  # (e,)
    term = np.repeat(np.arange(len(old.terms)), np.diff(old.bounds))[stays]
    is_used = np.bincount(term, minlength=len(old.terms)) > 0
    used = [t for t, is_kept in zip(old.terms, is_used.tolist(), strict=True) if is_kept]
    terms = sorted({*used, *new.terms})
    numbers = {t: number for number, t in enumerate(terms)}
    of_old = np.zeros(len(old.terms), np.int64)
    of_old[is_used] = [numbers[t] for t in used]
    of_new = np.array([numbers[t] for t in new.terms], np.int64)

    def keys(term: Ids, row: Ids, field: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Ids:
        of_entries: Ids = (term * size + row) * f + field
        return of_entries

    old_keys = keys(of_old[term], row[stays], old.fields[stays])
    new_terms = of_new[np.repeat(np.arange(len(new.terms)), np.diff(new.bounds))]
    new_rows = new_places[new.rows]
    new_keys = keys(new_terms, new_rows, new.fields)
    order = np.argsort(new_keys)
    at = np.searchsorted(old_keys, new_keys[order])
    lengths = np.zeros((size, f), np.int32)
    lengths[places[places >= 0]] = old.lengths[places >= 0]
    lengths[new_places] = new.lengths
    whole = np.insert(of_old[term], at, new_terms[order])
    bounds = np.zeros(len(terms) + 1, np.int64)
    np.cumsum(np.bincount(whole, minlength=len(terms)), out=bounds[1:])
    return Postings(
        tuple(terms),
        bounds,
        np.insert(row[stays], at, new_rows[order]).astype(np.int32),
        np.insert(old.fields[stays], at, new.fields[order]),
        np.insert(old.counts[stays], at, new.counts[order]),
        lengths,
    )
