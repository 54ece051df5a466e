"""A lexical index over the fields of tools, exact, with numpy alone.

Sums are float64, in the alphabetical order of the terms, over impacts kept in float32. So what a
tool scores depends on the query and on the set of tools, not on other queries, nor on the order
of words or tools, and equal tools score alike, to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from toolheads.arrays import Bools, Floats, Ids
from toolheads.domain import Tool
from toolheads.errors import ConfigError, ShapeError
from toolheads.lexical.changes import changed
from toolheads.lexical.folded import FoldedIndex, added_up
from toolheads.lexical.formula import first_entries, idf_of, saturated, values_of
from toolheads.lexical.normalisation import Doubles, mass_of, normalised
from toolheads.lexical.postings import FieldNumbers, Postings, counted
from toolheads.lexical.settings import LexicalSettings, Normalise
from toolheads.lexical.spans import Spans
from toolheads.lexical.vocabulary import AskedTerms, Vocabulary
from toolheads.lexical.weights import FieldWeights, checked_rows, checked_weights

_ALL = slice(None)


@dataclass(frozen=True)
class Match:
    """What one word of a query adds to the score of one tool through one field."""

    term: str
    """As the query spells it, in lower case."""
    field: str
    score: float
    """Its part of the weighted score, > 0."""
    share: float
    """Its part of the weighted score as a fraction; those of a tool add up to 1."""


class FieldedIndex:
    """Scores tools by the words that their fields share with a query.

    Never changes once it is built, so threads may share it.

    Args:
        tools: n tools, which may be none.
        settings: Fields, folding and formula.
    """

    def __init__(self, tools: Sequence[Tool], settings: LexicalSettings | None = None) -> None:
        settings = settings or LexicalSettings()
        self._fill(counted(tools, settings.names, settings.stem), settings)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> FieldedIndex:
        """Read what `to_arrays` gave.

        Raises:
            ShapeError: If an array is missing or does not fit the others.
            ConfigError: If the settings break their rule.
        """
        try:
            settings = LexicalSettings.from_json(json.loads(arrays["settings"].tobytes()))
        except (KeyError, UnicodeDecodeError, json.JSONDecodeError) as e:
            msg = f"settings must be JSON bytes, got {e!r:.80}"
            raise ShapeError(msg) from e
        postings = Postings.from_arrays(arrays)
        if postings.lengths.shape[1] != len(settings.fields):
            msg = f"lengths must have {len(settings.fields)} columns, got {postings.lengths.shape}"
            raise ShapeError(msg)
        return cls._of(postings, settings)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays to be saved: counts and settings; impacts are worked out on reading."""
        settings = json.dumps(self._settings.to_json()).encode()
        return {"settings": np.frombuffer(settings, np.uint8), **self._postings.to_arrays()}

    def with_settings(self, settings: LexicalSettings) -> FieldedIndex:
        """The same tools under another formula, without reading their texts again.

        Raises:
            ConfigError: If the fields or the stem differ, which takes the texts.
        """
        own, other = self._settings, settings
        if (own.names, own.stem) != (other.names, other.stem):
            msg = (
                f"settings must have the fields {', '.join(own.names)} and stem {own.stem}, got "
                f"{', '.join(other.names)} and {other.stem}; build another index"
            )
            raise ConfigError(msg)
        return self._of(self._postings, settings)

    def changed(self, places: Ids, tools: Sequence[Tool], new_places: Ids) -> FieldedIndex:
        """The index of other tools, reading the texts of those alone that are new.

        Args:
            places: (n,) the new row of each tool, rising; -1 for one that goes.
            tools: m tools that come.
            new_places: (m,) their rows, rising.

        Returns:
            What `FieldedIndex` makes of all tools in their new order, to the bit.
        """
        new = counted(tools, self._settings.names, self._settings.stem)
        return self._of(changed(self._postings, places, new, new_places), self._settings)

    @property
    def settings(self) -> LexicalSettings:
        """Fields, folding and formula."""
        return self._settings

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the f fields."""
        return self._settings.names

    def __len__(self) -> int:
        return len(self._postings.lengths)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays; the vocabulary comes on top."""
        p = self._postings
        arrays = (p.bounds, p.rows, p.fields, p.counts, p.lengths)
        return sum(a.nbytes for a in (*arrays, self._values, self._starts, self._idf))

    def scores(self, texts: Sequence[str], *, normalise: Normalise = "none") -> Floats:
        """Score each field of every tool for each text, as if it were the only one.

        Args:
            texts: q queries.
            normalise: By what each field is divided, see `normalisation.normalised`.

        Returns:
            (q, n, f) float32, finite, >= 0; 0 where no word is shared.
        """
        out = np.empty((len(texts), *self._postings.lengths.shape), np.float32)
        for row, text in enumerate(texts):
            asked = self._vocabulary.asked(text)
            out[row] = normalised(self._of_fields(asked), mass=self._masses(asked), by=normalise)
        return out

    def scores_of(self, text: str, rows: npt.ArrayLike, *, normalise: Normalise = "none") -> Floats:
        """Score each field of a few tools, to the bit as `scores` does.

        Args:
            text: The query.
            rows: (r,) whole numbers, rows of the tools, in any order.
            normalise: By what each field is divided; `best` is the best of the whole corpus.

        Returns:
            (r, f) float32.

        Raises:
            ShapeError: If a row is not of the corpus.
        """
        wanted = checked_rows(rows, len(self))
        asked = self._vocabulary.asked(text)
        if normalise == "best":
            found = normalised(self._of_fields(asked), mass=self._masses(asked), by=normalise)
            return found[wanted].astype(np.float32)
        unique, inverse = np.unique(wanted, return_inverse=True)
        found = self._of_fields(asked, unique)
        found = normalised(found, mass=self._masses(asked), by=normalise)
        return found[inverse].astype(np.float32)

    def weighted(
        self, texts: Sequence[str], weights: FieldWeights, *, normalise: Normalise = "none"
    ) -> Floats:
        """Score every tool for each text by all fields together.

        For weights that stay the same, `folded` is faster.

        Args:
            texts: q queries.
            weights: The weight of each field.
            normalise: By what the scores of a query are divided, see `normalisation.normalised`.

        Returns:
            (q, n) float32, finite, >= 0; 0 where no word is shared.

        Raises:
            ConfigError: If a weight is of no field, negative, or not finite.
        """
        of_fields = checked_weights(weights, self.fields)
        out = np.empty((len(texts), len(self)), np.float32)
        for row, text in enumerate(texts):
            asked = self._vocabulary.asked(text)
            spans = Spans(asked.numbers, self._postings.bounds)
            starts = spans.of(self._starts)
            terms = spans.each(np.arange(len(asked)))[starts]  # (p,)
            impacts = self._folded_impacts(
                spans.of(self._values),
                spans.of(self._postings.fields),
                starts,
                asked.numbers[terms],
                of_fields,
            )
            added = added_up(
                spans.of(self._postings.rows)[starts],
                impacts,
                asked.repeats[terms] if asked.has_repeats else None,
                len(self),
            )
            mass = mass_of(asked.repeats, self._most(of_fields, asked.numbers))
            out[row] = normalised(added, mass=mass, by=normalise)
        return out

    def folded(self, weights: FieldWeights) -> FoldedIndex:
        """The index for these weights alone: smaller and faster, the scores of `weighted`.

        Raises:
            ConfigError: If a weight is of no field, negative, or not finite.
        """
        of_fields = checked_weights(weights, self.fields)
        p = self._postings
        terms = np.repeat(np.arange(len(p.terms)), np.diff(p.bounds))[self._starts]  # (p,)
        impacts = self._folded_impacts(self._values, p.fields, self._starts, terms, of_fields)
        is_kept = impacts > 0  # a field of weight 0 leaves nothing to add
        return FoldedIndex(
            self._vocabulary,
            bounds=np.searchsorted(terms[is_kept], np.arange(len(p.terms) + 1)),
            rows=p.rows[self._starts][is_kept],
            impacts=impacts[is_kept],
            most=self._most(of_fields),
            size=len(self),
        )

    def explain(self, text: str, row: int, weights: FieldWeights | None = None) -> list[Match]:
        """Say which words of a query a tool has, where, and what each is worth.

        Args:
            text: The query.
            row: The tool.
            weights: The weight of each field; None weighs all 1.

        Returns:
            What adds to the weighted score, the most first; none if no word is shared.

        Raises:
            ConfigError: If a weight is of no field, negative, or not finite.
            ShapeError: If the row is not of the corpus.
        """
        (row,) = checked_rows([row], len(self)).tolist()
        of_fields = checked_weights(
            [1.0] * len(self.fields) if weights is None else weights, self.fields
        )
        asked = self._vocabulary.asked(text)
        found: list[tuple[str, str, float]] = []
        for number, repeats, spelling in zip(
            asked.numbers.tolist(), asked.repeats.tolist(), asked.spellings, strict=True
        ):
            start, stop = self._postings.bounds[number : number + 2].tolist()
            first, last = np.searchsorted(self._postings.rows[start:stop], [row, row + 1])
            own = slice(start + int(first), start + int(last))
            columns = self._postings.fields[own]
            parts = self._values[own] * of_fields[columns]  # (fields with the term,) float64
            if self._settings.combine == "bm25f":
                total = parts.sum(keepdims=True)
                of_all = saturated(total, self._idf[number], self._k1)
                parts = np.divide(parts * of_all, total, out=np.zeros_like(parts), where=total > 0)
            found += [
                (spelling, self.fields[column], float(part) * repeats)
                for column, part in zip(columns.tolist(), parts, strict=True)
                if part > 0
            ]
        whole = sum(score for _, _, score in found)
        ordered = sorted(found, key=lambda match: -match[2])
        return [Match(term, field, score, score / whole) for term, field, score in ordered]

    @classmethod
    def _of(cls, postings: Postings, settings: LexicalSettings) -> FieldedIndex:
        index = cls.__new__(cls)
        index._fill(postings, settings)
        return index

    def _fill(self, postings: Postings, settings: LexicalSettings) -> None:
        self._postings = postings
        self._settings = settings
        self._vocabulary = Vocabulary(postings.terms, settings.stem)
        self._k1 = settings.fields[0].k1  # of all, where the fields saturate as one
        self._starts = first_entries(postings)  # (e,) the first entry of each term and tool
        self._idf = idf_of(postings, self._starts, settings)  # (t, 1) or (t, f)
        self._values = values_of(postings, self._idf, settings)  # (e,)

    def _of_fields(self, asked: AskedTerms, only: Ids | None = None) -> Doubles:
        """(n, f) float64, or (r, f) for rising rows `only`."""
        f = len(self.fields)
        spans = Spans(asked.numbers, self._postings.bounds)
        rows, columns = spans.of(self._postings.rows), spans.of(self._postings.fields)
        impacts = spans.of(self._values)
        if self._settings.combine == "bm25f":
            idf = spans.each(self._idf[asked.numbers, 0])
            impacts = saturated(impacts.astype(np.float64), idf, self._k1).astype(np.float32)
        repeats = spans.each(asked.repeats) if asked.has_repeats else None
        size = len(self)
        if only is not None:
            size = len(only)
            place = np.full(len(self), -1, np.int32)
            place[only] = np.arange(size)
            rows = place[rows]
            is_wanted = rows >= 0
            rows, columns, impacts = rows[is_wanted], columns[is_wanted], impacts[is_wanted]
            repeats = None if repeats is None else repeats[is_wanted]
        return added_up(rows * f + columns, impacts, repeats, size * f).reshape(size, f)

    def _folded_impacts(
        self,
        values: Floats,
        columns: FieldNumbers,
        starts: Bools,
        terms: Ids,
        weights: Doubles,
    ) -> Floats:
        """Join the entries of each term and tool: (e,) arrays, (p,) terms, to (p,) float32."""
        pairs = np.cumsum(starts) - 1  # (e,), in [0, p)
        joined = added_up(pairs, values * weights[columns], None, len(terms))  # (p,)
        if self._settings.combine == "bm25f":
            joined = saturated(joined, self._idf[terms, 0], self._k1)
        return joined.astype(np.float32)

    def _masses(self, asked: AskedTerms) -> Doubles:
        """(f,) what each field alone would give at most."""
        mass = mass_of(asked.repeats, self._idf[asked.numbers])  # (1,) or (f,)
        return np.broadcast_to(mass, (len(self.fields),))

    def _most(self, weights: Doubles, numbers: Ids | slice = _ALL) -> Doubles:
        """(t,) what one mention of each of these terms adds at most."""
        idf = self._idf[numbers].astype(np.float64)  # (t, 1) or (t, f)
        if self._settings.combine == "bm25f":
            return idf[:, 0]
        most: Doubles = (idf * weights).sum(axis=1)
        return most
