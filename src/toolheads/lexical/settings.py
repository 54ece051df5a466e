"""Settings of the lexical index: which fields, how they are weighed and what words are folded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from toolheads.errors import ConfigError

FIELDS = ("name", "server", "description", "parameters", "text")
"""What of a tool can be searched in. `parameters` are the names and descriptions of the top-level
parameters; `text` is all the others as one field."""

FIELD_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"name": 3.0, "server": 1.0, "description": 1.0, "parameters": 0.5}
)
"""Weights for BM25F: the best of a few tried on training requests of eleven public data sets."""

Stem = Literal["none", "light"]
Idf = Literal["tool", "field"]
Combine = Literal["sum", "bm25f"]
Normalise = Literal["none", "best", "mass"]


def check_choice(value: object, choices: tuple[str, ...], name: str) -> None:
    """Refuse a value that is none of the choices.

    Raises:
        ConfigError: If it is none of them.
    """
    if value not in choices:
        msg = f"{name} must be one of {', '.join(choices)}, got {value!r:.80}"
        raise ConfigError(msg)


def _is_number(value: object) -> bool:
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]  # a number, as checked


@dataclass(frozen=True)
class FieldSettings:
    """One field and how its words count."""

    field: str
    """One of `FIELDS`."""
    k1: float = 1.5
    """How much a word counts that the field repeats, finite and >= 0."""
    b: float = 0.75
    """How much longer fields are held back, in [0, 1]."""

    def __post_init__(self) -> None:
        check_choice(self.field, FIELDS, "field")
        if not _is_number(self.k1) or self.k1 < 0:
            msg = f"k1 must be a finite number >= 0, got {self.k1!r}"
            raise ConfigError(msg)
        if not _is_number(self.b) or not 0 <= self.b <= 1:
            msg = f"b must be in [0, 1], got {self.b!r}"
            raise ConfigError(msg)


@dataclass(frozen=True)
class LexicalSettings:
    """How an index counts and scores words."""

    fields: tuple[FieldSettings, ...] = (
        FieldSettings("name"),
        FieldSettings("server"),
        FieldSettings("description"),
        FieldSettings("parameters"),
    )
    """The fields, each once, in the order of the last axis of the scores."""
    stem: Stem = "none"
    """`light` lets English plurals, -ing and -ed forms match each other; see `stemming`."""
    idf: Idf = "tool"
    """A word is as rare as the tools that have it in any field (`tool`), or as the tools that
    have it in the field that is scored (`field`)."""
    combine: Combine = "bm25f"
    """`bm25f` weighs the frequencies before they saturate, so that a word in two fields counts
    little more than in one; it needs the same k1 for all fields and the idf of tools. `sum` adds
    the weighted scores of the fields."""

    def __post_init__(self) -> None:
        names = [f.field for f in self.fields]
        if not names or len(set(names)) != len(names):
            listed = ", ".join(names) or "none"
            msg = f"fields must be at least one, each once, got {listed}"
            raise ConfigError(msg)
        check_choice(self.stem, get_args(Stem), "stem")
        check_choice(self.idf, get_args(Idf), "idf")
        check_choice(self.combine, get_args(Combine), "combine")
        if self.combine == "bm25f" and self.idf != "tool":
            msg = f"idf must be tool with combine bm25f, got {self.idf}"
            raise ConfigError(msg)
        if self.combine == "bm25f" and len({f.k1 for f in self.fields}) > 1:
            listed = ", ".join(f"{f.field} {f.k1}" for f in self.fields)
            msg = f"k1 must be the same for all fields with combine bm25f, got {listed}"
            raise ConfigError(msg)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(f.field for f in self.fields)

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return asdict(self) | {"fields": [asdict(f) for f in self.fields]}

    @classmethod
    def from_json(cls, data: object) -> LexicalSettings:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a field is missing, unknown, or breaks its rule.
        """
        whole = _exactly(data, cls, "lexical settings")
        if not isinstance(whole["fields"], (list, tuple)):
            msg = f"fields must be a list, got {whole['fields']!r:.80}"
            raise ConfigError(msg)
        listed = [
            _exactly(f, FieldSettings, "a field of the lexical settings") for f in whole["fields"]
        ]
        return cls(**whole | {"fields": tuple(FieldSettings(**f) for f in listed)})


def _exactly(data: object, kind: type, name: str) -> dict[str, Any]:
    names = {f.name for f in fields(kind)}
    if not isinstance(data, Mapping) or set(data) != names:
        msg = f"{name} must have the fields {', '.join(sorted(names))}, got {data!r:.200}"
        raise ConfigError(msg)
    return dict(data)
