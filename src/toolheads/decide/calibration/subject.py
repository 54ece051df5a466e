"""What thresholds were measured on: a scorer, and a kind of catalogue. They fit nothing else."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from toolheads.domain import Tool
from toolheads.heads import Head
from toolheads.identity import Fingerprint
from toolheads.ports import Scorer
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.rank_fusion import RankFusion
from toolheads.scorers.recipe import Recipe
from toolheads.texts.formats import schema_parameters

SIZE_FACTOR = 4.0
"""Catalogues from a quarter of the smallest size to four times the largest are of one kind: the
best wrong score grows with the number of tools, if slowly."""

LENGTH_FACTOR = 3.0
"""The same for the words of a description: duplicate thresholds depend on them."""

SHARE_SLACK = 0.5
"""Largest difference in the share of tools that have a server, or a schema."""


@runtime_checkable
class HasRecipe(Protocol):
    """A scorer over vectors."""

    @property
    def ranks(self) -> RankFusion | None:
        """How words are mixed in by rank; None where they are not."""
        ...

    @property
    def recipe(self) -> Recipe:
        """What its scores are made of."""
        ...

    @property
    def fingerprint(self) -> Fingerprint:
        """Encoder and text settings of its vectors."""
        ...


def subject_of(scorer: Scorer) -> dict[str, Any]:
    """What shapes the scores of a scorer, JSON types.

    Of a scorer over vectors see `subject_of_vectors`. Of others `scorer` is the name, with
    parameters where it has some. A scorer of another package has its name, and what
    `calibration_subject()` gives where it has this method.
    """
    if isinstance(scorer, HasRecipe):
        return subject_of_vectors(scorer.recipe, scorer.ranks, scorer.fingerprint)
    subject: dict[str, Any] = {"scorer": scorer.name}
    if isinstance(scorer, BM25Scorer):
        subject |= {"k1": scorer.k1, "b": scorer.b}
    own = getattr(scorer, "calibration_subject", None)
    if callable(own):
        subject |= own()
    return subject


def subject_of_vectors(
    recipe: Recipe, ranks: RankFusion | None, fingerprint: Fingerprint
) -> dict[str, Any]:
    """What shapes scores by vectors, JSON types, whoever scores with them.

    `encoder` and `texts` are those of the vectors, `recipe` is a digest over heads, views and
    fusion.
    """
    made_of = {"scorer": "vectors", "recipe": _recipe_sha256(recipe, ranks)}
    return made_of | fingerprint.to_json()


def subject_difference(expected: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """Name what differs, as `recipe 'ab' != 'cd'`; empty if nothing does."""
    one, two = _flat(expected), _flat(got)
    names = dict.fromkeys([*one, *two])
    return ", ".join(
        f"{name} {one.get(name)!r:.80} != {two.get(name)!r:.80}"
        for name in names
        if one.get(name) != two.get(name)
    )


@dataclass(frozen=True)
class Range:
    """The least and the most of something over catalogues."""

    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        """That of one or more values."""
        return cls(round(min(values), 4), round(max(values), 4))

    def distance(self, other: Range) -> float:
        """How far another range reaches out of this one; 0 if it does not."""
        return max(0.0, self.least - other.least, other.most - self.most)


@dataclass(frozen=True)
class CatalogueKind:
    """What makes catalogues alike as far as thresholds go: between which bounds they lie."""

    tools: Range
    """Number of tools."""
    with_server: Range
    """Share of tools that belong to a server."""
    with_schema: Range
    """Share of tools with parameters."""
    description_words: Range
    """Median number of words of a description."""

    @classmethod
    def of(cls, catalogues: Sequence[Sequence[Tool]]) -> CatalogueKind:
        """That of one or more catalogues, none of them empty."""
        return cls(
            tools=Range.of([len(tools) for tools in catalogues]),
            with_server=Range.of([_share(t.server is not None for t in c) for c in catalogues]),
            with_schema=Range.of([_share(map(_has_parameters, c)) for c in catalogues]),
            description_words=Range.of([_median_words(c) for c in catalogues]),
        )

    @property
    def fewest_tools(self) -> int:
        """Tools of the smallest catalogue that is of this kind."""
        return math.ceil(self.tools.least / SIZE_FACTOR)

    def difference(self, other: CatalogueKind) -> str:
        """Why catalogues of the other kind are not of this one; empty if they are."""
        reasons = []
        least, most = self.tools.least / SIZE_FACTOR, self.tools.most * SIZE_FACTOR
        if other.tools.least < least or other.tools.most > most:
            got = _between(other.tools, ",.0f")
            reasons.append(f"{got} tools, not {least:,.0f} to {most:,.0f}")
        for name, what in (("with_server", "a server"), ("with_schema", "parameters")):
            own, its = getattr(self, name), getattr(other, name)
            if own.distance(its) > SHARE_SLACK:
                reasons.append(
                    f"{_between(its, '.0%')} of tools with {what}, not {_between(own, '.0%')}"
                )
        own, its = self.description_words, other.description_words
        shortest, longest = max(1.0, own.least), max(1.0, own.most)
        if its.most > LENGTH_FACTOR * longest or max(1.0, its.least) < shortest / LENGTH_FACTOR:
            reasons.append(f"descriptions of {_between(its, 'g')} words, not {_between(own, 'g')}")
        return ", ".join(reasons)

    def distance(self, other: CatalogueKind) -> float:
        """How far catalogues of another kind are from this one; 0 if they lie within its bounds.

        By size and parameters, which scores depend on: the best of many scores higher, and words of
        parameters are shared too.
        """
        size = Range(*(math.log(max(1.0, n)) for n in (other.tools.least, other.tools.most)))
        own = Range(*(math.log(max(1.0, n)) for n in (self.tools.least, self.tools.most)))
        return own.distance(size) + self.with_schema.distance(other.with_schema)

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CatalogueKind:
        """Read what `to_json` wrote.

        Raises:
            TypeError: If a field is missing or unknown.
        """
        return cls(**{name: Range(**value) for name, value in data.items()})


def _between(bounds: Range, form: str) -> str:
    ends = dict.fromkeys(f"{end:{form}}" for end in (bounds.least, bounds.most))
    return " to ".join(ends)


def _recipe_sha256(recipe: Recipe, ranks: RankFusion | None) -> str:
    digest = hashlib.sha256()
    for head in (recipe.state, recipe.action):
        _add_head(digest, head)
    fusion = None if recipe.fusion is None else recipe.fusion.to_json()
    by_rank = None if ranks is None else asdict(ranks)
    settings = json.dumps([recipe.views.to_json(), fusion, by_rank], sort_keys=True)
    digest.update(settings.encode())
    return digest.hexdigest()


def _add_head(digest: Any, head: Head) -> None:
    digest.update(repr((head.alpha, head.kept, head.projection_width)).encode())
    if head.alpha == 0:  # weights that change nothing
        return
    digest.update(repr(head.architecture).encode())
    for name in sorted(head.weights):
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(head.weights[name]).tobytes())
    digest.update(b"" if head.centre is None else head.centre.tobytes())


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _share(flags: Iterable[bool]) -> float:
    given = list(flags)
    return sum(given) / len(given)


def _has_parameters(tool: Tool) -> bool:
    return any(True for _ in schema_parameters(tool.input_schema))


def _median_words(tools: Sequence[Tool]) -> float:
    return float(statistics.median(len(tool.description.split()) for tool in tools))
