"""How the scores of heads are mixed with scores of another kind; what a heads file keeps of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from toolheads.arrays import Floats
from toolheads.errors import ConfigError, ShapeError
from toolheads.lexical import FieldSettings, LexicalSettings

Shape = tuple[int | None, ...]
"""Of an array in a file; None takes any size of that axis."""

LARGEST_WEIGHT = 100.0
MOST_NEIGHBOURS = 1000

LEXICAL_SETTINGS = LexicalSettings(
    fields=tuple(
        FieldSettings(name, k1=1.2, b=0.75)
        for name in ("name", "server", "description", "parameters")
    ),
    stem="light",
    idf="tool",
    combine="bm25f",
)
"""Fields and formula of the lexical scores unless a heads file says otherwise."""

FIELD_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"name": 1.0, "server": 0.5, "description": 1.0, "parameters": 0.35}
)
"""Weights of these fields unless a heads file says otherwise."""


@dataclass(frozen=True)
class LexicalPart:
    """The words that a tool shares with the query."""

    weight: float
    """Of the lexical score, which is brought to the spread of the query's dense scores first."""
    fields: Mapping[str, float] = field(default_factory=lambda: FIELD_WEIGHTS)
    """Field → weight, all fields of `settings` in their order, at least one above 0."""
    settings: LexicalSettings = LEXICAL_SETTINGS
    """Fields, folding and formula."""

    def __post_init__(self) -> None:
        _check_weight(self.weight, "the weight of fusion.lexical")
        names = self.settings.names
        given: object = self.fields
        if not isinstance(given, Mapping) or set(given) != set(names):
            msg = f"fusion.lexical.fields must weigh {', '.join(names)}, got {given!r:.200}"
            raise ConfigError(msg)
        for name, weight in self.fields.items():
            if not _is_number(weight) or not 0 <= weight <= LARGEST_WEIGHT:
                msg = (
                    f"the weight of lexical field {name} must be a number in "
                    f"[0, {LARGEST_WEIGHT:g}], got {weight!r:.80}"
                )
                raise ConfigError(msg)
        if not any(self.fields.values()):
            msg = f"fusion.lexical.fields must have a weight above 0, got {dict(self.fields)}"
            raise ConfigError(msg)
        object.__setattr__(self, "weight", float(self.weight))
        weights = {name: float(self.fields[name]) for name in names}
        object.__setattr__(self, "fields", MappingProxyType(weights))

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        settings = self.settings.to_json()
        return {"weight": self.weight, "fields": dict(self.fields), "settings": settings}

    @classmethod
    def from_json(cls, data: object) -> LexicalPart:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a field is missing, unknown, or breaks its rule.
        """
        whole = _exactly(data, {"weight", "fields", "settings"}, "fusion.lexical")
        settings = LexicalSettings.from_json(whole["settings"])
        return cls(whole["weight"], whole["fields"], settings)


@dataclass(frozen=True)
class HubnessPart:
    """What is taken from tools that are near to everything."""

    weight: float
    """Of the hubness of a tool, in standard deviations over the corpus."""
    neighbours: int = 10
    """Nearest other tools that say how near a tool is to everything, in [1, 1000]."""

    def __post_init__(self) -> None:
        _check_weight(self.weight, "the weight of fusion.hubness")
        if type(self.neighbours) is not int or not 1 <= self.neighbours <= MOST_NEIGHBOURS:
            msg = (
                f"fusion.hubness.neighbours must be a whole number in [1, {MOST_NEIGHBOURS}], "
                f"got {self.neighbours!r:.80}"
            )
            raise ConfigError(msg)
        object.__setattr__(self, "weight", float(self.weight))

    def to_json(self) -> dict[str, Any]:
        """JSON types only; `from_json` reads it back."""
        return {"weight": self.weight, "neighbours": self.neighbours}

    @classmethod
    def from_json(cls, data: object) -> HubnessPart:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: If a field is missing, unknown, or breaks its rule.
        """
        whole = _exactly(data, {"weight", "neighbours"}, "fusion.hubness")
        return cls(whole["weight"], whole["neighbours"])


