"""Which term stands how often in which field of which tool: integers only, no setting of a score.

Entries are sorted by term, tool and field, so that the entries of one term are one slice, and
those of one term and tool are neighbours.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Ids
from toolheads.domain import Tool
from toolheads.errors import ShapeError
from toolheads.lexical.fields import STOP_WORDS, field_parts
from toolheads.lexical.settings import Stem
from toolheads.lexical.stemming import folded_term
from toolheads.texts.words import run_terms, search_runs

Rows = npt.NDArray[np.int32]
FieldNumbers = npt.NDArray[np.uint8]

_ARRAYS: Mapping[str, Any] = {
    "terms": np.uint8,
    "bounds": np.int64,
    "rows": np.int32,
    "fields": np.uint8,
    "counts": np.int32,
    "lengths": np.int32,
}


@dataclass(frozen=True)
class Postings:
    """Counts of t terms in f fields of n tools, as e entries."""

    terms: tuple[str, ...]
    """(t,) sorted."""
    bounds: Ids
    """(t + 1,) entries bounds[i]:bounds[i + 1] are those of term i."""
    rows: Rows
    """(e,) the tool, rising within a term."""
    fields: FieldNumbers
    """(e,) the field, rising within a term and tool."""
    counts: npt.NDArray[np.int32]
    """(e,) how often the term stands there, >= 1."""
    lengths: npt.NDArray[np.int32]
    """(n, f) terms of each field of each tool, repeats counted."""

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays to be saved, the terms as UTF-8 bytes with a line for each."""
        text = "".join(f"{term}\n" for term in self.terms).encode()
        arrays = {name: getattr(self, name) for name in _ARRAYS if name != "terms"}
        return {"terms": np.frombuffer(text, np.uint8), **arrays}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Postings:
        """Read what `to_arrays` gave.

        Raises:
            ShapeError: If an array is missing, or does not fit the others.
        """
        for name, dtype in _ARRAYS.items():
            if name not in arrays or arrays[name].dtype != dtype:
                got = f"dtype {arrays[name].dtype}" if name in arrays else "none"
                msg = f"{name} must be an array of {np.dtype(dtype)}, got {got}"
                raise ShapeError(msg)
        plain = {name: arrays[name] for name in _ARRAYS}
        try:
            lines = plain.pop("terms").tobytes().decode()
        except UnicodeDecodeError as e:
            msg = f"terms must be UTF-8, got something else at byte {e.start}"
            raise ShapeError(msg) from e
        postings = cls(tuple(lines.split("\n")[:-1]), **plain)
        postings._check()
        return postings

    def _check(self) -> None:
        n, f = self.lengths.shape if self.lengths.ndim == 2 else (-1, -1)
        entries = self.rows.shape
        rules = {
            "terms must be sorted, each once": all(
                a < b for a, b in zip(self.terms, self.terms[1:], strict=False)
            ),
            "lengths must have shape (n, f) and be >= 0": n >= 0 and not (self.lengths < 0).any(),
            "rows, fields and counts must have one shape (e,)": (
                len(entries) == 1 and self.fields.shape == self.counts.shape == entries
            ),
            "bounds must rise by at least one for each term, from 0 to the entries": (
                self.bounds.shape == (len(self.terms) + 1,)
                and self.bounds[0] == 0
                and self.bounds[-1] == entries[0]
                and bool((np.diff(self.bounds) > 0).all())
            ),
        }
        for rule, is_kept in rules.items():
            if not is_kept:
                msg = f"{rule}, got arrays that do not fit; build the index again"
                raise ShapeError(msg)
        keys = self.rows.astype(np.int64) * f + self.fields  # (e,)
        starts = np.zeros(entries, np.bool_)
        starts[self.bounds[:-1]] = True
        is_inside = (self.rows >= 0) & (self.rows < n) & (self.fields < f) & (self.counts > 0)
        if not is_inside.all() or not (starts[1:] | (np.diff(keys) > 0)).all():
            msg = "rows and fields must rise within each term and exist, got others; build it again"
            raise ShapeError(msg)


def counted(tools: Sequence[Tool], fields: Sequence[str], stem: Stem) -> Postings:
    """Count the terms of each field of each tool.

    Args:
        tools: n tools, which may be none.
        fields: f names out of `FIELDS`.
        stem: How terms are folded.
    """
    numbering: dict[str, int] = {}
    of_names = _Numbers(numbering, stem, keeps_stop_words=True)
    of_prose = _Numbers(numbering, stem, keeps_stop_words=False)
    numbers = array("i")
    lengths = np.zeros((len(tools), len(fields)), np.int32)
    for row, tool in enumerate(tools):
        for column, field in enumerate(fields):
            before = len(numbers)
            for text, keeps_stop_words in field_parts(tool, field):
                of_runs = of_names if keeps_stop_words else of_prose
                numbers.extend(chain.from_iterable(map(of_runs.__getitem__, search_runs(text))))
            lengths[row, column] = len(numbers) - before
    terms = sorted(numbering)
    # From the order of first sight to alphabetical: what a tool scores must not depend on the
    # order of the others.
    place = np.empty(len(terms), np.int64)
    place[[numbering[term] for term in terms]] = np.arange(len(terms))
    slots = np.repeat(np.arange(lengths.size), lengths.ravel())  # row * f + field of each term
    keys = place[np.frombuffer(numbers, np.int32)] * lengths.size + slots if terms else slots
    unique, counts = np.unique(keys, return_counts=True)  # (e,)
    of_term, slots = np.divmod(unique, max(1, lengths.size))
    rows, columns = np.divmod(slots, max(1, len(fields)))
    return Postings(
        tuple(terms),
        np.searchsorted(of_term, np.arange(len(terms) + 1)).astype(np.int64),
        rows.astype(np.int32),
        columns.astype(np.uint8),
        counts.astype(np.int32),
        lengths,
    )


class _Numbers(dict[str, tuple[int, ...]]):
    """Run of letters → the numbers of its terms, worked out when a run is first met."""

    def __init__(self, numbering: dict[str, int], stem: Stem, *, keeps_stop_words: bool) -> None:
        super().__init__()
        self._numbering = numbering
        self._stem = stem
        self._keeps_stop_words = keeps_stop_words

    def __missing__(self, run: str) -> tuple[int, ...]:
        numbering = self._numbering
        numbers = self[run] = tuple(
            numbering.setdefault(folded_term(term, self._stem), len(numbering))
            for term in run_terms(run, with_singles=True)
            if self._keeps_stop_words or term not in STOP_WORDS
        )
        return numbers
