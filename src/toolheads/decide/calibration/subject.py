"""What thresholds were measured on: a scorer, and a kind of catalogue. They fit nothing else."""

from __future__ import annotations

import hashlib
import json
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

    `scorer` is its name; `encoder` and `texts` those of its vectors; `recipe` a digest over heads,
    views and fusion. A scorer of another package has its name, and what `calibration_subject()`
    gives where it has this method.
    """
    subject: dict[str, Any] = {"scorer": scorer.name}
    if isinstance(scorer, HasRecipe):
        recipe = _recipe_sha256(scorer.recipe, scorer.ranks)
        subject |= scorer.fingerprint.to_json() | {"recipe": recipe}
    if isinstance(scorer, BM25Scorer):
        subject |= {"k1": scorer.k1, "b": scorer.b}
    own = getattr(scorer, "calibration_subject", None)
    if callable(own):
        subject |= own()
    return subject


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
class CatalogueKind:
    """What makes catalogues alike as far as thresholds go."""

    least_tools: int
    most_tools: int
    with_server: float
    """Share of tools that belong to a server."""
    with_schema: float
    """Share of tools with parameters."""
    description_words: float
    """Median number of words of a description."""

    @classmethod
    def of(cls, catalogues: Sequence[Sequence[Tool]]) -> CatalogueKind:
        """That of one or more catalogues, none of them empty. Each counts the same."""
        sizes = [len(tools) for tools in catalogues]

        def mean(values: Sequence[float]) -> float:
            return round(sum(values) / len(values), 4)

        return cls(
            least_tools=min(sizes),
            most_tools=max(sizes),
            with_server=mean([_share(t.server is not None for t in c) for c in catalogues]),
            with_schema=mean([_share(map(_has_parameters, c)) for c in catalogues]),
            description_words=mean([_median_words(c) for c in catalogues]),
        )

    def difference(self, other: CatalogueKind) -> str:
        """Why catalogues of the other kind are not of this one; empty if they are."""
        reasons = []
        least, most = self.least_tools / SIZE_FACTOR, self.most_tools * SIZE_FACTOR
        if other.least_tools < least or other.most_tools > most:
            sizes = sorted({other.least_tools, other.most_tools})
            got = " to ".join(f"{size:,}" for size in sizes)
            reasons.append(f"{got} tools, not {least:,.0f} to {most:,.0f}")
        for name, what in (("with_server", "a server"), ("with_schema", "parameters")):
            one, two = getattr(self, name), getattr(other, name)
            if abs(one - two) > SHARE_SLACK:
                reasons.append(f"{two:.0%} of tools with {what}, not {one:.0%}")
        one, two = (max(1.0, kind.description_words) for kind in (self, other))
        if not 1 / LENGTH_FACTOR <= two / one <= LENGTH_FACTOR:
            reasons.append(f"descriptions of {two:g} words, not {one:g}")
        return ", ".join(reasons)

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


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