@dataclass(frozen=True)
class Fusion:
    """What is mixed into the dense scores of queries.

    The score of tool t for query q becomes

        dense(q, t) + spread(q) * (lexical.weight * lex(q, t) / deviation(q)
                                   - hubness.weight * hub(t))

    where spread(q) is the standard deviation over the corpus of the products of the whole query
    with the tools, deviation(q) that of the lexical scores lex(q, ·), and hub(t), standardised
    over the corpus, the mean cosine of a tool's text with its nearest other tools. So one weight
    means the same for every query, corpus and encoder. What is None or 0 is left out.

    A heads file holds `to_json()` as the field `fusion` of its header, and each of `arrays` as
    `fusion/<name>`. Reading goes the other way: `shapes` says which arrays the settings ask for,
    the file is checked against that, and `from_json` gets both.
    """

    lexical: LexicalPart | None = None
    hubness: HubnessPart | None = None
    clause_temperature: float = 0.0
    """Softens the best clause: max + T * ln(mean(exp((s - max) / T))) of the scores s of the
    clauses, 0 or in [0.001, 1]; 0 is the maximum itself, a large T nears the mean."""

    def __post_init__(self) -> None:
        check_temperature(self.clause_temperature, "fusion.clause_temperature")
        object.__setattr__(self, "clause_temperature", float(self.clause_temperature))
        if not (self.lexical or self.hubness or self.clause_temperature):
            msg = (
                "fusion must have lexical, hubness or a clause_temperature above 0, got none; "
                "leave it out"
            )
            raise ConfigError(msg)

    @classmethod
    def of(
        cls, lexical: LexicalPart | None, hubness: HubnessPart | None, clause_temperature: float
    ) -> Fusion | None:
        """The fusion of these parts; None where there is nothing to mix."""
        if not (lexical or hubness or clause_temperature):
            return None
        return cls(lexical, hubness, clause_temperature)

    def without(self, *parts: str) -> Fusion | None:
        """The fusion that is left; None if nothing is.

        Args:
            parts: Some of `lexical`, `hubness`, `clause_temperature`.
        """
        return Fusion.of(
            None if "lexical" in parts else self.lexical,
            None if "hubness" in parts else self.hubness,
            0.0 if "clause_temperature" in parts else self.clause_temperature,
        )

    @property
    def arrays(self) -> Mapping[str, Floats]:
        """Name → float32 array."""
        return MappingProxyType({})

    def to_json(self) -> dict[str, Any]:
        """The settings, JSON types only; what is not mixed is not there."""
        parts = {"lexical": self.lexical, "hubness": self.hubness}
        said: dict[str, Any] = {name: part.to_json() for name, part in parts.items() if part}
        if self.clause_temperature:
            said["clause_temperature"] = self.clause_temperature
        return said

    @classmethod
    def shapes(cls, data: object) -> dict[str, Shape]:
        """Name of each array that the settings ask for → its shape.

        Raises:
            ConfigError: If the settings break a rule.
        """
        _read(data)
        return {}

    @classmethod
    def from_json(cls, data: object, arrays: Mapping[str, Floats]) -> Fusion:
        """Read what `to_json` and `arrays` gave.

        Raises:
            ConfigError: If the settings break a rule.
            ShapeError: If there are arrays that they do not ask for.
        """
        if arrays:
            msg = f"fusion must have no arrays, got {', '.join(sorted(arrays))}"
            raise ShapeError(msg)
        return _read(data)


def _read(data: object) -> Fusion:
    known = {"lexical", "hubness", "clause_temperature"}
    if not isinstance(data, Mapping) or not data or not set(data) <= known:
        msg = f"fusion must have some of {', '.join(sorted(known))}, got {data!r:.200}"
        raise ConfigError(msg)
    fusion = Fusion(
        LexicalPart.from_json(data["lexical"]) if "lexical" in data else None,
        HubnessPart.from_json(data["hubness"]) if "hubness" in data else None,
        data.get("clause_temperature", 0.0),
    )
    if "clause_temperature" in data and not fusion.clause_temperature:
        msg = "fusion.clause_temperature must be above 0 or left out, got 0"
        raise ConfigError(msg)
    return fusion


def check_temperature(temperature: object, name: str) -> None:
    """Refuse a temperature of clauses that arithmetic in float32 could not bear.

    Raises:
        ConfigError: If it is neither 0 nor in [0.001, 1].
    """
    if not _is_number(temperature) or not (temperature == 0 or 0.001 <= temperature <= 1):  # type: ignore[operator]
        msg = f"{name} must be 0 or in [0.001, 1], got {temperature!r:.80}"
        raise ConfigError(msg)


def _exactly(data: object, names: set[str], owner: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping) or set(data) != names:
        msg = f"{owner} must have the fields {', '.join(sorted(names))}, got {data!r:.200}"
        raise ConfigError(msg)
    return data


def _check_weight(weight: object, name: str) -> None:
    if not _is_number(weight) or not 0 < weight <= LARGEST_WEIGHT:  # type: ignore[operator]
        msg = f"{name} must be a number in (0, {LARGEST_WEIGHT:g}], got {weight!r:.80}"
        raise ConfigError(msg)


def _is_number(value: object) -> bool:
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]  # a number, as checked
